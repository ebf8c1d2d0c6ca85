"""What the studies share: matching documents, paired tests, intervals, verdicts, reopened runs."""
