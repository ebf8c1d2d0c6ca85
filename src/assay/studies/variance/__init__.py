"""How far a score moves with the prompt, the few-shot seed, the order of choices and the draw."""
