"""What is asked of finished runs: one folder per study, with its values, its computation and its report.

Takes: recorded runs and results. Gives: comparisons, explanations, matrices, analyses, as values and as text.
May import: run, report, tasks, models, store, scoring, data, stats, guard, core.
"""
