"""Variants of a task: style, prompt, seed, order, draw, other metrics."""
