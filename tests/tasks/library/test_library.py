"""The shipped tasks: each keeps its contract and scores perfect answers above corrupted ones, without any model."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from assay import evaluate
from assay.core.protocols import Task
from assay.core.requests import REQUEST_KINDS, Generation, Instance, Loglikelihood, Request
from assay.core.responses import Logprob, Text
from assay.core.results import RunResult
from assay.core.specs import TaskOptions
from assay.run.resolve import known_names
from assay.tasks.catalog import LIBRARY, Catalog
from assay.tasks.selection import select_tasks
from assay.testing import ScriptedModel, check_task

# Tasks whose data is shipped.
NAMES = sorted(name for name, entry in Catalog().entries.items() if entry.kind == "task" and entry.family == "demo")
LIMIT = 12


@lru_cache
def shipped(name: str) -> Task:
    return select_tasks([name], Catalog(), TaskOptions(), known_names()).tasks[0]


def answers(task: Task, is_perfect: bool) -> dict[Request, Any]:
    """What a perfect model, or its opposite, says to every request of a task."""
    found: dict[Request, Any] = {}
    for document in task.documents()[:LIMIT]:
        instance = task.build(document)
        for place, request in enumerate(instance.requests):
            found[request] = _answer(instance, place, request, is_perfect)
    return found


def _answer(instance: Instance, place: int, request: Request, is_perfect: bool) -> Any:
    if isinstance(request, Generation):
        gold = instance.gold if isinstance(instance.gold, str) else instance.gold[0]
        return Text(gold if is_perfect else gold + " and something else")
    is_wanted = is_perfect
    if isinstance(request, Loglikelihood) and instance.choices:
        is_wanted = (place == instance.gold) == is_perfect
    return Logprob(-0.5 if is_wanted else -50.0, 1, is_greedy=is_wanted)


def scored(name: str, is_perfect: bool) -> RunResult:
    script = answers(shipped(name), is_perfect)
    model = ScriptedModel(script.__getitem__, name=f"perfect {is_perfect}")
    return evaluate(model, shipped(name), store=":memory:", limit=LIMIT, bootstrap_iters=0)


@pytest.mark.parametrize("name", NAMES)
def test_perfect_answers_score_above_corrupted_ones(name: str) -> None:
    best, worst = scored(name, True).task(name), scored(name, False).task(name)
    assert best.metrics
    for metric in best.metrics:
        high, low = metric.estimate.value, worst.metric(metric.metric).estimate.value
        assert (high > low) if metric.higher_is_better else (high < low), metric.metric


@pytest.mark.parametrize("name", NAMES)
def test_accuracies_reach_both_ends(name: str) -> None:
    best, worst = scored(name, True).task(name), scored(name, False).task(name)
    for metric in best.metrics:
        if metric.metric in ("acc", "acc_norm", "exact_match"):
            assert (metric.estimate.value, worst.metric(metric.metric).estimate.value) == (1.0, 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_every_task_keeps_its_contract(name: str) -> None:
    check_task(shipped(name))


def test_every_kind_of_request_occurs_in_demo() -> None:
    tasks = select_tasks(["demo"], Catalog(), TaskOptions(), known_names()).tasks
    kinds = {request.kind for task in tasks for request in task.build(task.documents()[0]).requests}
    assert kinds == set(REQUEST_KINDS)


def test_demo_holds_every_task_whose_data_is_shipped() -> None:
    tasks = select_tasks(["demo"], Catalog(), TaskOptions(), known_names()).tasks
    assert sorted(task.card.name for task in tasks) == NAMES


def test_every_group_can_be_run_alone() -> None:
    catalog = Catalog()
    for name, entry in catalog.entries.items():
        if entry.kind == "group":
            assert select_tasks([name], catalog, TaskOptions(), known_names()).tasks


def test_every_task_file_of_the_library_is_found() -> None:
    defined = {entry.path for entry in Catalog().entries.values() if entry.path is not None}  # a tag has no file
    files = {path for path in LIBRARY.rglob("*.yaml") if not path.name.startswith("_")}
    assert files == defined
