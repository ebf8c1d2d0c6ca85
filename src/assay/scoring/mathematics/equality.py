"""Mathematical equality of answers, through sympy and math-verify, under a time limit.

In: two answers in LaTeX, or a solution and a generated text. Out: whether they have the same value. What cannot be
parsed, or takes too long, is not equal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from assay.core.errors import LimitError
from assay.guard.time_limit import ResourceLimit

# The import names, and the extra of Assay that installs them.
PACKAGES, EXTRA = ("math_verify", "sympy", "latex2sympy2_extended"), "tasks"
_SECONDS = 5.0


def is_same_value(answer: str, gold: str) -> bool:
    """Whether two answers in LaTeX have the same spelling, or a difference that simplifies to 0."""
    return bool(answer) and (answer == gold or _limited(lambda: _has_no_difference(answer, gold)))


def is_verified(text: str, solution: str, is_latex: bool = False) -> bool:
    """Whether math-verify finds an answer in a text that equals the one in a solution.

    Args:
        text: the generated text.
        solution: the reference solution, or the right answer.
        is_latex: whether only formulas of the solution can be the right answer, not plain numbers.
    """
    return _limited(lambda: _is_verified(text, solution, is_latex))


def _limited(compare: Callable[[], bool]) -> bool:
    """False if the comparison takes too long, or fails: generated formulas can be anything."""
    try:
        with ResourceLimit(_SECONDS), _without_messages():
            return compare()
    except (LimitError, Exception):
        return False


# Draws and tasks with the same rows repeat answers; a comparison takes 10 to 100 milliseconds.
@lru_cache(maxsize=4096)
def _has_no_difference(answer: str, gold: str) -> bool:
    import sympy
    from latex2sympy2_extended import latex2sympy

    return bool(sympy.simplify(latex2sympy(answer) - latex2sympy(gold)) == 0)


def _is_verified(text: str, solution: str, is_latex: bool) -> bool:
    from math_verify import LatexExtractionConfig, parse, verify

    how: dict[str, Any] = {"extraction_config": [LatexExtractionConfig()]} if is_latex else {}
    # Its own limits use a signal that works on the main thread only.
    gold = parse(solution, parsing_timeout=None, **how)
    return bool(verify(gold, parse(text, parsing_timeout=None), timeout_seconds=None))


@contextmanager
def _without_messages() -> Iterator[None]:
    """Silences math-verify's messages about its limits, which are switched off in favour of ours."""
    loggers = [logging.getLogger(name) for name in ("math_verify.parser", "math_verify.grader")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled
