"""Counts with their nouns: "1 run", "3 runs", "1 run is", "3 runs are"."""

from __future__ import annotations


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun in the right number: `plural(1, "run")` → `1 run`, `plural(1200, "run")` → `1,200 runs`.

    Args:
        count: how many.
        noun: the noun for one; may be a phrase whose last word takes the s, or a verb phrase together with `nouns`.
        nouns: the phrase for none or several, where it is not the noun with an s.
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def verb(count: int, one: str, several: str) -> str:
    """The verb that agrees with a count: `verb(1, "is", "are")` → `is`."""
    return one if count == 1 else several
