"""Notices: caveats that the numbers of a run do not show, and options that had no effect."""
