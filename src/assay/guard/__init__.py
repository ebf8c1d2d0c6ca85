"""Time and memory limits for templates, regular expressions and chat templates from outside files.

In: work that such a file requests. Out: its result or a `LimitError`. May import: core, jinja2.
"""
