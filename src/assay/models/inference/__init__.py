"""Padded batches: batch limits, log-likelihoods, generation and stop criteria; the reference for the engine."""
