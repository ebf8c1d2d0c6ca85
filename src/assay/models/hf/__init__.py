"""transformers models: what all families share, and a folder each for decoders, encoder-decoders and encoders."""
