"""Numbers in generated text: #### 18, \\boxed{18}, "the answer is $1,800.50", the last number of all.

The answer is the number alone in its canonical form, as `-1800.5` or `1/3`: without currency, thousands separators,
percent and full stops. Its place in the text is kept. No arithmetic is done in floating point.
"""

from __future__ import annotations

import re
from fractions import Fraction

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
_DROPPED = re.compile(rf"{_CURRENCY}|{_COMMA}|\s")
# A text that is a number and nothing else, as right answers are written.
_ALONE = re.compile(rf"\s*{_NUMBER}\s?(?:\\?%|[£€¥₹$])?\.?\s*")
# 1e9999 would be written out in ten thousand digits, and cannot be meant.
_LARGEST_EXPONENT = 100


def canonical(text: str) -> str | None:
    """The one way to write a number: "$1,234.50", "1234.500" and "1,234.5" are 1234.5, "−2/4" is -0.5, 50% is 50.

    A fraction that no decimal writes exactly stays one, in lowest terms: 2/6 is 1/3. None for a text that is not a
    number and nothing else.
    """
    match = _ALONE.fullmatch(text)
    return None if match is None else _written(match.group("number"))


def _written(raw: str) -> str:
    plain = _DROPPED.sub("", raw).translate(_MINUS)
    exponent = re.split("[eE]", plain)[1:]
    if exponent and abs(int(exponent[0])) > _LARGEST_EXPONENT:
        return plain
    try:
        value = Fraction(plain)
        return _decimal(value) or f"{value.numerator}/{value.denominator}"
    except (ValueError, ZeroDivisionError):  # 1.5/2, 1/0, thousands of digits
        return plain


def _decimal(value: Fraction) -> str | None:
    """A fraction written with a decimal point; None where that has no end."""
    places, rest = 0, value.denominator
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest, count = rest // prime, count + 1
        places = max(places, count)
    if rest > 1:
        return None
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def _found(match: re.Match[str]) -> Found:
    raw = match.group("number")
    start = match.start("number") + len(raw) - len(raw.lstrip())
    return Found(_written(raw), start, match.end("number"))


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
