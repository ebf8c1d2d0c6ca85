"""Text to token ids and back: chat templates, demonstrations, tokenisation rules, and encoded requests."""
