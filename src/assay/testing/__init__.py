"""The conformance kit for plugin and task authors: contract checks, a scripted model, toy tasks.

Takes a model or a task and checks it against the rules of its protocol; takes a benchmark and checks what must hold for
it whatever the model. May import: everything below `assay.cli`.
"""

from assay.testing.benchmark_values import CheckedTask, Finding
from assay.testing.benchmarks import check_benchmark, check_benchmarks
from assay.testing.contracts import check_model, check_task
from assay.testing.scripted import ScriptedModel
from assay.testing.toys import ToyTask, toy_choice_task, toy_generation_task, toy_perplexity_task

__all__ = [
    "CheckedTask",
    "Finding",
    "ScriptedModel",
    "ToyTask",
    "check_benchmark",
    "check_benchmarks",
    "check_model",
    "check_task",
    "toy_choice_task",
    "toy_generation_task",
    "toy_perplexity_task",
]
