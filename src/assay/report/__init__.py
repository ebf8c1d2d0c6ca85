"""What was found, for people and programs: tables, the terminal, result files.

Takes a RunResult and nothing else. May import: stats, core.
"""
