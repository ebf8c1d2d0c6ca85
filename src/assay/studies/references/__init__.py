"""Published numbers of a benchmark beside those of a run: the same model's score, and what differs in protocol."""
