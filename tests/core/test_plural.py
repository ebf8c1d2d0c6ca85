"""Counts agree with their nouns and verbs."""

from __future__ import annotations

import pytest

from assay.core.plural import plural, verb


@pytest.mark.parametrize(("count", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1200, "1,200 runs")])
def test_a_noun_agrees_with_its_count(count: int, text: str) -> None:
    assert plural(count, "run") == text


def test_an_irregular_plural_is_given() -> None:
    assert [plural(count, "leaf", "leaves") for count in (1, 2)] == ["1 leaf", "2 leaves"]


def test_a_verb_agrees_with_its_count() -> None:
    assert [verb(count, "is", "are") for count in (0, 1, 2)] == ["are", "is", "are"]
