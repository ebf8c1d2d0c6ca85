"""Numbers in generated text: #### 18, \\boxed{18}, "the answer is $1,800.50", the last number.

The answer is the number in canonical form, such as `-1800.5` or `1/3`: without currency, thousands separators, percent
sign and trailing period; `2 1/2`, `3.5 × 10^3` and `\\frac{1}{3}` are parsed. Its offsets are recorded. All arithmetic
is exact, not in floating point.
"""

from __future__ import annotations

import re
from fractions import Fraction

from assay.scoring.extraction.extractors import WITHOUT_BLANKS, FoundAnswer, boxes, is_denied

_CURRENCY = r"(?:\\?\$|[£€¥₹]|US\$)"
_COMMA = r"(?:[,_\u00a0\u2009\u202f]|\{,\}|\\[,!])"
_GROUPED = rf"[0-9]{{1,3}}(?:{_COMMA}[0-9]{{2,3}})*{_COMMA}[0-9]{{3}}(?![0-9])"
_POWER = r"(?:[eE][+-]?[0-9]+|\s?(?:[×x*]|\\times|\\cdot)\s?10\^\{?[+\-−]?[0-9]+\}?)"
_DIGITS = rf"(?:{_GROUPED}|[0-9]+)(?:\.[0-9]+)?{_POWER}?"
_FRACTION = r"\\[dt]?frac\s?\{[0-9]+\}\s?\{[0-9]+\}"
# "2 1/2" and "2\frac{1}{2}" are one number.
_MIXED = rf"(?:{_GROUPED}|[0-9]+)(?:\x20[0-9]+/[0-9]+|\s?{_FRACTION})"
# A minus after a digit, a letter, a bracket or another minus is a subtraction, a hyphen or a dash. "2nd", "x2",
# "1.2.3", "1,2,3" and "2**3" are not numbers.
_SIGN = r"(?:(?<![0-9A-Za-z)\]}\-−–])[-−–+])?"
_START = rf"(?<![^\W_{WITHOUT_BLANKS}])(?<![0-9A-Za-z]_)(?<![0-9][.,/:])(?<!\^)(?<![0-9]\*\*)"
_END = r"(?![.,/:_]?[0-9])(?!\^[0-9{(]|\*\*[0-9])(?!(?:st|nd|rd|th)\b)"
_WRITTEN = rf"(?:{_MIXED}|{_DIGITS}(?:/[0-9]+)?|\.[0-9]+|{_FRACTION})"
_NUMBER = rf"(?P<number>{_SIGN}(?:{_CURRENCY}\s?)?{_SIGN}{_START}{_WRITTEN}{_END})"
_MARKS = r"(?:[\s*_:：`\"'“(\[$≈~]|\\[(\[]){0,10}"
# "12 / 4 = 3" gives 3; an expression without a result gives nothing.
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
_DROPPED = re.compile(rf"{_CURRENCY}|{_COMMA}")
_AS_FRACTION = re.compile(r"\s?\\[dt]?frac\s?\{([0-9]+)\}\s?\{([0-9]+)\}")
_AS_EXPONENT = re.compile(r"\s?(?:[×x*]|\\times|\\cdot)\s?10\^\{?([+-]?[0-9]+)\}?")
# The number without marks: sign, the whole part of "2 1/2", a decimal number or numerator, exponent, denominator.
_PARTS = re.compile(
    r"(?P<sign>[+-]?)\s*(?:(?P<whole>[0-9]+)\x20)?(?P<top>[0-9]*\.?[0-9]+)(?:[eE](?P<power>[+-]?[0-9]+))?(?:/(?P<bottom>[0-9]+))?"
)
# A text that is only a number, as right answers are written.
_ALONE = re.compile(rf"\s*{_NUMBER}\s?(?:\\?%|[£€¥₹$])?\.?\s*")
# 1e9999 would have ten thousand digits, and cannot be an answer.
_LARGEST_EXPONENT = 100


def canonical(text: str) -> str | None:
    """The canonical form of a number: "$1,234.50", "1234.500" and "1,234.5" are 1234.5, "−2/4" is -0.5, 50% is 50.

    A fraction without an exact decimal form stays one, in lowest terms: 2/6 is 1/3. None for a text that is not exactly
    a number.
    """
    match = _ALONE.fullmatch(text)
    return None if match is None else _written(match.group("number"))


def _written(raw: str) -> str:
    marked = _AS_EXPONENT.sub(r"e\1", _AS_FRACTION.sub(r" \1/\2", raw.translate(_MINUS)))
    plain = _DROPPED.sub("", marked).strip()
    try:
        value = _value(plain)
        return plain if value is None else _decimal(value) or f"{value.numerator}/{value.denominator}"
    except (ValueError, ZeroDivisionError):  # thousands of digits, 1/0
        return plain


def _value(plain: str) -> Fraction | None:
    """The value of a number without symbols; None if it would have hundreds of digits."""
    parts = _PARTS.fullmatch(plain)
    if parts is None or abs(int(power := parts["power"] or "0")) > _LARGEST_EXPONENT:
        return None
    size = Fraction(f"{parts['top']}e{power}") / int(parts["bottom"] or 1) + int(parts["whole"] or 0)
    return -size if parts["sign"] == "-" else size


def _decimal(value: Fraction) -> str | None:
    """A fraction in decimal notation; None if that does not terminate."""
    decimals, rest = 0, value.denominator
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest, count = rest // prime, count + 1
        decimals = max(decimals, count)
    if rest > 1:
        return None
    digits = str(abs(value.numerator) * 10**decimals // value.denominator).rjust(decimals + 1, "0")
    sign = "-" if value < 0 else ""
    return sign + (f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits)


def _found(match: re.Match[str]) -> FoundAnswer:
    raw = match.group("number")
    start = match.start("number") + len(raw) - len(raw.lstrip())
    return FoundAnswer(_written(raw), start, match.end("number"))


def _last(pattern: re.Pattern[str], text: str) -> FoundAnswer | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return None if found is None else _found(found)


def after_hashes(text: str) -> FoundAnswer | None:
    """The last number after `####`."""
    return _last(_HASH, text)


def boxed(text: str) -> FoundAnswer | None:
    r"""The last `\boxed{…}` that holds one number, optionally with a unit."""
    for start, end in boxes(text):
        match = _BOX.fullmatch(text, start, end)
        if match is not None:
            return _found(match)
    return None


def statement(text: str) -> FoundAnswer | None:
    """The last "the answer is 18": models correct themselves."""
    return _last(_STATEMENT, text)


def last(text: str) -> FoundAnswer | None:
    """The last number of the text that is not negated: "13, not 12" gives 13."""
    found = None
    for match in _ANY.finditer(text):
        if not is_denied(text, match.start()):
            found = match
    return None if found is None else _found(found)
