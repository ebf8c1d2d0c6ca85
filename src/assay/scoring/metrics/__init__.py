"""Metrics: which value of a document they read, and how the values become an estimate."""
