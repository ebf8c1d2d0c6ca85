r"""The string normaliser of the MATH benchmark (Hendrycks et al. 2021): one spelling for equal LaTeX answers.

In: an answer in LaTeX. Out: its plain spelling, such as `\frac{1}{2}` for `1/2`, `\frac12`, `\dfrac{1}{2}` and `0.5`.
The rules and their order are the authors', also where they lose something: other code compares with their numbers.
"""

from __future__ import annotations

import re

from assay.core.boxed import boxed_content

_REMOVED_FIRST = ("\n", "\\!")
_REMOVED = ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")
_PERCENT = "\\%"
_UNIT = "\\text{ "
_ROOT, _FRACTION = "\\sqrt", "\\frac"
_HALF = "\\frac{1}{2}"


class _NoPlainForm(ValueError):
    """The rules do not apply to this answer."""


def is_same_latex(answer: str | None, gold: str | None) -> bool:
    """Whether two answers have the same plain spelling; the spelling itself counts if one of them has none."""
    if answer is None or gold is None:
        return answer is gold
    try:
        return plain_latex(answer) == plain_latex(gold)
    except _NoPlainForm:
        return answer == gold


def plain_latex(text: str) -> str:
    """The plain spelling of an answer."""
    for part in _REMOVED_FIRST:
        text = text.replace(part, "")
    text = text.replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    for part in _REMOVED:
        text = text.replace(part, "")
    text = _without_unit(text).replace(_PERCENT, "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return text
    text = _right_side("0" + text if text[0] == "." else text)
    text = _with_fraction_braces(_with_root_braces(text).replace(" ", ""))
    return _as_fraction(_HALF if text == "0.5" else text)


def _without_unit(text: str) -> str:
    """Cut at the unit: in MATH a text that begins with a blank is one."""
    parts = text.split(_UNIT)
    if len(parts) > 2:
        raise _NoPlainForm(text)
    return parts[0]


def _right_side(text: str) -> str:
    """The value of `x=5`: what follows the equals sign after a name of at most two characters."""
    sides = text.split("=")
    return sides[1] if len(sides) == 2 and len(sides[0]) <= 2 else text


def _with_root_braces(text: str) -> str:
    r"""`\sqrt3` as `\sqrt{3}`."""
    first, *roots = text.split(_ROOT)
    if not all(roots):
        raise _NoPlainForm(text)
    return first + "".join(_ROOT + (root if root[0] == "{" else f"{{{root[0]}}}{root[1:]}") for root in roots)


def _with_fraction_braces(text: str) -> str:
    r"""`\frac12` and `\frac1{2}` as `\frac{1}{2}`; the text as it is if a fraction has only one character."""
    first, *fractions = text.split(_FRACTION)
    braced = []
    for fraction in fractions:
        if not fraction:
            raise _NoPlainForm(text)
        if fraction[0] == "{":
            braced.append(fraction)
        elif len(fraction) == 1:
            return text
        else:
            rest = fraction[1:] if fraction[1] == "{" else f"{{{fraction[1]}}}{fraction[2:]}"
            braced.append(f"{{{fraction[0]}}}{rest}")
    return first + "".join(_FRACTION + fraction for fraction in braced)


def _as_fraction(text: str) -> str:
    r"""`3/4` as `\frac{3}{4}`, for whole numbers without leading zeros."""
    sides = text.split("/")
    if len(sides) != 2:
        return text
    try:
        top, bottom = map(int, sides)
    except ValueError as error:
        raise _NoPlainForm(text) from error
    return f"\\frac{{{top}}}{{{bottom}}}" if text == f"{top}/{bottom}" else text


def between_dollars(text: str) -> str:
    """The part from the first to the last dollar sign; the whole text if there are fewer than two."""
    match = re.search(r"\$(.*)\$", text, re.DOTALL)
    return text if match is None else match.group(1)


def stated_answer(text: str) -> str:
    """The answer that a text states, as AGIEval reads it (Zhong et al. 2024); the text itself if it finds none.

    The content of the last box, else of the last pair of dollar signs; of an equation its right side. Without either,
    what follows the last equals sign, else the last number.
    """
    if "\\boxed" in text:
        box = boxed_content(text)
        return text if box is None else _after_equals(box)
    formulas = [_after_equals(found) for found in re.findall(r"\$(.*)\$", text)]
    if formulas and formulas[-1]:
        return formulas[-1]
    if "=" in text:
        return _after_equals(text).rstrip(".").split("\\n")[0]
    numbers = re.findall(r"\$?\d+(?:\.\d+)?(?!\w)", text)
    return numbers[-1] if numbers else text


def _after_equals(text: str) -> str:
    return text.rsplit("=", 1)[1].lstrip(" ") if "=" in text else text
