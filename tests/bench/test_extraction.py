"""Extraction on hand-labelled outputs of a real model: it does not get worse, and the page states what is measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.extraction.forms import HELD_OUT, TUNING, prompts
from bench.extraction.measuring import KINDS, READERS, Labelled, labelled, measure, table

PAGE = (Path(__file__).parents[2] / "docs" / "extraction.md").read_text(encoding="utf-8")
# Of all 180 outputs: right readings at least, wrong ones at most. Raise and lower them when extraction gets better.
BOUNDS = {"number": (38, 3), "letter": (48, 0), "choice_text": (12, 0)}


def of(kind: str) -> list[Labelled]:
    return [item for item in labelled() if item.kind == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_extraction_does_not_get_worse(kind: str) -> None:
    found = measure(next(iter(READERS[kind].values())), of(kind))
    right, wrong = BOUNDS[kind]
    assert found.right >= right
    assert found.read - found.right <= wrong


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_read_from_a_cut_text_that_its_label_does_not_state(kind: str) -> None:
    found = measure(next(iter(READERS[kind].values())), [item for item in of(kind) if item.is_cut])
    assert found.read == found.right


def test_the_page_states_what_is_measured() -> None:
    assert table(HELD_OUT) in PAGE


def test_the_labelled_outputs_are_those_of_the_prompts() -> None:
    items = labelled()
    asked = {prompt.id: (prompt.kind, prompt.split, prompt.choices) for prompt in prompts()}
    assert {item.id: (item.kind, item.split, item.choices) for item in items} == asked
    assert len(items) == 180 and Counter(item.split for item in items) == {TUNING: 120, HELD_OUT: 60}
    assert all(item.label is None or item.text for item in items)
