"""How good it is: filters, scorers, metrics, aggregates. Pure.

Takes documents, instances and outputs, gives samples and estimates. May import: core, stats.
"""
