"""What must be asked: duplicates dropped, known answers subtracted, the work ahead estimated. Pure.

Takes instances and known keys, gives a plan. May import: core.
"""
