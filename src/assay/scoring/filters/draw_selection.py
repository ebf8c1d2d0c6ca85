"""Filters that select among the draws of a question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from assay.core.errors import DataError, Fault
from assay.core.plural import plural
from assay.core.protocols import Filter


def take_first() -> Filter:
    """Keeps the first draw, no longer as a list."""

    def apply(responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        # A text that an earlier `take_first` left has letters for draws; an empty text has none.
        return ["" if draws == "" else draws[0] for draws in responses]

    return apply


def take_first_k(k: int) -> Filter:
    """Keeps the first k draws."""

    def apply(responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        if any(len(draws) < k for draws in responses):
            fewest = min(len(draws) for draws in responses)
            found = f"only {plural(fewest, 'draw')}"
            raise DataError(Fault("filter take_first_k", found, f"{k}", f"Set repeats: {k} or more"))
        return [draws[:k] for draws in responses]

    return apply


def majority_vote() -> Filter:
    """Keeps the most frequent draw, as a list of one; the first seen wins a tie."""

    def apply(responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        return [[Counter(draws).most_common(1)[0][0]] for draws in responses]

    return apply
