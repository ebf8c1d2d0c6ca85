"""Verifies, document by document, that Assay builds requests and scores as lm-eval 0.4.13 does.

In: task names. Out: a table of differences, and exit code 0 if there are none. Two worker processes write
one JSON Lines file each, lm-eval in its own Python and Assay in this one; then the files are compared.

Everything that the reference workers import (job, records, script, conversation, reference, reference_scores,
reference_loading) uses the standard library and lm-eval alone, and never Assay.
"""
