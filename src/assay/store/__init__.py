"""What is remembered: one SQLite file with responses, models, runs and documents' values; the only user of sqlite3.

Takes responses, run records and values, gives them back by key. May import: core.
"""
