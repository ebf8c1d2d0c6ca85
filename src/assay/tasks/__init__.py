"""Tasks: definitions, prompts, few-shot examples and instances.

Takes names and options, gives tasks that build documents into instances. May import: core.
"""
