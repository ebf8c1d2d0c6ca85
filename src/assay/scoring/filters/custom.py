"""Filters defined by a task: functions and objects that lm-eval would call once for the whole task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assay.core.errors import Fault, UserError
from assay.core.plural import plural
from assay.core.protocols import Filter


class TaskFilter:
    """A filter object of a task. It is called document by document and must not rely on seeing all of them.

    Args:
        filter: has `apply(responses, documents)`; both lists have one entry per question.
    """

    def __init__(self, filter: Any) -> None:
        self.filter = filter

    def __call__(self, responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        return _called(self.filter.apply, responses, document)


def custom(filter_fn: Callable[[list[Any], list[Any]], Any]) -> Filter:
    """A filter from a function of the task: (responses, documents) → responses."""
    if not callable(filter_fn):
        raise TypeError("filter_fn must be a function (!function module.name)")

    def apply(responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        return _called(filter_fn, responses, document)

    return apply


def _called(function: Callable[..., Any], responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
    # One dict for all questions of the document, as in lm-eval; a copy of ours. The result may be an iterator.
    found = list(function(list(responses), [dict(document)] * len(responses)))
    if len(found) != len(responses):
        raise ValueError(f"returned {plural(len(found), 'result')} for {plural(len(responses), 'question')}")
    return found


def decontaminate(path: str = "") -> Filter:
    """Rejected: a stub in lm-eval. Its filter returns nothing, so a run that uses it fails there too."""
    raise UserError(
        Fault(
            "filter decontaminate",
            "is a stub in lm-eval, and nothing in Assay removes contaminated documents",
            next="Remove it from filter_list",
        )
    )
