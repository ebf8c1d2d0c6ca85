"""What was found, for people and programs: tables, the terminal, result files, figures.

Takes a RunResult and nothing else; figures take plain numbers. May import: stats, core.
"""
