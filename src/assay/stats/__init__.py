"""Numbers in, estimates out. Knows nothing of tasks or models. May import: core, numpy, scipy."""
