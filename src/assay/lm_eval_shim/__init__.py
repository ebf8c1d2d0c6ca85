"""The names of lm-eval that Python code of task files imports, with our own meaning behind them.

Takes imports of task code, gives `SHIM`, which the loader of such code asks. May import: tasks, scoring, core.
"""
