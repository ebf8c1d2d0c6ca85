"""What happens during a run, as values. A listener shows them; nothing depends on what it does with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage begins: `resolve`, `documents`, `pose`, `plan`, `execute`, `score`."""

    stage: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan is made."""

    posed: int
    unique: int
    known: int
    missing: int
    work: int


@dataclass(frozen=True, slots=True)
class Progressed:
    """Some work is done. `what` names it: `requests`, or a download."""

    what: str
    done: int
    total: int | None
    work_done: int = 0
    work_total: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something the user ought to know."""

    text: str


Event = Union[StageStarted, Planned, Progressed, Noticed]
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener that shows nothing."""
