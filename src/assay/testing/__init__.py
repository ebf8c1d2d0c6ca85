"""The conformance kit for plugin authors: contract checks for models and tasks, a scripted model, toy tasks.

Takes a model or a task, checks it against the rules of its protocol. May import: `assay.core` only.
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
