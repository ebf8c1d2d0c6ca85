"""Encoder-decoders (T5, BART kind)."""
