"""The lm-eval YAML dialect: read → schema → definition → task. Its terms stay in this package.

Takes task files and options, gives tasks and groups. May import: core and the rest of tasks.
"""
