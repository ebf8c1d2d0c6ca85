"""Scorers: what one document's filtered outputs are worth, per question shape.

Each module has a view (the document as a metric sees it) and the value functions that read it.
"""
