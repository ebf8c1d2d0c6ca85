"""Statistics: numbers in, estimates out, without knowledge of tasks or models. May import: core, numpy, scipy."""
