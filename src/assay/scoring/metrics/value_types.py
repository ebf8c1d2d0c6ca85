"""Converts document values for an aggregation: plain numbers, pairs, labels. Task code returns them in many types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any


class Unreadable(ValueError):
    """A value that an aggregation cannot use.

    Attributes:
        value: the value found.
        expected: what the aggregation accepts.
    """

    def __init__(self, value: Any, expected: str) -> None:
        super().__init__(f"{value!r} is not {expected}")
        self.value = value
        self.expected = expected


_PLAIN = {float, int, bool}


def as_number(value: Any, expected: str = "a number") -> float:
    """A number as a float: Python's, numpy's, or the one in an array or tensor of one element."""
    if type(value) in _PLAIN:
        return float(value)
    if not isinstance(value, (Number, str, bytes)) and hasattr(value, "item"):
        try:
            value = value.item()
        except Exception as error:  # an array of several elements; each library has its own error
            raise Unreadable(value, expected) from error
    if isinstance(value, complex) or not isinstance(value, Number):
        raise Unreadable(value, expected)
    return float(value)  # type: ignore[arg-type]  # a Number that is not complex is real


def numbers(values: Sequence[Any]) -> list[float]:
    """One number per document."""
    return [value if type(value) is float else as_number(value) for value in values]


def numbers_or_gaps(values: Sequence[Any]) -> list[float]:
    """The same, with NaN for a document without a value."""
    return [math.nan if value is None else as_number(value) for value in values]


def number_pairs(values: Sequence[Any]) -> list[tuple[float, float]]:
    """Two numbers per document."""
    expected = "a pair of numbers"
    return [(as_number(a, expected), as_number(b, expected)) for a, b in _pairs(values, expected)]


def number_triples(values: Sequence[Any]) -> list[tuple[float, float, float]]:
    """Three numbers per document."""
    expected = "three numbers"
    for value in values:
        if not isinstance(value, (list, tuple)) or len(value) != 3:
            raise Unreadable(value, expected)
    return [(as_number(a, expected), as_number(b, expected), as_number(c, expected)) for a, b, c in values]


def label_pairs(values: Sequence[Any]) -> list[tuple[float, float]]:
    """(right, predicted) per document. Texts are numbered in sorted order; numbers stay, so that 1 is 1."""
    expected = "a pair of labels, both numbers or both texts"
    pairs = _pairs(values, expected)
    texts = sorted({label for pair in pairs for label in pair if isinstance(label, str)})
    if not texts:
        return [(as_number(a, expected), as_number(b, expected)) for a, b in pairs]
    codes = {text: float(index) for index, text in enumerate(texts)}
    for pair in pairs:
        if not all(isinstance(label, str) for label in pair):
            raise Unreadable(pair, expected)
    return [(codes[a], codes[b]) for a, b in pairs]


def _pairs(values: Sequence[Any], expected: str) -> Sequence[Any]:
    for value in values:
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise Unreadable(value, expected)
    return values


def brier_scores(values: Sequence[Any]) -> list[float]:
    """Brier scores from (right choice or choices, probabilities).

    lm-eval requires the same number of choices in every document, and counts a negative index from the end; neither
    applies here. Task code may also return the score itself.
    """
    return [
        _brier(*value) if isinstance(value, (list, tuple)) and len(value) == 2 else as_number(value) for value in values
    ]


def _brier(gold: Any, probabilities: Any) -> float:
    expected = "(index of the right choice, probabilities)"
    right = {as_number(index, expected) for index in (gold if isinstance(gold, (list, tuple)) else [gold])}
    if isinstance(probabilities, str) or not hasattr(probabilities, "__iter__"):
        raise Unreadable((gold, probabilities), expected)
    return math.fsum((as_number(p, expected) - (index in right)) ** 2 for index, p in enumerate(probabilities))
