"""Data sources: the Hugging Face Hub, local files, memory.

Takes: dataset ids and paths of task files. Gives: rows by split. The only user of `datasets`.
May import: core, guard, stats.
"""
