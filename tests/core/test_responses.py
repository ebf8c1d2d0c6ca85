"""Outputs as flat values for a table, and back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import AssayError
from assay.core.responses import LabelScores, Logprob, Output, Text, flatten, unflatten

COUNT = st.integers(0, 2**40)
NOTES = st.lists(st.text(max_size=10), max_size=3).map(tuple)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
# A high surrogate before a low one is excluded: JSON reads the two as one character.
TEXTS = st.text(st.characters(codec=None)).filter(lambda text: not re.search("[\ud800-\udbff][\udc00-\udfff]", text))
LOGPROBS = st.builds(Logprob, FLOATS, COUNT, st.booleans(), COUNT, COUNT, NOTES, st.none() | COUNT)
WRITTEN = st.builds(Text, TEXTS, st.sampled_from(["stop", "eos", "length"]), COUNT, COUNT, COUNT, NOTES, TEXTS)

SCORES = st.builds(LabelScores, st.lists(FLOATS, max_size=5).map(tuple), COUNT, COUNT, NOTES)


@given(LOGPROBS | WRITTEN | SCORES)
def test_an_output_survives_exactly(output: Output) -> None:
    assert unflatten(flatten(output)) == output


@given(LOGPROBS | WRITTEN | SCORES)
def test_what_goes_into_a_table_is_valid_utf8(output: Output) -> None:
    extra = flatten(output)[-1]
    assert extra is None or extra.encode("ascii")


def test_a_pair_of_surrogates_comes_back_as_its_character() -> None:
    assert unflatten(flatten(Text("\ud83d\ude42"))) == Text("🙂")


def test_a_plain_log_probability_carries_no_json() -> None:
    assert flatten(Logprob(-1.5, 2, True, 3, 4)) == (-1.5, True, 2, 3, 4, None)


def test_an_empty_text_is_a_text() -> None:
    assert unflatten(flatten(Text("", "length"))) == Text("", "length")


def test_a_text_without_reasoning_is_stored_as_before_there_was_any() -> None:
    stored = (None, None, 1, 2, 0, '{"text": "4", "finish": "stop"}')
    assert flatten(Text("4", "stop", 1, 2)) == stored
    assert unflatten(stored) == Text("4", "stop", 1, 2)


def test_numbers_of_sqlite_become_truth_values() -> None:
    assert unflatten((-1.0, 1, 1, 0, 0, None)).is_greedy is True  # type: ignore[union-attr]


@pytest.mark.parametrize("extra", [None, "{}", '{"label_scores": [1]}'])
def test_a_row_of_a_newer_version_is_refused(extra: str | None) -> None:
    with pytest.raises(AssayError, match="newer Assay"):
        unflatten((None, None, 0, 0, 0, extra))
