"""Counts with nouns and verbs in the right number: "1 run", "3 runs", "1 run is", "3 runs are"."""

from __future__ import annotations


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun: `plural(1, "run")` → `1 run`, `plural(1200, "run")` → `1,200 runs`.

    Args:
        count: the number.
        noun: the singular noun or a phrase that ends with it; or, together with `nouns`, a phrase with a verb.
        nouns: the plural phrase, if it is not the singular plus s.
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def verb(count: int, one: str, several: str) -> str:
    """The verb that agrees with a count: `verb(1, "is", "are")` → `is`."""
    return one if count == 1 else several
