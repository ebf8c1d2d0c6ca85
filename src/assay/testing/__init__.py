"""The kit for authors of plugins and tests: a scripted model, contract checks and toy tasks.

Takes a model or a task, gives it a thorough look. May import: `assay.core` only.
"""

from assay.testing.contracts import check_model, check_task
from assay.testing.scripted import ScriptedModel
from assay.testing.toys import ToyTask, toy_choice_task, toy_generation_task, toy_perplexity_task

__all__ = [
    "ScriptedModel",
    "ToyTask",
    "check_model",
    "check_task",
    "toy_choice_task",
    "toy_generation_task",
    "toy_perplexity_task",
]
