"""Encoders (BERT kind): classifier heads and masked language models."""
