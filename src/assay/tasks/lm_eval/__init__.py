"""The lm-eval YAML dialect: read → schema → definition → task. Its terms are used only here.

Takes task files and options, gives tasks and groups. May import: core and the rest of tasks.
"""
