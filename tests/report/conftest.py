"""Runs to report on: two tasks of different shape, a group over tasks, a failure, odd names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.api import evaluate
from assay.core.requests import Generation, Request
from assay.core.responses import Failure
from assay.core.results import RunResult
from assay.core.specs import GroupMetricSpec, GroupSpec
from assay.scoring.aggregate import aggregate_groups
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task, toy_perplexity_task


def answer(request: Request) -> str | float | Failure:
    if isinstance(request, Generation):
        return Failure("too_long", "9 tokens") if str(request.prompt).startswith("2") else "7"
    return -float(len(str(request)) % 7) - 0.5


@pytest.fixture(scope="package")
def result() -> RunResult:
    """Three tasks in a run; one generation failed."""
    tasks = [toy_choice_task(6), toy_generation_task(4), toy_perplexity_task(3)]
    return evaluate(ScriptedModel(answer), tasks, store=":memory:", bootstrap_iters=100)


@pytest.fixture(scope="package")
def grouped() -> RunResult:
    """A group that aggregates, inside one that only gathers."""
    model = ScriptedModel(answer)
    tasks = [toy_choice_task(6, name="one"), toy_choice_task(10, name="two"), toy_perplexity_task(2)]
    plain = evaluate(model, tasks, store=":memory:", bootstrap_iters=100)
    inner = GroupSpec("inner", "Inner", ("one", "two"), (GroupMetricSpec("acc"),), version=2)
    outer = GroupSpec("outer", "Outer", ("inner", "toy_perplexity"))
    return replace(plain, groups=aggregate_groups([inner, outer], plain.tasks))
