"""Dialects: one file per form of request, with the request body, the reading of the answer, and the limits."""
