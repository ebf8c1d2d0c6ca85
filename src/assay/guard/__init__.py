"""Time and memory limits for templates, regular expressions and chat templates from outside files.

In: work requested by a file. Out: its result or a `LimitError`. May import: core, jinja2.
"""
