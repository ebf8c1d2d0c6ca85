r"""Minerva's final answers (Lewkowycz et al. 2022): where the answer is in a solution, and its normalised spelling.

In: a generated solution or an answer. Out: the answer; the same without units, texts and shorthand.
"""

from __future__ import annotations

import re

NO_ANSWER = "[invalidanswer]"
_CLOSING = "I hope it is correct."
# The unescaped dots are those of the protocol: the character before the closing sentence may be any.
_FINAL = re.compile(r"Final Answer: The final answer is(.*?). I hope it is correct.")

# Appendix D of the paper: replacements, then words, units and marks that are removed.
_REPLACED = (
    *(("an ", ""), ("a ", ""), (".$", "$"), ("\\$", ""), (r"\ ", ""), (" ", ""), ("mbox", "text")),
    *((",\\text{and}", ","), ("\\text{and}", ","), ("\\text{m}", "\\text{}")),
)
# fmt: off
_WORDS = (
    "square", "ways", "integers", "dollars", "mph", "inches", "ft", "hours", "km", "units", "sue", "points", "feet",
    "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students",
    "childrentickets", "multiples",
)
_MARKS = (
    "\\text{s}", "\\text{.}", "\\text{\ns}", "\\text{}^2", "\\text{}^3", "\\text{\n}", "\\text{}", r"\mathrm{th}",
    r"^\circ", r"^{\circ}", r"\;", r",\!", "{,}", '"', "\\dots",
)
# fmt: on
# The place of \ldots in the paper's list matters: it goes after "units".
_AFTER_UNITS = "\\ldots"
_COMMAND = re.compile(r"(\\[a-zA-Z]+)")
_THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+")


def final_answer(solution: str) -> str:
    """The answer in "Final Answer: The final answer is X. I hope it is correct."; a fixed word if it is missing."""
    match = _FINAL.search(solution + _CLOSING)
    return NO_ANSWER if match is None else match.group(1).strip()


def normalised_answer(answer: str, is_original: bool = False) -> str:
    r"""An answer without units, texts and shorthand.

    Args:
        answer: the answer, in LaTeX.
        is_original: the rules exactly as in the paper, which the Open LLM Leaderboard used. They also remove words
            within others (the `ft` of `\left`) and every comma between digits (so that `0,1` becomes `01`).
    """
    answer = answer.split("=")[-1]
    if not is_original:
        for word in _WORDS:
            answer = re.sub(rf"(?<!\\)\b{word}\b", "", answer)
    for old, new in _REPLACED:
        answer = answer.replace(old, new)
    for expression in _removed():
        answer = _without(answer, expression, is_original)
    answer = _without_shorthand(_without_wrapping(answer), is_original).replace("$", "")
    has_commas = answer.replace(",", "").isdigit() if is_original else _THOUSANDS.fullmatch(answer) is not None
    return answer.replace(",", "") if has_commas else answer


def _removed() -> tuple[str, ...]:
    split = _WORDS.index("units") + 1
    return (*_WORDS[:split], _AFTER_UNITS, *_WORDS[split:], *_MARKS)


def _without(answer: str, expression: str, is_original: bool) -> str:
    """A word is only removed outside LaTeX commands, except by the original rules."""
    if is_original or not expression.isalpha():
        return answer.replace(expression, "")
    parts = _COMMAND.split(answer)
    return "".join(part if place % 2 else part.replace(expression, "") for place, part in enumerate(parts))


def _without_wrapping(answer: str) -> str:
    """The content of the first formula, and of texts, bold print, overlines and a box."""
    answer = re.sub(r"(.*?)(\$)(.*?)(\$)(.*)", r"$\3$", answer)
    for command in ("text", "textbf", "overline"):
        answer = re.sub(rf"\\{command}\{{(.*?)\}}", r"\1", answer)
    return re.sub(r"\\boxed\{(.*)\}", r"\1", answer)


def _without_shorthand(answer: str, is_original: bool) -> str:
    r"""`\fracab` as `\frac{a}{b}`, `\sqrta` as `\sqrt{a}`."""
    answer = re.sub(r"frac([^{])(.)", r"frac{\1}{\2}", answer)
    if is_original:
        return re.sub(r"sqrt([^{])", r"sqrt{\1}", answer)
    answer = re.sub(r"sqrt(\[[^\]]*\])(\w)", r"sqrt\1{\2}", answer)
    return re.sub(r"sqrt(?!\[)([^{])", r"sqrt{\1}", answer)
