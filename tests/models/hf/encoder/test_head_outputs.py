"""Logits of heads, written down by hand, and what is read from them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from assay.core.requests import ChoiceSelection, Classification, SpanExtraction
from assay.core.responses import Failure, LabelScores, Text
from assay.models.hf.encoder.head_encoding import HeadInput, HeadRequest, HeadRow
from assay.models.hf.encoder.head_outputs import HeadPredictor

torch = pytest.importorskip("torch")
CONTEXT = "red, blue"


def row(*places: tuple[int, int] | None) -> HeadRow:
    return HeadRow(tuple(range(len(places))), (0,) * len(places), places, 2)


# [CLS] question red , blue [SEP], and the same in two windows.
ONE = HeadInput((row(None, None, (0, 3), (3, 4), (5, 9), None),))
TWO = HeadInput((row(None, None, (0, 3), (3, 4), None), row(None, None, (3, 4), (5, 9), None)))


def read(request: HeadRequest, rows: HeadInput, logits: Sequence[object], max_span: int = 30) -> object:
    reader = HeadPredictor(("no", "yes", "both"), max_span)
    return reader.answer(request, rows, [torch.tensor(table, dtype=torch.float64) for table in logits])


def span(rows: HeadInput, *tables: object, may_lack: bool = False, max_span: int = 30) -> str:
    found = read(SpanExtraction("which", CONTEXT, may_lack), rows, tables, max_span)
    assert isinstance(found, Text)
    return found.text


def test_a_span_begins_before_it_ends_and_outside_of_the_question() -> None:
    # The question's token would score 18; blue to red, backwards, 14.
    starts, ends = [0.0, 9, 2, 1, 7, 0], [0.0, 9, 7, 1, 3, 0]
    assert span(ONE, [starts, ends]) == "blue"
    assert span(ONE, [starts, [0.0, 9, 9, 1, 3, 0]]) == "red"
    assert span(ONE, [[0.0, 9, 8, 1, 4, 0], [*ends[:2], 1, 1, 6, 0]]) == "red, blue"


def test_a_span_has_so_many_tokens_at_most() -> None:
    table = [[0.0, 0, 8, 1, 4, 0], [0.0, 0, 1, 2, 6, 0]]
    assert [span(ONE, table, max_span=most) for most in (3, 2, 1)] == ["red, blue", "red,", "blue"]


def test_the_best_window_answers() -> None:
    first, second = [[0.0, 0, 3, 0, 0], [0.0, 0, 1, 0, 0]], [[0.0, 0, 0, 2, 0], [0.0, 0, 0, 1, 0]]
    assert span(TWO, first, second) == "red"
    assert span(TWO, first, [[0.0, 0, 0, 4, 0], [0.0, 0, 0, 1, 0]]) == "blue"


def test_an_answer_is_lacking_only_if_every_window_says_so() -> None:
    # The best span scores 4; CLS scores 2 and 10, then 6 and 10.
    second = [[5.0, 0, 0, 1, 0], [5.0, 0, 0, 1, 0]]
    some, none = ([[cls, 0, 3, 0, 0], [cls, 0, 1, 0, 0]] for cls in (1.0, 3.0))
    assert span(TWO, some, second, may_lack=True) == "red"
    assert span(TWO, none, second, may_lack=True) == ""
    assert span(TWO, none, second) == "red"


def test_scores_are_among_what_is_requested() -> None:
    rows = HeadInput((HeadRow((1, 2, 3), (0, 0, 0)),), truncated=4)
    found = read(Classification("a", ("both", "no")), rows, [[0.0, 9.0, math.log(3)]])
    assert isinstance(found, LabelScores) and (found.prompt_tokens, found.truncated) == (3, 4)
    assert found.scores == pytest.approx([math.log(3 / 4), math.log(1 / 4)])


def test_choices_are_scored_together() -> None:
    rows = HeadInput((HeadRow((1, 2), (0, 0)), HeadRow((1, 2, 3), (0, 0, 0))))
    found = read(ChoiceSelection("a", ("b", "c")), rows, [[math.log(4)], [0.0]])
    assert isinstance(found, LabelScores) and found.prompt_tokens == 3
    assert found.scores == pytest.approx([math.log(4 / 5), math.log(1 / 5)])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_none_fail(value: float) -> None:
    found = read(ChoiceSelection("a", ("b", "c")), HeadInput((row(None), row(None))), [[value], [0.0]])
    assert isinstance(found, Failure) and found.kind == "not_finite"
