"""Storage: one SQLite file with responses, models, runs and document values; the only user of sqlite3.

In: responses, run records and values. Out: the same, by key. May import: core.
"""
