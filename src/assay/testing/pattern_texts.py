"""A text that a regular expression matches, with a given answer in one of its groups.

In: the pattern of a filter and the right answer. Out: a text from which the filter extracts that answer, such as
`The answer is 18.` for `The answer is (\\-?[0-9\\.\\,]+).`; None for patterns that this cannot satisfy.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import re._constants as codes
    import re._parser as parser
else:  # the modules had other names
    import sre_constants as codes
    import sre_parse as parser

_LETTERS = "xX0. -_,:;()\n\t"


def matching_text(pattern: str, answer: str) -> str | None:
    """A short text that the pattern matches with the answer as a group, or as a whole if it has no group."""
    try:
        compiled, tree = re.compile(pattern), parser.parse(pattern)
    except re.error:
        return None
    if not compiled.groups:
        return answer if compiled.search(answer) else None
    for group in range(1, compiled.groups + 1):
        text = _written(tree, {group: answer})
        match = compiled.search(text)
        if match is not None and answer in match.groups():
            return text
    return None


def _written(items: Any, answers: Mapping[int, str]) -> str:
    return "".join(_one(kind, value, answers) for kind, value in items)


def _one(kind: Any, value: Any, answers: Mapping[int, str]) -> str:
    """The shortest text of one node of the parsed pattern."""
    if kind is codes.LITERAL:
        return chr(value)
    if kind is codes.NOT_LITERAL:
        return next(letter for letter in _LETTERS if ord(letter) != int(value))
    if kind is codes.ANY:
        return "."
    if kind is codes.IN:
        return _member(value)
    if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        least, _, inner = value
        return _written(inner, answers) * int(least)
    if kind is codes.SUBPATTERN:
        group, _, _, inner = value
        return answers[group] if group in answers else _written(inner, answers)
    if kind is codes.BRANCH:
        return _written(value[1][0], answers)
    if kind is codes.ASSERT:
        return _written(value[1], answers)
    return ""


def _member(items: list[Any]) -> str:
    """A character of a set."""
    if items[0][0] is codes.LITERAL:
        return chr(items[0][1])
    if items[0][0] is codes.RANGE:
        return chr(items[0][1][0])
    if items[0] == (codes.CATEGORY, codes.CATEGORY_DIGIT):
        return "0"
    if items[0] == (codes.CATEGORY, codes.CATEGORY_SPACE):
        return " "
    return "x"
