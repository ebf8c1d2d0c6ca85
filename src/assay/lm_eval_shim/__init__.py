"""Replacements for the lm-eval modules that Python code of task files imports.

Takes imports of task code, gives `SHIM`, which the loader of such code uses. May import: tasks, scoring, core.
"""
