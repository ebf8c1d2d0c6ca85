"""Scoring: filters, scorers, metrics and aggregation. Pure functions.

In: documents, instances and outputs. Out: samples and estimates. Imports core, stats and guard only.
"""
