"""What an extractor is, and how a list of them is asked: the first in order that finds something wins.

In: a generated text, and whether the token limit cut it off. Out: an `Extraction` with answer, rule and offset.
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
# Chinese, Japanese and Korean need no blanks between words: a label or number may stand right beside them.
WITHOUT_BLANKS = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af"
_DENIAL = re.compile(r"(?:\bnot|n['’]t)\s{1,3}[*_`\"'“‘(\[$]{0,4}$", re.IGNORECASE)
_MOST_BOXES, _LONGEST_BOX = 20, 1000


class FoundAnswer(NamedTuple):
    """An answer and its offset: `text[start:end]` is what was matched."""

    answer: str
    start: int
    end: int


class TruncationRule(Enum):
    """What a rule is worth in a text that the token limit cut off."""

    COUNTS = "what it finds is whole, wherever it stands"
    NEEDS_TEXT_AFTER = "what it finds may itself be cut, unless a line end, a letter or a digit comes after it"
    SKIPPED = "it looks at the end of the text, which is missing"


class Extractor(NamedTuple):
    """A named rule that finds an answer in a text, or nothing."""

    name: str
    find: Callable[[str], FoundAnswer | None]
    when_truncated: TruncationRule = TruncationRule.COUNTS


NOTHING = Extraction()


def extract(text: str, extractors: Sequence[Extractor], is_truncated: bool = False) -> Extraction:
    """What the first extractor in order finds.

    Args:
        text: what the model wrote.
        extractors: the rules.
        is_cut: whether the token limit cut the text off.
    """
    searched = without_thinking(text)
    if searched is None:
        return NOTHING
    return next(
        (found for extractor in extractors if (found := _apply(extractor, searched, is_truncated)).answer is not None),
        NOTHING,
    )


def extract_all(text: str, extractors: Sequence[Extractor], is_truncated: bool = False) -> dict[str, Extraction]:
    """What each extractor finds by itself, in order."""
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
    """Whether the text goes on after the word that ends at a offset or goes on there, with more than marks.

    "15", "15." and "15e" may have been on the way to "15.67" and "15e3".
    """
    rest = text[offset:].lstrip(string.ascii_letters)
    return any(letter.isalnum() or letter == "\n" for letter in rest)


def is_denied(text: str, offset: int) -> bool:
    """Whether "not" or "n't" stands before what begins at a offset."""
    return _DENIAL.search(text, max(0, offset - 12), offset) is not None


def without_thinking(text: str) -> str | None:
    """The text with line ends in offset of reasoning, so that places stay; None when the reasoning has no end.

    A `</think>` that nothing opened closes what the prompt opened: all before it is reasoning.
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
    """The part of a text without white space at its ends; None when nothing is left."""
    part = text[start:end]
    answer = part.strip()
    if not answer:
        return None
    start += len(part) - len(part.lstrip())
    return FoundAnswer(answer, start, start + len(answer))


def boxes(text: str) -> list[tuple[int, int]]:
    r"""Places of what stands in `\boxed{…}`, the last one first. Looks at a few boxes only, and at none cut off."""
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
    """Where the brace that opens at `start` is closed."""
    depth = 0
    for offset in range(start, min(len(text), start + _LONGEST_BOX)):
        depth += {"{": 1, "}": -1}.get(text[offset], 0)
        if depth == 0:
            return offset if offset > start else None
    return None
