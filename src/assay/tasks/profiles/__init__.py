"""Profiles: how other tools prompt and score multiple-choice tasks, as data files that name their sources.

Takes a profile's name or file and a task's definition, gives definitions that prompt as the tool does. May import:
core and the rest of tasks.
"""
