"""Studies of runs: one folder each, with its values, its computation and its report; `analyses` lists those of a run.

In: recorded runs and results. Out: comparisons, explanations, matrices, analyses, as values and as text.
May import: run, report, tasks, models, store, scoring, data, stats, guard, core.
"""
