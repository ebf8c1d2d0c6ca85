"""The pieces of `python -m bench.vs_lm_eval`: workloads, two workers, the tree's minimum, agreement, the table.

`reference.py` runs in lm-eval's Python, so neither it nor `channel.py`, `counting.py` and `tree.py` import assay.
"""
