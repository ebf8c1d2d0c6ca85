"""What happens during a run, as values. A listener shows them; nothing depends on what it does with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Union

from assay.core.secrets import redacted_text
from assay.core.training import FitProgress


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage begins: `resolve`, `lessons`, `fit`, `pose`, `plan`, `lap`, `execute`, `score`; or the next `model`."""

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
    """Some work is done.

    Attributes:
        what: names it: `requests`, or a download.
        done: how many of them.
        total: of how many; None when that is not known.
        work_done: what they cost: operations where the model counts them, characters elsewhere.
        work_total: the same for all of them, as far as is known now.
        failed: requests that failed.
        tokens: tokens read and written; 0 where the model does not count them.
        tokens_total: the same for all requests, as far as is known now.
        is_loading: whether the model has not begun yet.
    """

    what: str
    done: int
    total: int | None
    work_done: float = 0
    work_total: float = 0
    failed: int = 0
    tokens: int = 0
    tokens_total: int = 0
    is_loading: bool = False


@dataclass(frozen=True, slots=True)
class Trained:
    """A step of training is done.

    Attributes:
        progress: how far it has come.
        metric: what is validated.
    """

    progress: FitProgress
    metric: str


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something the user ought to know; secrets are hidden."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", redacted_text(self.text))


Event = Union[StageStarted, Planned, Progressed, Trained, Noticed]
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener that shows nothing."""
