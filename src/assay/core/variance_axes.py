"""Names of the axes along which a task is varied, and of its variants: `task@prompt#seed=3#order=2`."""

from __future__ import annotations

import re

DOCUMENT, PROMPT, SEED, ORDER, DRAW = "document", "prompt", "seed", "order", "draw"
# Between the names of factors that act together.
COMBINED = " × "
# Stands behind a task's name: the levels at which it was asked. A name may well have a # of its own, such as c#.
_LEVELS = re.compile(rf"(?:#(?:{SEED}|{ORDER})=-?\d+)+\Z")


def base_name(name: str) -> str:
    """The name of a task without the levels at which it was asked."""
    return _LEVELS.sub("", name)


def task_family(name: str) -> str:
    """The task that a name asks in one of several ways: without levels, prompt and style. All have its documents."""
    return base_name(name).partition("@")[0]


def is_variant(name: str) -> bool:
    """Whether a task was asked at levels of an axis."""
    return _LEVELS.search(name) is not None
