"""Variance of a score over prompts, few-shot seeds, orders of the choices and draws."""
