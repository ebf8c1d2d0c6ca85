"""The metric values of one document, with the source of values that one metric returned together."""

from __future__ import annotations

from typing import Any


class MetricValues(dict[str, Any]):
    """Metric name → value. Equal to a plain dict of the same items.

    Attributes:
        sources: name → the task's metric that returned it, for names that the task file does not list.
    """

    __slots__ = ("sources",)

    def __init__(self, *items: Any) -> None:
        super().__init__(*items)
        self.sources: dict[str, str] = {}

    def add(self, metric: str, found: Any) -> None:
        """Adds the result of a task's metric: a value, or a dict of values under their own names."""
        if not isinstance(found, dict):
            self[metric] = found
            return
        for name, value in found.items():
            self[str(name)] = value
            self.sources[str(name)] = metric
