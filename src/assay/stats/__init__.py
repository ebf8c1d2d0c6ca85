"""Statistics: numbers in, estimates out, without knowledge of tasks or models. Imports core, numpy and scipy only."""
