"""Evaluating part of a task: random subsamples, reference runs as control variates, early stopping."""
