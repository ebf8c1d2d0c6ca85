"""From model arguments to a loaded network: checkpoint files, fingerprint, tokenizer, weights, quantisation."""
