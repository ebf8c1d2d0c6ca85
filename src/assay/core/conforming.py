"""What to say of an object that is not a model or not a task: what one is, and how to make one.

Takes what stands in the place of one, gives the error's words; `core.annotations` finds out what an object lacks.
"""

from __future__ import annotations

import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_A_MODEL = (
    'a name such as "hf" (see: assay ls models), or an object with fingerprint, capabilities, respond(requests) and '
    "close()"
)
_A_TASK = 'a name such as "demo_questions" (see: assay ls tasks), the path of a task file, or a task object'
# Packages whose networks and tokenizers people hold in their hands.
_NETWORKS = ("transformers", "peft", "torch")
_MODEL_LINES = """For example:
    class MyModel:
        fingerprint = assay.Fingerprint("my-model")
        capabilities = assay.Capabilities(frozenset({{"generation"}}))
        def respond(self, requests):
            for place, request in enumerate(requests):
                yield place, assay.Text({name}(request.prompt))
        def close(self):
            pass"""
_TASK_LINES = """For example:
    @assay.task("my_task", rows=[{"question": "2 + 2 =", "answer": " 4"}])
    def my_task(row):
        return assay.Complete(row["question"], row["answer"])"""
_SAVED = (
    'Save it with its tokenizer: model.save_pretrained("DIR") and tokenizer.save_pretrained("DIR"); then give "hf" as '
    'the model, and model_args={"pretrained": "DIR"}'
)


@dataclass(frozen=True, slots=True)
class Told:
    """The words of an error: what was expected, and what to do next."""

    expected: str
    next: str = ""


def told_of(protocol: str, value: Any) -> Told | None:
    """What to say of a value that does not fit a protocol; None for protocols that people rarely meet."""
    if isinstance(value, type):
        return Told("an object of that class", f"Make one: {value.__name__}(…)")
    return {"Model": _of_model, "Task": _of_task}.get(protocol, lambda _: None)(value)


def _of_model(value: Any) -> Told:
    if isinstance(value, os.PathLike):
        return Told(_A_MODEL, f'Give "hf" as the model, and model_args={{"pretrained": "{os.fspath(value)}"}}')
    origins = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    if origins.intersection(_NETWORKS):
        return Told(_A_MODEL, _SAVED)
    if not callable(value):
        return Told(_A_MODEL, "See: help(assay.Model)")
    name = getattr(value, "__name__", "")
    return Told(_A_MODEL, _MODEL_LINES.format(name=name if name.isidentifier() else "answer"))


def _of_task(value: Any) -> Told:
    if isinstance(value, types.FunctionType):
        return Told(_A_TASK, f"Write @assay.task above it. {_TASK_LINES}")
    if isinstance(value, Mapping):
        return Told(_A_TASK, f"Write it into a YAML file and give its path, or write the task in Python. {_TASK_LINES}")
    if isinstance(value, Sequence):
        return Told("one list of tasks, without lists in it")
    return Told(_A_TASK, "See: help(assay.Task)")
