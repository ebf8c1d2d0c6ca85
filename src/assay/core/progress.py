"""How long work says how far it has come, whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

# Takes what is being done, how much of it is done, and of how much.
ProgressCallback = Callable[[str, int, int], None]
Item = TypeVar("Item")
_ITEMS_BETWEEN_REPORTS = 64


def ignore_progress(what: str, done: int, total: int) -> None:
    """The report that nobody reads."""


def with_progress(items: Sequence[Item], what: str, report: ProgressCallback) -> Iterator[Item]:
    """The items, with a report before every few of them and at the end."""
    for index, item in enumerate(items):
        if index % _ITEMS_BETWEEN_REPORTS == 0:
            report(what, index, len(items))
        yield item
    report(what, len(items), len(items))
