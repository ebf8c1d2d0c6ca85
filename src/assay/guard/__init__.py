"""Limits on what files from outside may cost: templates, regular expressions, chat templates.

Takes work that such a file asks for, gives its result or a `LimitError`. May import: core, jinja2.
"""
