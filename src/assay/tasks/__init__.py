"""What is asked: task definitions, their data, prompts and few-shot examples.

Takes names and options, gives tasks that pose documents as instances. May import: core.
"""
