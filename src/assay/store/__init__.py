"""What is remembered: one SQLite file with responses, models and runs; the only user of sqlite3.

Takes responses and run records, gives them back by key. May import: core.
"""
