"""A recorded run, loaded without its model."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import ArgumentError, DataError, UnknownName
from assay.core.requests import Generation, Request
from assay.store.store import Store
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task


def seven(request: Request) -> str | float:
    return "7" if isinstance(request, Generation) else -1.0


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.mark.parametrize(
    "settings",
    [
        {"limit": 6},
        {"sample": 20},
        {"predict_only": True},
        {"metrics": "+acc_bytes,ece"},
        {"num_fewshot": 2},
        {"until_se": 0.08},
        {"style": "letters", "orders": 2, "limit": 8},
    ],
)
def test_a_finished_run_gives_what_it_recorded(store: Path, settings: dict[str, Any]) -> None:
    ran = assay.evaluate("ngram", "demo_questions", store=store, **settings)
    loaded = assay.load_run("last", store=store)
    assert loaded.tasks == ran.tasks
    assert loaded.to_dicts(samples=True) == ran.to_dicts(samples=True)
    assert (loaded.run_id, loaded.counts, loaded.notices) == (ran.run_id, ran.counts, ran.notices)


SEEDS = {"num_fewshot": 2, "fewshot_sampler": "fixed", "fewshot_seeds": (1, 2)}


@pytest.mark.parametrize("settings", [{"limit": 8}, {"until_se": 0.1}, {"sample": 20, "reference": "last"}])
def test_runs_over_several_seeds_are_loaded_with_their_variance(store: Path, settings: dict[str, Any]) -> None:
    assay.evaluate("dummy", "demo_arithmetic_2d", store=store, **SEEDS)
    ran = assay.evaluate("ngram", "demo_arithmetic_2d", store=store, **SEEDS, **settings)
    loaded = assay.load_run(ran)
    assert len(ran.tasks) == 2 and ran.variance
    assert loaded.tasks == ran.tasks and loaded.variance == ran.variance
    assert (loaded.notices, loaded.contributions) == (ran.notices, ran.contributions)


@pytest.mark.parametrize("settings", [{"sample": 30, "reference": "last"}, {"until_decided": "last", "limit": 60}])
def test_what_a_run_found_with_another_is_loaded_without_it(store: Path, settings: dict[str, Any]) -> None:
    other = assay.evaluate("dummy", "demo_questions", store=store)
    ran = assay.evaluate("ngram", "demo_questions", store=store, **settings)
    with closing(sqlite3.connect(store)) as opened, opened:
        opened.execute("DELETE FROM runs WHERE id = ?", [other.run_id])
    loaded = assay.load_run(ran)
    found = loaded.tasks[0].subsample
    assert (found.reference or found.stop.other) == other.run_id
    assert loaded.tasks == ran.tasks and loaded.contributions == ran.contributions


def test_groups_are_loaded_too(store: Path) -> None:
    ran = assay.evaluate("dummy", "demo_arithmetic", store=store, limit=3)
    assert assay.load_run(ran).groups == ran.groups


def test_loading_records_nothing(store: Path) -> None:
    ran = assay.evaluate("dummy", "demo_questions", store=store, limit=2)
    assay.load_run(ran.run_id[:15], store=store)
    with Store(store) as opened:
        assert [record.id for record in opened.runs.all()] == [ran.run_id]


def test_task_objects_are_given_again(store: Path) -> None:
    task = toy_generation_task(4)
    ran = assay.evaluate(ScriptedModel(seven), task, store=store)
    assert assay.load_run(ran, tasks=[task]).tasks == ran.tasks
    with pytest.raises(UnknownName, match="was an object in Python"):
        assay.load_run(ran)
    with pytest.raises(ArgumentError, match="tasks names toy; expected task objects only"):
        assay.load_run(ran, tasks="toy")


def test_an_interrupted_run_gives_the_documents_answered_so_far(store: Path) -> None:
    asked = []

    def stops(request: Request) -> str:
        asked.append(request)
        if len(asked) > 3:
            raise KeyboardInterrupt
        return "7"

    with pytest.raises(KeyboardInterrupt):
        assay.evaluate(ScriptedModel(stops), toy_generation_task(5), store=store)
    loaded = assay.load_run("last", tasks=[toy_generation_task(5)], store=store)
    counts = loaded.tasks[0].denominators
    assert (counts.scored, counts.failed) == (3, 2)
    assert any("is interrupted: 2 of 5 documents lack answers" in notice for notice in loaded.notices)


def test_a_task_that_has_changed_is_an_error(store: Path) -> None:
    ran = assay.evaluate(ScriptedModel(seven), toy_choice_task(4, name="toy"), store=store)
    with pytest.raises(DataError, match="its documents are not those of the run"):
        assay.load_run(ran, tasks=[toy_choice_task(5, name="toy")])


def test_scores_that_are_others_today_are_a_notice(store: Path) -> None:
    def task(answer: str) -> Any:
        rows = [{"question": "1", "answer": "7"}, {"question": "2", "answer": "8"}]
        metric = assay.MetricSpec("mine", function=lambda references, predictions: float(answer), aggregation="mean")
        return assay.task("mine", rows, metrics=[metric])(lambda row: assay.Write(row["question"], row["answer"]))

    ran = assay.evaluate(ScriptedModel(seven), task("0.25"), store=store)
    (notice,) = assay.load_run(ran, tasks=[task("0.5")]).notices[-1:]
    assert notice.startswith("mine: mine is 0.5, and the run recorded 0.25: the scoring has changed since (Assay ")
