"""Text answers: one of the document's choices, a line, or the whole text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from assay.scoring.extraction.extractors import FoundAnswer, is_denied, stripped

Find = Callable[[str], "FoundAnswer | None"]

_MARKS = " \t\r\n*_`\"'“”‘’«».,:;!?()[]{}$。，：！？"
_BEFORE, _AFTER = r"(?<!\w)(?<![0-9][.,])", r"(?!\w)(?![.,][0-9])"
_OPEN, _CLOSE = r"[*_`\"'“‘«(\[]{0,4}", r"[*_`\"'”’»)\]]{0,4}"
_SAID = (
    r"(?<!\w)answer(?:\s{1,3}to\s{1,3}(?:your|this|the)\s{1,3}question)?[*_]{0,3}\s{0,3}(?:is|would\s{1,3}be|:|=)"
    r"[\s*_:]{1,6}(?:(?:the|a|an)\s{1,3})?"
)


def plain(text: str) -> str:
    """A text normalised for comparison: case, white space, and surrounding punctuation do not count."""
    return " ".join(text.casefold().split()).strip(_MARKS)


def choice_exact(choices: Sequence[str]) -> Find:
    """The whole text is one of the choices."""
    known = {plain(choice): choice for choice in reversed(choices) if plain(choice)}

    def find(text: str) -> FoundAnswer | None:
        # A text much longer than every choice is none of them; skips the work.
        trimmed = stripped(text, 0, len(text))
        if trimmed is None or len(trimmed.answer) > 2 * max(map(len, choices), default=0) + 100:
            return None
        choice = known.get(plain(trimmed.answer))
        return None if choice is None else FoundAnswer(choice, trimmed.start, trimmed.end)

    return find


def choice_statement(choices: Sequence[str]) -> Find:
    """The last "the answer is CHOICE" or "Answer: CHOICE"; "the answer is yes or no" is not an answer."""
    known, words = _words(choices)

    def find(text: str) -> FoundAnswer | None:
        pattern = rf"{_SAID}{_OPEN}(?P<choice>{words}){_AFTER}(?!\W{{0,4}}(?:or|and)\b)"
        matches = list(re.finditer(pattern, text, re.IGNORECASE)) if known else []
        return _choice(known, matches[-1]) if matches else None

    return find


def choice_leading(choices: Sequence[str]) -> Find:
    """A choice at the start followed by punctuation: "No, because …", "False. …"."""
    known, words = _words(choices)

    def find(text: str) -> FoundAnswer | None:
        start = len(text) - len(text.lstrip())
        pattern = rf"{_OPEN}(?P<choice>{words}){_CLOSE}(?:[.,:;!–—](?![0-9])|[ \t]{{0,8}}\r?\n)"
        match = re.compile(pattern, re.IGNORECASE).match(text, start) if known else None
        return None if match is None else _choice(known, match)

    return find


def choice_only(choices: Sequence[str]) -> Find:
    """The only choice whose text occurs. "York" inside "New York" does not count; "not yes" is not an answer."""
    known, words = _words(choices)

    def find(text: str) -> FoundAnswer | None:
        first: FoundAnswer | None = None
        pattern = rf"{_BEFORE}(?P<choice>{words}){_AFTER}"
        for match in re.finditer(pattern, text, re.IGNORECASE) if known else ():
            found = _choice(known, match)
            if found is None or (first is not None and first.answer != found.answer) or is_denied(text, found.start):
                return None
            first = first or found
        return first

    return find


def _words(choices: Sequence[str]) -> tuple[dict[str, str], str]:
    """The choices by their normalised form, and a pattern of their texts, longest first."""
    known = {plain(choice): choice for choice in reversed(choices) if plain(choice)}
    longest_first = sorted(known, key=len, reverse=True)
    return known, "|".join(r"\s{1,4}".join(map(re.escape, text.split(" "))) for text in longest_first)


def _choice(known: Mapping[str, str], match: re.Match[str]) -> FoundAnswer | None:
    choice = known.get(plain(match.group("choice")))
    return None if choice is None else FoundAnswer(choice, match.start("choice"), match.end("choice"))


def first_line(text: str) -> FoundAnswer | None:
    """The first nonblank line."""
    start = len(text) - len(text.lstrip())
    end = text.find("\n", start)
    return stripped(text, start, len(text) if end < 0 else end)


def last_line(text: str) -> FoundAnswer | None:
    """The last nonblank line."""
    end = len(text.rstrip())
    return stripped(text, text.rfind("\n", 0, end) + 1, end)


def whole(text: str) -> FoundAnswer | None:
    """The whole text, without surrounding white space."""
    return stripped(text, 0, len(text))
