"""Encoder-decoders such as T5 and BART."""
