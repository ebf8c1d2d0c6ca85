"""Notices of a run: one line for all variants of a task with the same notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from assay import Choose, evaluate
from assay.core.requests import Loglikelihood, Request
from assay.core.responses import Failure
from assay.core.results import TaskResult
from assay.core.specs import GroupMetricSpec, GroupSpec
from assay.scoring.aggregate import aggregate_groups
from assay.studies.notices.task_notices import group_notices, task_notices
from assay.tasks.python import PythonTask
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


def test_one_variant_has_its_own_name() -> None:
    message = task_notices(results(("quiz#seed=1", 3), ("quiz#seed=2", 0), ("other", 2)))
    assert message == [
        "quiz#seed=1: no answer was found in 3 of 4 (number)",
        "other: no answer was found in 2 of 4 (number)",
    ]


def test_several_ways_are_one_line_with_the_range_of_their_numbers() -> None:
    message = task_notices(results(("quiz@a#seed=1", 3), ("quiz@b#seed=1", 2), ("quiz@b#seed=2", 3)))
    assert message == ["quiz (3 variants): no answer was found in 2 to 3 of 4 (number)"]


def test_it_is_reported_if_only_some_variants_have_the_notice() -> None:
    message = task_notices(results(("quiz#seed=1", 3), ("quiz#seed=2", 0), ("quiz#seed=3", 3)))
    assert message == ["quiz (2 of 3 variants): no answer was found in 3 of 4 (number)"]


def test_a_group_says_which_tasks_its_score_leaves_out() -> None:
    def fail(request: Request) -> Failure | str:
        return Failure("timeout", "slow") if str(request.prompt).startswith("1 ") else "7"  # type: ignore[union-attr]

    two = [replace(toy_generation_task(2, name)) for name in ("a", "b")]
    lost = replace(two[1], rows=two[1].rows[1:])
    tasks = evaluate(ScriptedModel(fail), [two[0], lost], store=":memory:").tasks
    spec = GroupSpec("g", "g", ("a", "b"), (GroupMetricSpec("exact_match"),))
    message = ["g: its score is over 1 of 2 tasks: all documents failed in b"]
    assert group_notices(aggregate_groups([spec], tasks), tasks) == message


def classified(says: Callable[[int], str], parent: str | None = None, n: int = 12) -> list[str]:
    """The notices about documents of which every third is "no"; `says` returns the prediction of each."""
    rows = [{"number": number} for number in range(n)]

    def ask(row: Any) -> Choose:
        return Choose(f"{row['number']}?", ["no", "yes"], int(row["number"] % 3 > 0))

    def answer(request: Request) -> float:
        assert isinstance(request, Loglikelihood)
        return -1.0 if request.continuation.strip() == says(int(str(request.prompt)[:-1])) else -2.0

    model = ScriptedModel(answer)
    results = evaluate(model, PythonTask("t", rows, ask), store=":memory:").tasks
    return task_notices(results, is_trained=parent is not None)


def test_one_class_for_all_documents_is_noticed_with_how_often_it_is_right() -> None:
    assert classified(lambda number: "yes") == ['t: "yes" is predicted in all 12 documents and correct in 8 of them']
    assert classified(lambda number: "yes", n=9) == []


def test_a_trained_model_that_is_no_better_than_the_most_frequent_class_is_noticed() -> None:
    message = "t: the trained model is correct in 8 of 12 documents, no more than always predicting"

    def swaps_two(number: int) -> str:
        return {0: "no", 1: "no"}.get(number, "yes")

    assert classified(swaps_two, "parent") == [f'{message} "yes", the most frequent class (8)']
    assert classified(swaps_two) == []
    assert classified(lambda number: "no" if number % 3 == 0 else "yes", "parent") == []


def test_one_class_is_reported_by_the_tasks_first_metric() -> None:
    """The likelier choice is "no", the likelier one by characters "maybe yes"."""
    rows = [{"number": number} for number in range(12)]

    def ask(row: Any) -> Choose:
        return Choose(f"{row['number']}?", ["no", "maybe yes"], int(row["number"] % 3 > 0))

    def message(metric: str) -> list[str]:
        task = PythonTask("t", rows, ask, metrics=(metric,))
        model = ScriptedModel(lambda request: -2.0 if "maybe" in str(request) else -1.0)
        return task_notices(evaluate(model, task, store=":memory:").tasks)

    assert message("acc") == ['t: "no" is predicted in all 12 documents and correct in 4 of them']
    assert message("acc_norm") == ['t: "maybe yes" is predicted in all 12 documents and correct in 8 of them']
