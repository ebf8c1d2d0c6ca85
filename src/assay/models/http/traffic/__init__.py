"""Requests to a server: sending, retries, pauses, limits of rates, parameters that a model refuses.

In: exchanges. Out: what their answers say, or failures. Imports `spending`, which is asked before a request is sent.
"""
