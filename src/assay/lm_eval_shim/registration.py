"""`lm_eval.api.registry`: task code may give its filters a name that task files use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

# Name → filter class, as task code has registered them.
FILTERS: dict[str, Callable[..., Any]] = {}

_Class = TypeVar("_Class", bound=type)


def register_filter(*names: str) -> Callable[[_Class], _Class]:
    """Makes a filter class known to task files under one or more names; the latest one wins."""

    def keep(own: _Class) -> _Class:
        FILTERS.update(dict.fromkeys(names, own))
        return own

    return keep


def register_task(*names: str) -> Callable[[_Class], _Class]:
    """Task classes are found through task files; the mark is accepted and does nothing."""
    return lambda own: own
