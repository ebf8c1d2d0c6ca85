r"""Generated solutions of mathematical problems: the answer in them against the right one.

In: an answer view, whose right answer is the content of the reference solution's box. Out: 1.0 or 0.0, or the mean over
several draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from assay.core.boxed import boxed_content
from assay.core.documents import Document
from assay.scoring.mathematics.equality import EXTRA, PACKAGES, is_same_value, is_verified
from assay.scoring.mathematics.final_answers import NO_ANSWER, final_answer, normalised_answer
from assay.scoring.mathematics.plain_latex import between_dollars, is_same_latex
from assay.scoring.scorers.generated_answer import AnswerView
from assay.scoring.scorers.row_values import row_value


def math_match(view: AnswerView, options: Mapping[str, Any]) -> float:
    """Whether the answer is the right one in the MATH benchmark's plain spelling.

    The answer is what stands between the first and the last dollar sign; with `boxed: true`, the content of the last
    box if there is one.
    """
    is_boxed = bool(options.get("boxed", False))

    def is_right(text: str, gold: str) -> bool:
        box = boxed_content(text) if is_boxed else None
        return is_same_latex(between_dollars(text) if box is None else box, gold)

    return _mean_over_draws(view, is_right)


@dataclass(frozen=True, slots=True)
class MinervaMatch:
    """Whether Minerva's final answer is the right one (Lewkowycz et al. 2022)."""

    package: ClassVar[tuple[str, ...]] = PACKAGES
    extra: ClassVar[str] = EXTRA

    def __call__(self, view: AnswerView, options: Mapping[str, Any]) -> float:
        """By the answers' normalised spelling or value; `original: true` normalises exactly as the paper."""
        is_original = bool(options.get("original", False))

        def is_right(text: str, gold: str) -> bool:
            found = normalised_answer(final_answer(text), is_original)
            if is_original and found == NO_ANSWER:
                return False
            return is_same_value(found, normalised_answer(gold, is_original))

        return _mean_over_draws(view, is_right)


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """Whether math-verify finds the right answer in a generated solution."""

    package: ClassVar[tuple[str, ...]] = PACKAGES
    extra: ClassVar[str] = EXTRA

    def __call__(self, view: AnswerView, options: Mapping[str, Any], document: Document) -> float:
        """The right answer is searched for in the column `solution`, if that option names one, or is the task's own."""
        column, is_latex = options.get("solution"), bool(options.get("latex", False))
        solution = None if column is None else str(row_value(document, column))
        return _mean_over_draws(view, lambda text, gold: is_verified(text, solution or gold, is_latex))


def _mean_over_draws(view: AnswerView, is_right: Callable[[str, str], bool]) -> float:
    hits = [any(is_right(text, gold) for gold in view.golds) for text in view.texts]
    return sum(hits) / len(hits) if hits else 0.0
