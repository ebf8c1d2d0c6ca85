"""Documents that task code changes in place: what lm-eval's log would show of them, without a change to ours."""

from __future__ import annotations

import random
from typing import Any

from assay.tasks.lm_eval.build.mutated_documents import changed_document

ROW = {"q": "?", "choices": ["a", "b"]}


def ask(doc: dict[str, Any]) -> str:
    doc["asked"] = random.random() < 2
    return "?"


def state(doc: dict[str, Any]) -> int:
    doc["choices"].append("c")
    return 0


def test_requests_and_logs_are_kept_apart_and_the_row_is_unchanged() -> None:
    changed = changed_document(ROW, [ask, state], [state])
    assert changed.asked == {"q": "?", "choices": ["a", "b", "c"], "asked": True}
    assert changed.logged == {"choices": ["a", "b", "c"]}
    assert ROW == {"q": "?", "choices": ["a", "b"]}


def test_the_global_generators_are_left_as_they_were() -> None:
    before = random.getstate()
    changed_document(ROW, [ask], [])
    assert random.getstate() == before


def test_code_that_leans_on_an_earlier_change_costs_no_run() -> None:
    changed = changed_document(ROW, [ask], [lambda doc: doc["asked"]])
    assert changed.logged == {}
