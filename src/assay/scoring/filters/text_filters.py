"""Filters that transform or extract text, draw by draw."""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from assay.core.errors import DataError, Fault
from assay.core.protocols import Filter
from assay.guard.regex import check_search_time

INVALID = "[invalid]"
HASH_PATTERN = r"#### (\-?[0-9\.\,]+)"
_NEVER = re.compile(r"(?!)")


def per_draw(change: Callable[[Any], Any]) -> Filter:
    """A filter that transforms each draw separately.

    After `take_first` only the text itself is left. lm-eval then treats its letters as draws; two shipped tasks
    (polemo2_in, polemo2_out) have such a pipeline, and their scores depend on it.
    """

    def apply(responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        return [
            [change(draw) for draw in draws] if isinstance(draws, (list, str)) else change(draws) for draws in responses
        ]

    return apply


def remove_whitespace() -> Filter:
    """Strips white space from both ends."""
    return per_draw(lambda draw: draw.strip() if isinstance(draw, str) else draw)


def lowercase() -> Filter:
    """Lower case."""
    return per_draw(lambda draw: draw.lower() if isinstance(draw, str) else draw)


def uppercase() -> Filter:
    """Upper case."""
    return per_draw(lambda draw: draw.upper() if isinstance(draw, str) else draw)


def map_values(mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None) -> Filter:
    """Maps each draw by a lookup table."""
    table = mapping_dict or {}
    return per_draw(lambda draw: table.get(draw, default_value))


def regex(regex_pattern: str = HASH_PATTERN, group_select: int = 0, fallback: str = INVALID) -> Filter:
    """Extracts one match of a pattern; the fallback if there is none."""
    pattern = re.compile(regex_pattern)

    def extract(draw: Any) -> str:
        found = _find(pattern, draw, group_select)
        return fallback if found is None else found

    return per_draw(extract)


def _find(pattern: re.Pattern[str], draw: Any, index: int) -> str | None:
    """The match at an index, its first nonempty group if it has groups; None if there is none.

    lm-eval raises if there are fewer matches than `index` requires; here that is "no answer found".
    """
    text = draw if isinstance(draw, str) else ""
    check_search_time(pattern, text)
    # One by one instead of `findall`, which cannot be interrupted between two matches.
    matches = list(pattern.finditer(text))
    if not -len(matches) <= index < len(matches):
        return None
    match = matches[index]
    if pattern.groups > 1:
        filled = [group for group in match.groups("") if group]
        return filled[0].strip() if filled else None
    return (match.group(pattern.groups) or "").strip()


def multi_choice_regex(
    regex_pattern: str = HASH_PATTERN,
    group_select: int = 0,
    fallback: str = INVALID,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    regexes_to_ignore: Sequence[str] | None = None,
) -> Filter:
    """Extracts a choice as "(A)": by the pattern, else by a choice's text, else by a letter after a colon."""
    pattern = re.compile(regex_pattern)
    ignored_patterns = [re.compile(ignored) for ignored in regexes_to_ignore or ()]

    def normalise(text: str) -> str:
        for ignored in ignored_patterns:
            check_search_time(ignored, text)
            text = ignored.sub("", text)
        text = text.lower() if ignore_case else text
        return text.translate(_punctuation()) if ignore_punctuation else text

    def apply(responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        if "choices" not in document:
            raise DataError(Fault("filter multi_choice_regex", "the document has no column choices", "a list of texts"))
        choices = [normalise(str(choice).strip()) for choice in document["choices"]]
        find = _choice_finder(pattern, group_select, fallback, choices, normalise)
        return per_draw(find)(responses, document)

    return apply


def _choice_finder(
    pattern: re.Pattern[str], index: int, fallback: str, choices: list[str], normalise: Callable[[str], str]
) -> Callable[[Any], str]:
    """Searches in three ways, each for the match at `index`. A choice that normalises to nothing is skipped."""
    letters = string.ascii_uppercase[: len(choices)]
    by_text = {choice: f"({letter})" for letter, choice in zip(letters, choices, strict=False) if choice}
    labels = {choice.strip(): label for choice, label in by_text.items()}
    longest_first = sorted(by_text, key=len, reverse=True)
    text_pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else _NEVER
    letter_pattern = re.compile(rf":[\s]*([{letters}])") if letters else _NEVER

    def find(draw: Any) -> str:
        text = draw if isinstance(draw, str) else ""
        found = _find(pattern, text, index)
        if found:
            return found
        found = _find(text_pattern, normalise(text), index)
        if found:
            return labels[found]
        found = _find(letter_pattern, text, index)
        return f"({found})" if found else fallback

    return find


@cache
def _punctuation() -> dict[int, None]:
    """Every Unicode punctuation character, for `str.translate`."""
    return {code: None for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("P")}
