"""Numbers in generated text: #### 18, \\boxed{18}, "the answer is $1,800.50", the last number of all.

The answer is the number alone, as `-1800.50` or `1/2`: without currency, thousands separators, signs of a sum and full
stops. Its place in the text is kept.
"""

from __future__ import annotations

import re

from assay.scoring.extraction.extractors import WITHOUT_BLANKS, Found, boxes

_CURRENCY = r"(?:\\?\$|[£€¥₹]|US\$)"
_COMMA = r"(?:[,_\u00a0\u2009\u202f]|\{,\}|\\[,!])"
_GROUPED = rf"[0-9]{{1,3}}(?:{_COMMA}[0-9]{{2,3}})*{_COMMA}[0-9]{{3}}(?![0-9])"
_DIGITS = rf"(?:{_GROUPED}|[0-9]+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
# A minus after a digit, a letter or a bracket is a subtraction or a hyphen. "2nd", "x2", "1.2.3" and
# "1,2,3" are no numbers.
_SIGN = r"(?:(?<![0-9A-Za-z)\]}])[-−–+])?"
_START = rf"(?<![^\W_{WITHOUT_BLANKS}])(?<![0-9A-Za-z]_)(?<![0-9][.,/:])(?<!\^)"
_END = r"(?![.,/:_]?[0-9])(?!\^[0-9{(])(?!(?:st|nd|rd|th)\b)"
_NUMBER = rf"(?P<number>{_SIGN}(?:{_CURRENCY}\s?)?{_SIGN}{_START}(?:{_DIGITS}(?:/[0-9]+)?|\.[0-9]+){_END})"
_MARKS = r"(?:[\s*_:：`\"'“(\[$≈~]|\\[(\[]){0,10}"
# "12 / 4 = 3" says 3; a sum without a result says nothing.
_SUM = r"(?:(?:[0-9+\-−*/×÷x()$%, \t]|\.(?=[0-9])|\\(?:times|cdot|div)){1,60}=[\s$*]{0,4}){0,3}"
_NO_SUM = r"(?!\s?(?:[-−+*×÷/=^]|\\(?:times|cdot|div))\s?[(]?[0-9])"

_ANY = re.compile(_NUMBER)
_HASH = re.compile(rf"####[ \t]{{0,5}}[*_$]{{0,3}}{_NUMBER}")
_STATEMENT = re.compile(
    rf"(?i:(?<![^\W_])answer[*_]{{0,3}}\s{{0,3}}(?:is|would\s{{1,3}}be|should\s{{1,3}}be|must\s{{1,3}}be|:|：|=)"
    rf"|答案(?:是|为|為|：|:)?){_MARKS}(?i:(?:about|approximately|therefore|thus)\s{{1,3}})?"
    rf"(?:[A-Za-z]\s?=\s?)?{_SUM}(?:\\boxed\s?\{{)?{_NUMBER}{_NO_SUM}"
)
_UNIT = (
    r"(?:\s?\\?%|\s?(?:\^\{?\\circ\}?|°)[A-Z]?|(?:\s|\\[ ,;])*\\(?:text|mathrm|mbox|textbf)\s?\{[^{}]*\}|\s[A-Za-z]+)"
)
_BOX = re.compile(rf"\s*(?:[A-Za-z]\s?=\s?)?(?:\\(?:text|mathrm|mathbf|textbf)\s?\{{)?{_NUMBER}{_UNIT}?[}}.\s]*")
_MINUS = str.maketrans("−–", "--")
_DROPPED = re.compile(rf"{_CURRENCY}|{_COMMA}|[\s+]")


def _found(match: re.Match[str]) -> Found:
    raw = match.group("number")
    start = match.start("number") + len(raw) - len(raw.lstrip())
    mantissa, mark, exponent = raw.partition("e") if "e" in raw else raw.partition("E")
    answer = _DROPPED.sub("", mantissa).translate(_MINUS) + mark + exponent
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
