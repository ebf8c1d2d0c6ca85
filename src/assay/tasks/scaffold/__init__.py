"""A task file from a data file: what its columns hold, which format fits, the YAML.

Takes rows and the user's corrections, gives a guess with its doubts and the text of a task file. May import: tasks,
data, core.
"""
