"""What is asked: task definitions, their data, prompts and few-shot examples.

Takes names and options, gives tasks that build documents into instances. May import: core.
"""
