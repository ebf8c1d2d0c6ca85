"""Causal language models such as GPT, Llama and Qwen."""
