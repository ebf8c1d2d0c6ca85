"""The filter `extract`: reads the answer from a text by an ordered list of extractors and records which matched."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from assay.core.errors import DataError, Fault
from assay.core.scores import Extraction
from assay.guard.regex import check_search_time
from assay.scoring.extraction.extractors import Extractor, FoundAnswer, extract_all, stripped
from assay.scoring.extraction.extractors import extract as extract_first
from assay.scoring.extraction.numbers import canonical
from assay.scoring.extraction.rule_lists import QuestionContext, extractor_names, make_extractors
from assay.scoring.filters.text_filters import INVALID

_LETTERS = tuple(string.ascii_uppercase)
_PATTERN_KEYS = ("name", "regex", "group", "take")


class Extract:
    """The filter. Each draw becomes its answer; a text that an earlier `take_first` left becomes its answer too.

    Args:
        names: built-in extractors, in order.
        patterns: the task's own extractors, which are tried first.
        labels: labels of the choices; None for as many letters as the document has choices, or all letters.
        choices: the column with the choices.
        fallback: the output for "no answer found".
    """

    def __init__(
        self,
        names: tuple[str, ...],
        patterns: tuple[Extractor, ...],
        labels: tuple[str, ...] | None,
        choices: str,
        fallback: str,
    ) -> None:
        self.names, self.patterns, self.labels = names, patterns, labels
        self.choices, self.fallback = choices, fallback
        self._needs_choices = any(name.startswith("choice_") for name in names)
        self.reads_numbers = any(name.startswith("number_") for name in names)

    def __call__(self, responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        return self.traced(responses, document)[0]

    def traced(
        self, responses: list[Any], document: Mapping[str, Any], is_truncated: Sequence[Sequence[bool]] = ()
    ) -> tuple[list[Any], tuple[tuple[Extraction, ...], ...]]:
        """The output for each question, and the extraction from each of its draws.

        Args:
            responses: the draws of each question, or the single text that is left of them.
            document: the document's fields.
            is_truncated: per question and draw, whether the text reached the token limit; draws not listed did not.
        """
        extractors = self.extractors(document)
        answers: list[Any] = []
        extractions = []
        for draws, cut in zip_longest(responses, is_truncated[: len(responses)], fillvalue=()):
            texts = draws if isinstance(draws, (list, tuple)) else [draws]
            pairs = zip_longest(texts, cut[: len(texts)], fillvalue=False)
            found = tuple([self._read(text, extractors, flag) for text, flag in pairs])
            said = [self.fallback if each.answer is None else each.answer for each in found]
            answers.append(said if isinstance(draws, (list, tuple)) else said[0])
            extractions.append(found)
        return answers, tuple(extractions)

    def _read(self, text: Any, extractors: Sequence[Extractor], is_truncated: bool) -> Extraction:
        found = extract_first(text if isinstance(text, str) else "", extractors, is_truncated)
        if not self.reads_numbers or found.answer is None:
            return found
        return replace(found, answer=self.comparable(found.answer))

    def comparable(self, answer: Any) -> Any:
        """A right answer in this filter's output form: numbers in lists get their canonical form."""
        return (canonical(answer) or answer) if self.reads_numbers and isinstance(answer, str) else answer

    def extract_each(self, text: str, document: Mapping[str, Any], is_truncated: bool = False) -> dict[str, Extraction]:
        """The answer that each extractor would have found, for the audit."""
        return extract_all(text, self.extractors(document), is_truncated)

    def extractors(self, document: Mapping[str, Any]) -> tuple[Extractor, ...]:
        """The whole list of extractors for a document's question."""
        choices = _choices(document.get(self.choices))
        if self._needs_choices and choices is None:
            found = f"the document has no list of texts in the column {self.choices}"
            raise DataError(Fault("filter extract", found, next="Name the column with the choices: choices: COLUMN"))
        labels = self.labels or _LETTERS[: len(choices or ())] or _LETTERS
        return (*self.patterns, *make_extractors(self.names, QuestionContext(labels, choices or ())))


def _choices(column: Any) -> tuple[str, ...] | None:
    """The choices in a column: a list of texts, or a table with the column `text`, as in some datasets."""
    if isinstance(column, Mapping):
        column = column.get("text")
    return tuple(map(str, column)) if isinstance(column, (list, tuple)) else None


def extract(
    using: str | Sequence[str] | None = None,
    patterns: Sequence[Mapping[str, Any]] | None = None,
    labels: int | str | Sequence[str] | None = None,
    choices: str = "choices",
    fallback: str = INVALID,
) -> Extract:
    """Extracts the answer: `using` names lists or extractors, `patterns` are your own; the first that matches wins."""
    if not using and not patterns:
        raise ValueError("say what to look for: using: letter, or patterns: [{name: …, regex: …}]")
    own = tuple([_pattern(entry, number) for number, entry in enumerate(patterns or (), start=1)])
    names = extractor_names(using) if using else ()
    every = [*(extractor.name for extractor in own), *names]
    twice = sorted({name for name in every if every.count(name) > 1})
    if twice:
        raise ValueError(f"two extractors are named {', '.join(twice)}")
    if not isinstance(fallback, str) or not isinstance(choices, str):
        raise ValueError("fallback and choices are texts")
    return Extract(names, own, _labels(labels), choices, fallback)


def _labels(labels: int | str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Labels from a number of letters, a string of letters or a list; None stays None."""
    if labels is None:
        return None
    if isinstance(labels, int):
        if isinstance(labels, bool) or not 1 <= labels <= len(_LETTERS):
            raise ValueError(f"labels is {labels}, not a count from 1 to {len(_LETTERS)}")
        return _LETTERS[:labels]
    found = tuple([str(label).strip() for label in labels])
    if not found or "" in found or len({label.casefold() for label in found}) < len(found):
        raise ValueError("labels are a count, a text such as ABCD, or a list of different texts")
    return found


def _pattern(entry: Mapping[str, Any], number: int) -> Extractor:
    """A task's own extractor."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("regex"), str):
        raise ValueError(f"patterns[{number - 1}] is {entry!r}, not {{name: …, regex: …, group: 1, take: first}}")
    unknown = [str(key) for key in entry if key not in _PATTERN_KEYS]
    if unknown:
        raise ValueError(f"patterns[{number - 1}] has unknown keys {', '.join(unknown)}; it takes {_PATTERN_KEYS}")
    take = entry.get("take", "first")
    if take not in ("first", "last"):
        raise ValueError(f'patterns[{number - 1}].take is "{take}", not first or last')
    pattern = re.compile(entry["regex"])
    group = entry.get("group", 1 if pattern.groups else 0)
    if group not in (*range(pattern.groups + 1), *pattern.groupindex):
        raise ValueError(f"patterns[{number - 1}].group is {group!r}, but the regex has no such group")
    name = str(entry.get("name", f"pattern_{number}"))

    def find(text: str) -> FoundAnswer | None:
        last = None
        check_search_time(pattern, text)
        for match in pattern.finditer(text):
            # A group that did not participate, or is blank, is not an answer.
            found = stripped(text, *match.span(group)) if match.start(group) >= 0 else None
            if found is not None and take == "first":
                return found
            last = found or last
        return last

    return Extractor(name, find)
