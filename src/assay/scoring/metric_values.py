"""The values of one document, by metric. A metric that gives several at once is remembered as their source."""

from __future__ import annotations

from typing import Any


class MetricValues(dict[str, Any]):
    """Metric name → value. Equal to a plain dict of the same items.

    Attributes:
        sources: name → the task's metric that gave it, for names that the task file does not list itself.
    """

    __slots__ = ("sources",)

    def __init__(self, *items: Any) -> None:
        super().__init__(*items)
        self.sources: dict[str, str] = {}

    def add(self, metric: str, found: Any) -> None:
        """Takes what a task's metric gave: a value, or a dict of values under names of its own."""
        if not isinstance(found, dict):
            self[metric] = found
            return
        for name, value in found.items():
            self[str(name)] = value
            self.sources[str(name)] = metric
