r"""Generated solutions of mathematical problems: the answer in them against the right one.

In: an answer view and the document; the right answer is the task's, or is in the column that the option `solution`
names. Out: 1.0 or 0.0, or the mean over several draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from assay.core.boxed import boxed_content
from assay.core.documents import Document
from assay.scoring.mathematics.equality import EXTRA, PACKAGES, is_same_value, is_verified
from assay.scoring.mathematics.final_answers import NO_ANSWER, final_answer, normalised_answer
from assay.scoring.mathematics.plain_latex import between_dollars, is_same_latex, stated_answer
from assay.scoring.scorers.generated_answer import AnswerView
from assay.scoring.scorers.row_values import row_value


def math_match(view: AnswerView, options: Mapping[str, Any], document: Document) -> float:
    """Whether the answer is the right one in the MATH benchmark's plain spelling.

    The answer is what stands between the first and the last dollar sign; with `boxed: true`, the content of the last
    box if there is one. With `stated: true`, it is what AGIEval's rules find.
    """
    is_boxed, is_stated = bool(options.get("boxed", False)), bool(options.get("stated", False))

    def is_right(text: str, gold: str) -> bool:
        if is_stated:
            return is_same_latex(stated_answer(text), between_dollars(gold))
        box = boxed_content(text) if is_boxed else None
        return is_same_latex(between_dollars(text) if box is None else box, gold)

    return _mean_over_draws(view.texts, _golds(view, options, document), is_right)


@dataclass(frozen=True, slots=True)
class MinervaMatch:
    """Whether Minerva's final answer is the right one (Lewkowycz et al. 2022)."""

    package: ClassVar[tuple[str, ...]] = PACKAGES
    extra: ClassVar[str] = EXTRA

    def __call__(self, view: AnswerView, options: Mapping[str, Any], document: Document) -> float:
        """By the answers' normalised spelling or value; `original: true` normalises exactly as the paper."""
        is_original = bool(options.get("original", False))

        def is_right(text: str, gold: str) -> bool:
            answer = final_answer(text)
            if answer == NO_ANSWER:
                return False  # it would parse, as a product of letters, which takes long
            return is_same_value(normalised_answer(answer, is_original), normalised_answer(gold, is_original))

        return _mean_over_draws(view.texts, _golds(view, options, document), is_right)


@dataclass(frozen=True, slots=True)
class VerifiedAnswer:
    """Whether math-verify finds the right answer in a generated solution."""

    package: ClassVar[tuple[str, ...]] = PACKAGES
    extra: ClassVar[str] = EXTRA

    def __call__(self, view: AnswerView, options: Mapping[str, Any], document: Document) -> float:
        """Math-verify itself finds the right answer in the column `solution`; with `latex: true`, in formulas only."""
        solution, is_latex = _solution(options, document), bool(options.get("latex", False))
        golds = view.golds if solution is None else (solution,)
        return _mean_over_draws(view.texts, golds, lambda text, gold: is_verified(text, gold, is_latex))


def _solution(options: Mapping[str, Any], document: Document) -> str | None:
    """The reference solution in the column that the option `solution` names."""
    column = options.get("solution")
    return None if column is None else str(row_value(document, column))


def _golds(view: AnswerView, options: Mapping[str, Any], document: Document) -> Sequence[str]:
    """The content of the reference solution's box, or the task's right answers."""
    solution = _solution(options, document)
    box = None if solution is None else boxed_content(solution)
    return view.golds if box is None else (box,)


def _mean_over_draws(texts: Sequence[str], golds: Sequence[str], is_right: Callable[[str, str], bool]) -> float:
    hits = [any(is_right(text, gold) for gold in golds) for text in texts]
    return sum(hits) / len(hits) if hits else 0.0
