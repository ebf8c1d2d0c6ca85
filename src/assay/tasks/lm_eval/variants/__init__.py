"""The same task asked another way: style, prompt, seed, order, draw, other metrics."""
