"""Models of transformers: what decoders, encoder-decoders and encoders share, and a folder for each."""
