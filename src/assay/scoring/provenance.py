"""Positions of a pipeline's answers: reported by our own extraction filter, inferred for lm-eval's filters.

In: the input and output of a filter step. Out: an `Extraction` per question and draw, with character offsets in the
model's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from assay.core.scores import UNKNOWN_OFFSET, Extraction
from assay.scoring.extraction.extractors import NOTHING

Extractions = tuple[tuple[Extraction, ...], ...]
# Per question and draw: whether the text reached the token limit.
TruncationFlags = tuple[tuple[bool, ...], ...]


@runtime_checkable
class TracingFilter(Protocol):
    """A filter that extracts answers and reports where it found them.

    Attributes:
        fallback: its output for "no answer found".
    """

    fallback: str

    def traced(
        self, responses: list[Any], document: Mapping[str, Any], is_truncated: TruncationFlags = ()
    ) -> tuple[list[Any], Extractions]:
        """The filter's output for each question, and the extraction behind each draw."""
        ...

    def comparable(self, answer: Any) -> Any:
        """A right answer in the form of the filter's answers."""
        ...


def truncation_after_step(given: Sequence[Any], made: Sequence[Any], is_truncated: TruncationFlags) -> TruncationFlags:
    """Which of a step's output texts were truncated.

    A step may change each draw, keep the first ones, or select one; a new text counts as complete.
    """
    if len(given) != len(made) or len(given) != len(is_truncated):
        return ()
    return tuple([_truncated_draws(*question) for question in zip(given, made, is_truncated, strict=True)])


def _truncated_draws(given: Any, made: Any, is_truncated: tuple[bool, ...]) -> tuple[bool, ...]:
    if not isinstance(given, list) or not isinstance(made, list):
        return is_truncated[:1]  # a single text, as left by `take_first`
    if len(given) == len(made) or made == given[: len(made)]:
        return is_truncated[: len(made)]
    origins = [given.index(draw) if draw in given else len(given) for draw in made]
    return tuple([index < len(is_truncated) and is_truncated[index] for index in origins])


def inferred_extractions(
    name: str, pattern: tuple[re.Pattern[str], int] | None, before: list[Any], after: list[Any], nothing: frozenset[str]
) -> Extractions:
    """Extractions of a filter that does not report them: each draw whose output is not "no answer found".

    Args:
        name: the filter's name, used as the rule's name.
        pattern: for lm-eval's `regex`, the pattern and which match it takes, to find the offsets.
        before: the filter's input for each question.
        after: its output.
        nothing: outputs that mean "no answer found".
    """
    return tuple([_question(name, pattern, *pair, nothing) for pair in zip(before, after, strict=True)])


def _question(
    name: str, pattern: tuple[re.Pattern[str], int] | None, draws: Any, made: Any, nothing: frozenset[str]
) -> tuple[Extraction, ...]:
    # After take_first a filter sees letters as draws; and task code may return any number of draws.
    if not isinstance(draws, list) or not isinstance(made, list) or len(draws) != len(made):
        return ()
    return tuple([_draw(name, pattern, *pair, nothing) for pair in zip(draws, made, strict=True)])


def _draw(
    name: str, pattern: tuple[re.Pattern[str], int] | None, draw: Any, made: Any, nothing: frozenset[str]
) -> Extraction:
    if contains_fallback(made, nothing):
        return NOTHING
    start, end = (
        _match_span(*pattern, draw)
        if pattern is not None and isinstance(draw, str)
        else (UNKNOWN_OFFSET, UNKNOWN_OFFSET)
    )
    return Extraction(made if isinstance(made, str) else str(made), name, start, end)


def contains_fallback(item: Any, nothing: frozenset[str]) -> bool:
    """Whether an answer, or a part of it, is an output that means "no answer found"."""
    if isinstance(item, list):
        return any(contains_fallback(part, nothing) for part in item)
    return isinstance(item, str) and item in nothing


def _match_span(pattern: re.Pattern[str], which: int, text: str) -> tuple[int, int]:
    """Offsets of the match that lm-eval's `regex` takes: its first nonempty group, without surrounding white space."""
    matches = list(pattern.finditer(text))
    if not -len(matches) <= which < len(matches):
        return UNKNOWN_OFFSET, UNKNOWN_OFFSET
    match = matches[which]
    filled = [group for group in range(1, pattern.groups + 1) if match.group(group)]
    start, end = match.span(filled[0] if filled else 0)
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, start + len(part.strip())


def with_original_offsets(found: Extractions, seen: Sequence[Any], written: Sequence[Sequence[Any]]) -> Extractions:
    """Extractions with offsets in the model's text, if a step before the extraction changed the text.

    Args:
        found: the extractions, with offsets in `seen`.
        seen: the extraction step's input for each question.
        written: the model's texts for each question.
    """
    if found and len(seen) == len(written) and all(a is b for a, b in zip(seen, written, strict=True)):
        return found
    located_questions = []
    for number, extractions in enumerate(found):
        draws = seen[number] if isinstance(seen[number], (list, tuple)) else [seen[number]]
        texts = written[number] if number < len(written) else ()
        shifts = [_shift(*pair) for pair in zip(draws, texts, strict=False)]
        shifts += [None] * (len(extractions) - len(shifts))
        pairs = zip(extractions, shifts, strict=False)
        located_questions.append(tuple([_shifted(extraction, shift) for extraction, shift in pairs]))
    return tuple(located_questions)


def _shift(seen: Any, written: Any) -> int | None:
    """Difference of the offsets in the two texts; None if it is ambiguous."""
    if not isinstance(seen, str) or not isinstance(written, str):
        return None
    if seen.lower() == written.lower() and len(seen) == len(written):
        return 0
    offset = written.find(seen) if seen else UNKNOWN_OFFSET
    return None if offset < 0 or written.find(seen, offset + 1) >= 0 else offset


def _shifted(extraction: Extraction, shift: int | None) -> Extraction:
    if extraction.start == UNKNOWN_OFFSET or shift == 0:
        return extraction
    if shift is None:
        return replace(extraction, start=UNKNOWN_OFFSET, end=UNKNOWN_OFFSET)
    return replace(extraction, start=extraction.start + shift, end=extraction.end + shift)


def merge_extractions(earlier: Extractions, later: Extractions) -> Extractions:
    """Of two extraction steps in a row, the later one counts, unless the earlier one found nothing."""
    if not earlier or len(earlier) != len(later):
        return later or earlier
    return tuple([_merge(*pair) for pair in zip(earlier, later, strict=True)])


def _merge(earlier: tuple[Extraction, ...], later: tuple[Extraction, ...]) -> tuple[Extraction, ...]:
    if not later or len(earlier) != len(later):
        return later or earlier
    return tuple([old if old.answer is None else new for old, new in zip(earlier, later, strict=True)])
