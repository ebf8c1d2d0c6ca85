"""Error text for an object that is not a model or not a task: what is expected, and how to write one.

In: the object found. Out: the expected and next parts of the message; `core.annotations` finds what an object lacks.
"""

from __future__ import annotations

import os
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_EXPECTED_MODEL = (
    'a name such as "hf" (see: assay ls models), or an object with fingerprint, capabilities, respond(requests) and '
    "close()"
)
_EXPECTED_TASK = 'a name such as "demo_questions" (see: assay ls tasks), the path of a task file, or a task object'
# Packages whose networks and tokenizers users may pass by mistake.
_NETWORK_PACKAGES = ("transformers", "peft", "torch")
_MODEL_EXAMPLE = """For example:
    class MyModel:
        fingerprint = assay.Fingerprint("my-model")
        capabilities = assay.Capabilities(frozenset({{"generation"}}))
        def respond(self, requests):
            for place, request in enumerate(requests):
                yield place, assay.Text({name}(request.prompt))
        def close(self):
            pass"""
_TASK_EXAMPLE = """For example:
    @assay.task("my_task", rows=[{"question": "2 + 2 =", "answer": " 4"}])
    def my_task(row):
        return assay.Complete(row["question"], row["answer"])"""
_SAVE_ADVICE = (
    'Save it with its tokenizer: model.save_pretrained("DIR") and tokenizer.save_pretrained("DIR"); then give "hf" as '
    'the model, and model_args={"pretrained": "DIR"}'
)


@dataclass(frozen=True, slots=True)
class MismatchAdvice:
    """The second half of an error: what was expected, and what to do next."""

    expected: str
    next: str = ""


def mismatch_advice(protocol: str, value: Any) -> MismatchAdvice | None:
    """The advice for a value that does not fit a protocol; None for protocols that users rarely implement."""
    if isinstance(value, type):
        return MismatchAdvice("an object of that class", f"Make one: {value.__name__}(…)")
    return {"Model": _model_advice, "Task": _task_advice}.get(protocol, lambda _: None)(value)


def _model_advice(value: Any) -> MismatchAdvice:
    if isinstance(value, os.PathLike):
        return MismatchAdvice(
            _EXPECTED_MODEL, f'Give "hf" as the model, and model_args={{"pretrained": "{os.fspath(value)}"}}'
        )
    origins = {kind.__module__.partition(".")[0] for kind in type(value).__mro__}
    if origins.intersection(_NETWORK_PACKAGES):
        return MismatchAdvice(_EXPECTED_MODEL, _SAVE_ADVICE)
    if not callable(value):
        return MismatchAdvice(_EXPECTED_MODEL, "See: help(assay.Model)")
    name = getattr(value, "__name__", "")
    return MismatchAdvice(_EXPECTED_MODEL, _MODEL_EXAMPLE.format(name=name if name.isidentifier() else "answer"))


def _task_advice(value: Any) -> MismatchAdvice:
    if isinstance(value, types.FunctionType):
        return MismatchAdvice(_EXPECTED_TASK, f"Write @assay.task above it. {_TASK_EXAMPLE}")
    if isinstance(value, Mapping):
        return MismatchAdvice(
            _EXPECTED_TASK, f"Write it into a YAML file and give its path, or write the task in Python. {_TASK_EXAMPLE}"
        )
    if isinstance(value, Sequence):
        return MismatchAdvice("one list of tasks, without lists in it")
    return MismatchAdvice(_EXPECTED_TASK, "See: help(assay.Task)")
