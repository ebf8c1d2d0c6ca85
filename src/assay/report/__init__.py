"""Reports of results, for people and programs: tables, the terminal, result files, figures.

Takes results, comparisons, studies and matrices; figures take plain numbers. May import: stats, core.
"""
