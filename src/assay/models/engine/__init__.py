"""The engine: inference over the prefix tree of all requests, so that no token is computed twice.

Takes encoded requests and a loaded network; gives log-likelihoods and generated texts. Used by
`hf/decoder/decoder_model.py`; see docs/engine.md.
"""
