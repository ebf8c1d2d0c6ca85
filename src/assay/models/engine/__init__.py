"""The engine: inference over the prefix tree of all requests, so that no token is computed twice.

In: encoded requests and a loaded network. Out: log-likelihoods and generated texts. Used by
`hf/decoder/decoder_model.py`; see docs/engine.md.
"""
