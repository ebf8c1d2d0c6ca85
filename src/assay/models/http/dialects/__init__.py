"""Dialects: one file per form of request, with the request body, the reading of the answer, and the limits.

A provider with an API of its own is one file here and one line in `models/model_registry.py`: docs/http-dialects.md.
"""
