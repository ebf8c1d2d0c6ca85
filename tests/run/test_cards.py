"""A task's card is recorded with a run, and changes no request, key or number of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.results import RunResult
from assay.report.lm_eval_results import results_data

ROWS = "".join(json.dumps({"q": f"{n}+1?", "c": ["1", "2", "3"], "a": n % 3}) + "\n" for n in range(9))
TASK = """\
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: multiple_choice
num_fewshot: 2
doc_to_text: q
doc_to_choice: c
doc_to_target: a
"""
CARD = """\
card:
  title: Sums
  description: Add one.
  primary: acc
  chance: 0.3333
  rows: {test: 9}
  traps: [One.]
  references: [{model: m, metric: acc, value: 0.5, source: s}]
"""


@pytest.fixture
def runs(tmp_path: Path) -> tuple[RunResult, RunResult]:
    """The same task without and with a card, in one store."""
    (tmp_path / "rows.jsonl").write_text(ROWS, encoding="utf-8")
    path, found = tmp_path / "sums.yaml", []
    for text in (TASK, TASK + CARD):
        path.write_text(text, encoding="utf-8")
        found.append(assay.evaluate("dummy", str(path), store=tmp_path / "store.db", bootstrap_iters=100))
    return found[0], found[1]


def entry(run: RunResult) -> dict[str, Any]:
    return dict(run.manifest["tasks"]["sums"])


def test_a_card_changes_no_request_and_no_number(runs: tuple[RunResult, RunResult]) -> None:
    plain, carded = runs
    assert (plain.counts.asked, carded.counts.asked) == (27, 0)
    assert plain.task("sums").metrics == carded.task("sums").metrics
    assert {key: value for key, value in entry(carded).items() if key != "card"} == entry(plain)


def test_a_card_changes_only_the_block_of_result_files_that_describes_it(runs: tuple[RunResult, RunResult]) -> None:
    plain, carded = (results_data(run, {}) for run in runs)
    for key in ("results", "configs", "versions", "n-shot", "higher_is_better", "n-samples"):
        assert plain[key] == carded[key]
    assert '"card":' not in json.dumps(plain)


def test_the_record_keeps_what_reports_need(runs: tuple[RunResult, RunResult]) -> None:
    plain, carded = runs
    assert "card" not in entry(plain)
    assert entry(carded)["card"] == {
        "primary": "acc",
        "chance": 0.3333,
        "rows": {"test": 9},
        "references": [{"model": "m", "metric": "acc", "value": 0.5, "source": "s"}],
    }
    assert carded.task("sums").card.facts["title"] == "Sums"


def test_runs_with_different_cards_are_the_same_task(runs: tuple[RunResult, RunResult], tmp_path: Path) -> None:
    plain, carded = (run.run_id for run in runs)
    assert "card" not in repr(assay.compare(plain, carded, store=tmp_path / "store.db").notices)
    rescored = assay.rescore(plain, store=tmp_path / "store.db")  # its file has a card by now
    assert rescored.task("sums").metrics == runs[0].task("sums").metrics
