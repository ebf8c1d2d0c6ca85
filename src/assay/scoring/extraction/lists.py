"""The named extractors and the named lists of them: two literal tables."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import NamedTuple

from assay.core.errors import did_you_mean
from assay.scoring.extraction import letters, numbers, texts
from assay.scoring.extraction.extractors import Extractor, Found


class Question(NamedTuple):
    """What a rule may know of the question.

    Attributes:
        labels: the labels of its choices.
        choices: the texts of its choices.
    """

    labels: tuple[str, ...] = tuple(string.ascii_uppercase)
    choices: tuple[str, ...] = ()


Find = Callable[[str], "Found | None"]

# Name → how it is made for a question.
EXTRACTORS: dict[str, Callable[[Question], Find]] = {
    "letter_boxed": lambda question: letters.boxed(question.labels),
    "letter_statement": lambda question: letters.statement(question.labels),
    "letter_verdict": lambda question: letters.verdict(question.labels),
    "letter_lone": lambda question: letters.lone(question.labels),
    "letter_leading": lambda question: letters.leading(question.labels),
    "letter_last": lambda question: letters.last(question.labels),
    "number_hash": lambda question: numbers.after_hashes,
    "number_boxed": lambda question: numbers.boxed,
    "number_statement": lambda question: numbers.statement,
    "number_last": lambda question: numbers.last,
    "choice_exact": lambda question: texts.choice_exact(question.choices),
    "choice_only": lambda question: texts.choice_only(question.choices),
    "first_line": lambda question: texts.first_line,
    "last_line": lambda question: texts.last_line,
    "whole": lambda question: texts.whole,
}

# Name → extractors in the order in which they are tried: the surest form of an answer first.
LISTS: dict[str, tuple[str, ...]] = {
    "letter": (
        "letter_boxed",
        "letter_statement",
        "letter_verdict",
        "letter_lone",
        "letter_leading",
        "letter_last",
    ),
    "number": ("number_hash", "number_boxed", "number_statement", "number_last"),
    "choice_text": ("choice_exact", "choice_only"),
    "first_line": ("first_line",),
    "last_line": ("last_line",),
    "whole": ("whole",),
}


def extractor_names(using: str | Sequence[str]) -> tuple[str, ...]:
    """The extractors behind names of lists and of extractors, each once, in order."""
    wanted = [using] if isinstance(using, str) else list(using)
    found: dict[str, None] = {}
    for name in wanted:
        if name not in LISTS and name not in EXTRACTORS:
            known = [*LISTS, *(each for each in EXTRACTORS if each not in LISTS)]
            raise ValueError(f'unknown extractor "{name}"{did_you_mean(str(name), known)}, one of {", ".join(known)}')
        found.update(dict.fromkeys(LISTS.get(name, (name,))))
    return tuple(found)


def make_extractors(names: Sequence[str], question: Question = Question()) -> tuple[Extractor, ...]:  # noqa: B008  (frozen)
    """The extractors of these names for a question."""
    return tuple([Extractor(name, EXTRACTORS[name](question)) for name in names])
