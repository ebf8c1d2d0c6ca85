"""What a server is and can do: its limits, its tokenizer, and the probe of its log-likelihoods."""
