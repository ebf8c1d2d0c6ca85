"""Notices: what the numbers of a run do not show, and options that had no effect."""
