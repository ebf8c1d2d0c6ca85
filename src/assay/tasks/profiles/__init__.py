"""Profiles: how other tools ask multiple-choice questions and score them, as data files with their sources named.

Takes a profile's name or file and a task's definition, gives the definitions that ask as the tool does. May import:
core and the rest of tasks.
"""
