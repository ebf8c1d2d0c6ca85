"""Metrics: the value they take from a document, and how values are aggregated to an estimate."""
