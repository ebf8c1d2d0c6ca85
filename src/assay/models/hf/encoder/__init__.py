"""Encoders such as BERT: classifier, multiple-choice and span heads, their training, and masked language models."""
