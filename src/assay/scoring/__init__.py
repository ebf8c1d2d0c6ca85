"""Scoring: filters, scorers, metrics and aggregation. Pure functions.

In: documents, instances and outputs. Out: samples and estimates. May import: core, stats, guard.
"""
