"""Notices of a run: one line for the ways of asking a task that have the same to tell."""

from __future__ import annotations

from dataclasses import replace

from assay import evaluate
from assay.core.requests import Request
from assay.core.responses import Failure
from assay.core.results import TaskResult
from assay.core.specs import GroupMetricSpec, GroupSpec
from assay.run.notices import group_notices, task_notices
from assay.scoring.aggregate import aggregate_groups
from assay.testing.scripted import ScriptedModel
from assay.testing.toys import toy_generation_task


def answer(request: Request) -> str:
    return "nothing"


def results(*unparsed: tuple[str, int]) -> list[TaskResult]:
    """A task's result under other names, with so many documents of four without an answer."""
    (own,) = evaluate(ScriptedModel(answer), toy_generation_task(4), store=":memory:").tasks
    return [
        replace(
            own,
            card=replace(own.card, name=name),
            denominators=replace(own.denominators, unparsed={"number": count}, failed=0),
        )
        for name, count in unparsed
    ]


def test_one_way_of_asking_has_its_own_name() -> None:
    told = task_notices(results(("quiz#seed=1", 3), ("quiz#seed=2", 0), ("other", 2)))
    assert told == [
        "quiz#seed=1: no answer was found in 3 of 4 (number)",
        "other: no answer was found in 2 of 4 (number)",
    ]


def test_several_ways_are_one_line_with_the_range_of_their_numbers() -> None:
    told = task_notices(results(("quiz@a#seed=1", 3), ("quiz@b#seed=1", 2), ("quiz@b#seed=2", 3)))
    assert told == ["quiz (3 ways): no answer was found in 2 to 3 of 4 (number)"]


def test_it_is_told_where_some_ways_only_have_the_notice() -> None:
    told = task_notices(results(("quiz#seed=1", 3), ("quiz#seed=2", 0), ("quiz#seed=3", 3)))
    assert told == ["quiz (2 of 3 ways): no answer was found in 3 of 4 (number)"]


def test_a_group_says_which_tasks_its_score_leaves_out() -> None:
    def fail(request: Request) -> Failure | str:
        return Failure("timeout", "slow") if str(request.prompt).startswith("1 ") else "7"  # type: ignore[union-attr]

    two = [replace(toy_generation_task(2, name)) for name in ("a", "b")]
    lost = replace(two[1], rows=two[1].rows[1:])
    tasks = evaluate(ScriptedModel(fail), [two[0], lost], store=":memory:").tasks
    spec = GroupSpec("g", "g", ("a", "b"), (GroupMetricSpec("exact_match"),))
    told = ["g: its score is over 1 of 2 tasks: all documents failed in b"]
    assert group_notices(aggregate_groups([spec], tasks), tasks) == told
