"""Which documents a run evaluates."""

from __future__ import annotations

import pytest

from assay.core.errors import DataError
from assay.core.specs import RunSpec
from assay.run.build import build_task, selected_documents
from assay.testing import toy_choice_task

TASK = toy_choice_task(9)


@pytest.mark.parametrize(
    ("limit", "count"), [(None, 9), (3, 3), (3.0, 3), (1, 1), (1.0, 1), (0.5, 5), (0.01, 1), (0.999, 9), (100, 9)]
)
def test_a_limit_is_a_count_or_a_share(limit: float | None, count: int) -> None:
    found = selected_documents(TASK, RunSpec("m", (), limit=limit))
    assert [document.id for document in found] == list(range(count))


def test_chosen_places_come_sorted_and_once() -> None:
    spec = RunSpec("m", (), samples={"toy_choice": (7, 2, 7)})
    assert [document.id for document in selected_documents(TASK, spec)] == [2, 7]


def test_a_task_without_chosen_places_is_evaluated_whole() -> None:
    spec = RunSpec("m", (), samples={"other": (1,)})
    assert len(selected_documents(TASK, spec)) == 9


@pytest.mark.parametrize("place", [-1, 9])
def test_a_place_outside_is_an_error(place: int) -> None:
    spec = RunSpec("m", (), samples={"toy_choice": (0, place)})
    with pytest.raises(
        DataError, match=rf"--samples toy_choice: no documents \[{place}\]; expected places from 0 to 8"
    ):
        selected_documents(TASK, spec)


def test_a_limit_changes_no_prompt_and_no_key() -> None:
    whole = build_task(TASK, RunSpec("m", ()), "f" * 64)
    part = build_task(TASK, RunSpec("m", (), limit=4), "f" * 64)
    assert part.instances == whole.instances[:4]
    assert list(part.keys.by_instance) == list(whole.keys.by_instance)[:4]
    assert (part.available, len(part.documents)) == (9, 4)


def test_the_documents_evaluated_have_a_fingerprint() -> None:
    specs = [RunSpec("m", ()), RunSpec("m", (), limit=4), RunSpec("m", (), samples={"toy_choice": (0, 1, 2, 3)})]
    whole, part, same = (build_task(TASK, spec, "f" * 64).fingerprint for spec in specs)
    assert part == same != whole
