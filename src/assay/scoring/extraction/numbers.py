"""Numbers in generated text: #### 18, \\boxed{18}, "the answer is $1,800.50", the last number of all.

The answer is the number alone, as `-1800.50` or `1/2`: without currency, thousands separators, signs of a sum and full
stops. Its place in the text is kept.
"""

from __future__ import annotations

import re

from assay.scoring.extraction.extractors import Found, boxes

_CURRENCY = r"(?:\\?\$|[£€¥₹]|US\$)"
_COMMA = r"(?:,|\{,\}|\\[,!])"
_GROUPED = rf"[0-9]{{1,3}}(?:{_COMMA}[0-9]{{2,3}})*{_COMMA}[0-9]{{3}}(?![0-9])"
_DIGITS = rf"(?:{_GROUPED}|[0-9]+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
# A minus after a digit, a letter or a bracket is a subtraction or a hyphen. "2nd", "x2", "1.2.3" and
# "1,2,3" are no numbers.
_SIGN = r"(?:(?<![\w)\]}])[-−+])?"
_START, _END = r"(?<![^\W_])(?<![0-9][.,/])", r"(?![.,/]?[0-9])(?!(?:st|nd|rd|th)\b)"
_NUMBER = rf"(?P<number>{_SIGN}(?:{_CURRENCY}\s?)?{_SIGN}{_START}(?:{_DIGITS}(?:/[0-9]+)?|\.[0-9]+){_END})"
_MARKS = r"[\s*_:：`\"'“(\[$≈~]{0,10}"

_ANY = re.compile(_NUMBER)
_HASH = re.compile(rf"####[ \t]{{0,5}}[*_$]{{0,3}}{_NUMBER}")
_STATEMENT = re.compile(
    rf"(?i:(?<![^\W_])answer[*_]{{0,3}}\s{{0,3}}(?:is|would\s{{1,3}}be|should\s{{1,3}}be|must\s{{1,3}}be|:|：|=)"
    rf"|答案(?:是|为|為|：|:)?){_MARKS}(?i:(?:about|approximately|therefore|thus)\s{{1,3}})?"
    rf"(?:[A-Za-z]\s?=\s?)?(?:\\boxed\s?\{{)?{_NUMBER}"
)
_UNIT = (
    r"(?:\s?\\?%|\s?(?:\^\{?\\circ\}?|°)[A-Z]?|(?:\s|\\[ ,;])*\\(?:text|mathrm|mbox|textbf)\s?\{[^{}]*\}|\s[A-Za-z]+)"
)
_BOX = re.compile(rf"\s*(?:[A-Za-z]\s?=\s?)?(?:\\(?:text|mathrm|mathbf|textbf)\s?\{{)?{_NUMBER}{_UNIT}?[}}.\s]*")
_DROPPED = re.compile(rf"{_CURRENCY}|{_COMMA}|[\s+]")


def _found(match: re.Match[str]) -> Found:
    raw = match.group("number")
    start = match.start("number") + len(raw) - len(raw.lstrip())
    mantissa, mark, exponent = raw.partition("e") if "e" in raw else raw.partition("E")
    answer = _DROPPED.sub("", mantissa).replace("−", "-") + mark + exponent
    return Found(answer, start, match.end("number"))


def _last(pattern: re.Pattern[str], text: str) -> Found | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return None if found is None else _found(found)


def after_hashes(text: str) -> Found | None:
    """The last number after `####`."""
    return _last(_HASH, text)


def boxed(text: str) -> Found | None:
    r"""The last `\boxed{…}` that holds one number, with a unit at most."""
    for start, end in boxes(text):
        match = _BOX.fullmatch(text, start, end)
        if match is not None:
            return _found(match)
    return None


def statement(text: str) -> Found | None:
    """The last "the answer is 18": models correct themselves."""
    return _last(_STATEMENT, text)


def last(text: str) -> Found | None:
    """The last number of the text."""
    return _last(_ANY, text)
