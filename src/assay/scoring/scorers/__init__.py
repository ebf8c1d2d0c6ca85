"""Scorers: the value of one document's filtered outputs, per output type.

Each module has a view (what a metric sees of a document) and the value functions that read it.
"""
