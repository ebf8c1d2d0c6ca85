"""Answers that are texts: one of the document's choices, a line, or all of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from assay.scoring.extraction.extractors import Found, stripped

Find = Callable[[str], "Found | None"]

_MARKS = " \t\r\n*_`\"'“”‘’«».,:;!?()[]{}$。，：！？"
_BEFORE, _AFTER = r"(?<!\w)(?<![0-9][.,])", r"(?!\w)(?![.,][0-9])"


def plain(text: str) -> str:
    """A text for comparing: case, white space, and marks at its ends do not count."""
    return " ".join(text.casefold().split()).strip(_MARKS)


def choice_exact(choices: Sequence[str]) -> Find:
    """The whole text is one of the choices."""
    known = {plain(choice): choice for choice in reversed(choices) if plain(choice)}

    def find(text: str) -> Found | None:
        # A text much longer than every choice is none of them; that spares the work.
        place = stripped(text, 0, len(text))
        if place is None or len(place.answer) > 2 * max(map(len, choices), default=0) + 100:
            return None
        choice = known.get(plain(place.answer))
        return None if choice is None else Found(choice, place.start, place.end)

    return find


def choice_only(choices: Sequence[str]) -> Find:
    """The only choice whose text occurs; a choice inside a longer one ("York" in "New York") does not."""
    known = {plain(choice): choice for choice in reversed(choices) if plain(choice)}
    longest_first = sorted(known, key=len, reverse=True)
    words = [r"\s{1,4}".join(map(re.escape, text.split(" "))) for text in longest_first]
    pattern = re.compile(rf"{_BEFORE}(?:{'|'.join(words)}){_AFTER}", re.IGNORECASE) if words else None

    def find(text: str) -> Found | None:
        first: Found | None = None
        for match in pattern.finditer(text) if pattern is not None else ():
            choice = known.get(plain(match.group()))
            if choice is None or (first is not None and first.answer != choice):
                return None
            first = first or Found(choice, match.start(), match.end())
        return first

    return find


def first_line(text: str) -> Found | None:
    """The first line with something in it."""
    start = len(text) - len(text.lstrip())
    end = text.find("\n", start)
    return stripped(text, start, len(text) if end < 0 else end)


def last_line(text: str) -> Found | None:
    """The last line with something in it."""
    end = len(text.rstrip())
    return stripped(text, text.rfind("\n", 0, end) + 1, end)


def whole(text: str) -> Found | None:
    """All of it, without white space at its ends."""
    return stripped(text, 0, len(text))
