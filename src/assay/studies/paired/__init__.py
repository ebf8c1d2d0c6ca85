"""Shared parts of the studies: matching documents, paired tests, intervals, verdicts, reopened runs."""
