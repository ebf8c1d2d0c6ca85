"""How long work says how far it has come, whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

# Takes what is being done, how much of it is done, and of how much.
Report = Callable[[str, int, int], None]
Item = TypeVar("Item")
_ITEMS_BETWEEN_REPORTS = 64


def unheard(what: str, done: int, total: int) -> None:
    """The report that nobody reads."""


def reported(items: Sequence[Item], what: str, report: Report) -> Iterator[Item]:
    """The items, with a report before every few of them and at the end."""
    for place, item in enumerate(items):
        if place % _ITEMS_BETWEEN_REPORTS == 0:
            report(what, place, len(items))
        yield item
    report(what, len(items), len(items))
