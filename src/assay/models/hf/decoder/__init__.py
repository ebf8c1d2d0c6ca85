"""Causal language models (GPT kind)."""
