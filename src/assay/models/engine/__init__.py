"""The engine: reads the prefix tree of many requests so that no token is computed twice.

Takes encoded requests and a loaded network; gives log-likelihoods and texts. May import `assay.core` and its
neighbours in `assay.models`; only `causal.py` calls it.
"""
