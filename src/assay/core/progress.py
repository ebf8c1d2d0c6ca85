"""Progress callbacks for long computations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

# Takes a description of the work, the items done, and the items in total.
ProgressCallback = Callable[[str, int, int], None]
Item = TypeVar("Item")
_ITEMS_BETWEEN_REPORTS = 64


def ignore_progress(what: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""


def with_progress(items: Sequence[Item], what: str, report: ProgressCallback) -> Iterator[Item]:
    """Yields the items and reports progress at regular intervals and at the end."""
    for index, item in enumerate(items):
        if index % _ITEMS_BETWEEN_REPORTS == 0:
            report(what, index, len(items))
        yield item
    report(what, len(items), len(items))
