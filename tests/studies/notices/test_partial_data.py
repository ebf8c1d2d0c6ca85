"""Notices about splits of which a copy holds fewer rows than officially."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from assay import evaluate


def run_notices(write_task: Callable[..., None], tmp_path: Path, shots: int = 0, **cards: str) -> list[str]:
    """The notices of a run on the tasks with these cards; six rows to evaluate, two for examples."""
    rows = [json.dumps({"q": f"{number}?", "label": number % 2}) + "\n" for number in range(8)]
    for name in cards:
        write_task(name, card=cards[name])
    (tmp_path / "tasks/odd.jsonl").write_text("".join(rows[:6]))
    (tmp_path / "tasks/shots.jsonl").write_text("".join(rows[6:]))
    found = evaluate("dummy", list(cards), store=":memory:", include_path=tmp_path / "tasks", num_fewshot=shots)
    return [notice for notice in found.notices if "official" in notice]


def test_a_smaller_split_is_reported(write_task: Callable[..., None], tmp_path: Path) -> None:
    found = run_notices(write_task, tmp_path, odd="{rows: {test: 10042, train: 3000}}")
    assert found == ["odd: 6 of 10,042 official rows of `test`"]


def test_a_smaller_few_shot_split_is_reported_if_it_is_used(write_task: Callable[..., None], tmp_path: Path) -> None:
    found = run_notices(write_task, tmp_path, 1, odd="{rows: {test: 6, train: 3000}}")
    assert found == ["odd: 2 of 3,000 official rows of `train`"]


def test_as_many_rows_or_more_are_not_reported(write_task: Callable[..., None], tmp_path: Path) -> None:
    assert run_notices(write_task, tmp_path, 1, odd="{rows: {test: 6, train: 1}}", other="{title: Other}") == []


def test_many_tasks_share_a_line(write_task: Callable[..., None], tmp_path: Path) -> None:
    found = run_notices(write_task, tmp_path, **{f"odd_{number}": "{rows: {test: 10}}" for number in range(5)})
    assert found == ["5 tasks (odd_0, odd_1, …): 30 of 50 official rows of `test` together"]
