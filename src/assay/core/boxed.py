r"""The boxed answer of a worked solution in LaTeX, as in the MATH benchmark (Hendrycks et al. 2021).

In: a text. Out: the content of its last `\boxed{…}` or `\fbox{…}`.
"""

from __future__ import annotations

_OPEN_FORM = "\\boxed "


def boxed_content(text: str) -> str | None:
    r"""The content of the last box; None if there is none or its braces do not close.

    `\boxed 7` is a box, too; its content ends at the next dollar sign. Such a box counts before any with braces.
    """
    if _OPEN_FORM in text:
        return text.rsplit(_OPEN_FORM, 1)[1].split("$", 1)[0]
    start = text.rfind("\\boxed")
    start = start if start >= 0 else text.rfind("\\fbox")
    opening = text.find("{", start) if start >= 0 else -1
    depth = 0
    for place in range(opening, len(text)) if opening >= 0 else ():
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[opening + 1 : place]
    return None
