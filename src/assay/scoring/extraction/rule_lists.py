"""The named extractors and the named lists of them: two literal tables."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from assay.core.errors import did_you_mean
from assay.scoring.extraction import letters, numbers, spans
from assay.scoring.extraction.extractors import Extractor, FoundAnswer, TruncationRule


class QuestionContext(NamedTuple):
    """Facts about a question that a rule may use.

    Attributes:
        labels: the labels of its choices.
        choices: the texts of its choices.
    """

    labels: tuple[str, ...] = tuple(string.ascii_uppercase)
    choices: tuple[str, ...] = ()


Find = Callable[[str], "FoundAnswer | None"]

_WHOLE, _NEEDS_TEXT_AFTER, _SKIPPED = TruncationRule.COUNTS, TruncationRule.NEEDS_TEXT_AFTER, TruncationRule.SKIPPED


class ExtractorRule(NamedTuple):
    """A factory of an extractor for a question, and the extractor's validity in a truncated text."""

    make: Callable[[QuestionContext], Find]
    when_truncated: TruncationRule


EXTRACTORS: dict[str, ExtractorRule] = {
    "letter_boxed": ExtractorRule(lambda question: letters.boxed(question.labels), _WHOLE),
    "letter_statement": ExtractorRule(lambda question: letters.statement(question.labels), _WHOLE),
    "letter_verdict": ExtractorRule(lambda question: letters.verdict(question.labels), _WHOLE),
    "letter_lone": ExtractorRule(lambda question: letters.lone(question.labels), _WHOLE),
    "letter_leading": ExtractorRule(lambda question: letters.leading(question.labels), _WHOLE),
    "letter_last": ExtractorRule(lambda question: letters.last(question.labels), _SKIPPED),
    "number_hash": ExtractorRule(lambda question: numbers.after_hashes, _NEEDS_TEXT_AFTER),
    "number_boxed": ExtractorRule(lambda question: numbers.boxed, _WHOLE),
    "number_statement": ExtractorRule(lambda question: numbers.statement, _NEEDS_TEXT_AFTER),
    "number_last": ExtractorRule(lambda question: numbers.last, _SKIPPED),
    "choice_exact": ExtractorRule(lambda question: spans.choice_exact(question.choices), _WHOLE),
    "choice_statement": ExtractorRule(lambda question: spans.choice_statement(question.choices), _NEEDS_TEXT_AFTER),
    "choice_leading": ExtractorRule(lambda question: spans.choice_leading(question.choices), _NEEDS_TEXT_AFTER),
    "choice_only": ExtractorRule(lambda question: spans.choice_only(question.choices), _SKIPPED),
    "first_line": ExtractorRule(lambda question: spans.first_line, _NEEDS_TEXT_AFTER),
    "last_line": ExtractorRule(lambda question: spans.last_line, _SKIPPED),
    "whole": ExtractorRule(lambda question: spans.whole, _WHOLE),
}

# Name → extractors in the order in which they are tried: the most reliable form of an answer first.
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
    "choice_text": ("choice_exact", "choice_statement", "choice_leading", "choice_only"),
    "first_line": ("first_line",),
    "last_line": ("last_line",),
    "whole": ("whole",),
}


def extractor_names(using: str | Sequence[str]) -> tuple[str, ...]:
    """The extractors behind names of lists and of extractors, without duplicates, in order."""
    wanted = [using] if isinstance(using, str) else list(using)
    found: dict[str, None] = {}
    for name in wanted:
        if name not in LISTS and name not in EXTRACTORS:
            known = [*LISTS, *(each for each in EXTRACTORS if each not in LISTS)]
            raise ValueError(f'unknown extractor "{name}"{did_you_mean(str(name), known)}, one of {", ".join(known)}')
        found.update(dict.fromkeys(LISTS.get(name, (name,))))
    return tuple(found)


def make_extractors(names: Sequence[str], question: QuestionContext = QuestionContext()) -> tuple[Extractor, ...]:  # noqa: B008  (frozen)
    """The extractors of these names for a question."""
    return tuple([Extractor(name, EXTRACTORS[name].make(question), _when_truncated(name, question)) for name in names])


def _when_truncated(name: str, question: QuestionContext) -> TruncationRule:
    """The validity of a rule in a truncated text. A label such as 1 may be the start of 10 unless text follows."""
    usual = EXTRACTORS[name].when_truncated
    known = question.labels if name.startswith("letter_") else question.choices if name == "choice_exact" else ()
    if usual is not _WHOLE or name == "letter_boxed" or not _has_beginnings(known):
        return usual
    return _NEEDS_TEXT_AFTER


@lru_cache(maxsize=256)
def _has_beginnings(known: tuple[str, ...]) -> bool:
    """Whether one of the texts is a prefix of another."""
    ordered = sorted(text.casefold() for text in known)
    return any(longer.startswith(text) for text, longer in pairwise(ordered))
