"""Extractors, and how a list of them is applied: the first in order that finds an answer wins.

In: a generated text, and whether it reached the token limit. Out: an `Extraction` with answer, rule and offsets.
Reasoning between `<think>` and `</think>` is never searched.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from assay.core.scores import Extraction

_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)
# Chinese, Japanese and Korean have no spaces between words: a label or number may directly adjoin them.
WITHOUT_BLANKS = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
_DENIAL = re.compile(r"(?:\bnot|n['’]t)\s{1,3}[*_`\"'“‘(\[$]{0,4}$", re.IGNORECASE)
_MOST_BOXES, _LONGEST_BOX = 20, 1000


class FoundAnswer(NamedTuple):
    """An answer and its offsets: `text[start:end]` is the match."""

    answer: str
    start: int
    end: int


class TruncationRule(Enum):
    """Validity of a rule in a text that was truncated at the token limit."""

    COUNTS = "its match is complete, wherever it is"
    NEEDS_TEXT_AFTER = "its match may itself be truncated, unless a line end, a letter or a digit follows it"
    SKIPPED = "it looks at the end of the text, which is missing"


class Extractor(NamedTuple):
    """A named rule that finds an answer in a text, or nothing."""

    name: str
    find: Callable[[str], FoundAnswer | None]
    when_truncated: TruncationRule = TruncationRule.COUNTS


NOTHING = Extraction()


def extract(text: str, extractors: Sequence[Extractor], is_truncated: bool = False) -> Extraction:
    """The result of the first extractor in order that finds an answer.

    Args:
        text: the model's text.
        extractors: the rules.
        is_truncated: whether the text reached the token limit.
    """
    searched = without_thinking(text)
    if searched is None:
        return NOTHING
    return next(
        (found for extractor in extractors if (found := _apply(extractor, searched, is_truncated)).answer is not None),
        NOTHING,
    )


def extract_all(text: str, extractors: Sequence[Extractor], is_truncated: bool = False) -> dict[str, Extraction]:
    """The result of each extractor on its own, in order."""
    searched = without_thinking(text)
    return {each.name: NOTHING if searched is None else _apply(each, searched, is_truncated) for each in extractors}


def _apply(extractor: Extractor, searched: str, is_truncated: bool) -> Extraction:
    if is_truncated and extractor.when_truncated is TruncationRule.SKIPPED:
        return NOTHING
    found = extractor.find(searched)
    if found is None or (
        is_truncated
        and extractor.when_truncated is TruncationRule.NEEDS_TEXT_AFTER
        and not _continues_after(searched, found.end)
    ):
        return NOTHING
    return Extraction(found.answer, extractor.name, found.start, found.end)


def _continues_after(text: str, offset: int) -> bool:
    """Whether more than punctuation follows the word at an offset.

    "15", "15." and "15e" may have been on the way to "15.67" and "15e3".
    """
    rest = text[offset:].lstrip(string.ascii_letters)
    return any(letter.isalnum() or letter == "\n" for letter in rest)


def is_denied(text: str, offset: int) -> bool:
    """Whether "not" or "n't" precedes an offset."""
    return _DENIAL.search(text, max(0, offset - 12), offset) is not None


def without_thinking(text: str) -> str | None:
    """The text with reasoning replaced by line ends, so that offsets stay valid; None if the reasoning has no end.

    A `</think>` without an opening tag closes one in the prompt: everything before it is reasoning.
    """
    parts: list[tuple[int, int]] = []
    opened: int | None = None
    for tag in _THINK.finditer(text):
        if tag.group(1):
            parts.append((0 if opened is None else opened, tag.end()))
            opened = None
        elif opened is None:
            opened = tag.start()
    if opened is not None:
        return None
    pieces, offset = [], 0
    for start, end in sorted(parts):
        pieces.append(text[offset:start])
        pieces.append("\n" * (end - max(offset, start)))
        offset = max(offset, end)
    return "".join(pieces) + text[offset:]


def stripped(text: str, start: int, end: int) -> FoundAnswer | None:
    """The part of a text without surrounding white space; None if nothing is left."""
    part = text[start:end]
    answer = part.strip()
    if not answer:
        return None
    start += len(part) - len(part.lstrip())
    return FoundAnswer(answer, start, start + len(answer))


def boxes(text: str) -> list[tuple[int, int]]:
    r"""Offsets of the contents of `\boxed{…}`, last one first. Looks at a few boxes only, and at no truncated one."""
    found: list[tuple[int, int]] = []
    offset = len(text)
    for _ in range(_MOST_BOXES):
        offset = text.rfind("\\boxed", 0, offset)
        if offset < 0:
            break
        start = offset + len("\\boxed")
        start += len(text[start : start + 3]) - len(text[start : start + 3].lstrip())
        end = _closing(text, start)
        if end is not None:
            found.append((start + 1, end))
    return found


def _closing(text: str, start: int) -> int | None:
    """Offset of the closing brace of the one that opens at `start`."""
    depth = 0
    for offset in range(start, min(len(text), start + _LONGEST_BOX)):
        depth += {"{": 1, "}": -1}.get(text[offset], 0)
        if depth == 0:
            return offset if offset > start else None
    return None
