"""Tasks in Python: the decorator in all four shapes, from rows to scores."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import assay
from assay.core.errors import DataError
from assay.core.requests import Generation, Loglikelihood, RollingLoglikelihood
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec
from assay.tasks.python import PythonTask
from assay.testing import ScriptedModel, check_task

ROWS = [{"country": "France", "capital": "Paris"}, {"country": "Italy", "capital": "Rome"}]


@assay.task("choose", rows=ROWS)
def choose(row: Any) -> Any:
    return assay.Choose(f"{row['country']}:", ["Paris", "Rome"], ["Paris", "Rome"].index(row["capital"]))


@assay.task("complete", rows=ROWS)
def complete(row: Any) -> Any:
    return assay.Complete(f"The capital of {row['country']} is", " " + row["capital"])


@assay.task("write", rows=lambda: iter(ROWS), version=3)
def write(row: Any) -> Any:
    return assay.Write(f"{row['country']}:", row["capital"], stop=("\n",), max_tokens=4)


@assay.task("read", rows=ROWS)
def read(row: Any) -> Any:
    return assay.Read(f"{row['capital']} is in {row['country']}.")


ALL = (choose, complete, write, read)


def perfect(request: Any) -> Any:
    """Knows the two capitals."""
    right = {"France": "Paris", "Italy": "Rome"}
    if isinstance(request, Generation):
        return right[request.prompt.rstrip(":")]  # type: ignore[union-attr]
    if isinstance(request, Loglikelihood):
        country = [name for name in right if name in request.prompt][0]  # noqa: RUF015
        return -1.0 if right[country] in request.continuation else -9.0
    return -10.0


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.card.name)
def test_every_shape_satisfies_the_contract(task: PythonTask) -> None:
    check_task(task)


def test_every_shape_builds_its_kind_of_request() -> None:
    built = [task.build(task.documents()[0]).requests for task in ALL]
    assert built[0] == (Loglikelihood("France:", " Paris"), Loglikelihood("France:", " Rome"))
    assert built[1] == (Loglikelihood("The capital of France is", " Paris"),)
    assert built[2] == (Generation("France:", ("\n",), 4),)
    assert built[3] == (RollingLoglikelihood("Paris is in France."),)


def test_every_shape_has_its_metrics() -> None:
    result = assay.evaluate(ScriptedModel(perfect), list(ALL), store=":memory:", bootstrap_iters=0)
    found = {(task.name, metric.metric) for task in result.tasks for metric in task.metrics}
    assert found == {
        ("choose", "acc"),
        ("choose", "acc_norm"),
        ("complete", "perplexity"),
        ("complete", "acc"),
        ("write", "exact_match"),
        ("read", "word_perplexity"),
        ("read", "byte_perplexity"),
        ("read", "bits_per_byte"),
    }
    assert result.task("choose").metric("acc").estimate.value == 1.0
    assert result.task("write").metric("exact_match").estimate.value == 1.0


def test_the_card_says_where_the_task_is_from() -> None:
    card = write.card
    assert (card.name, card.version, card.kind, card.num_fewshot) == ("write", 3, "generate_until", 0)
    assert card.source == __file__
    assert card.config["function"] == "write"


def test_the_function_can_still_be_called() -> None:
    assert complete(ROWS[0]).continuation == " Paris"


def test_metrics_and_filters_may_be_named() -> None:
    strip = PipelineSpec("strip", (FilterSpec("remove_whitespace"), FilterSpec("take_first")))
    metric = MetricSpec("exact_match", options={"ignore_case": True})
    task = PythonTask("t", ROWS, write, metrics=[metric], filters=[strip])
    shouting = ScriptedModel(lambda request: f"  {perfect(request).upper()} ")
    result = assay.evaluate(shouting, task, store=":memory:", bootstrap_iters=0)
    assert result.task("t").metric("exact_match").estimate.value == 1.0


@pytest.mark.parametrize("answer", ["4", " 4", ["four", "4\n"]])
def test_white_space_around_a_written_answer_does_not_count(answer: Any) -> None:
    task = PythonTask("t", [{}], lambda row: assay.Write("2 + 2 =", answer))
    result = assay.evaluate(ScriptedModel(lambda request: " 4"), task, store=":memory:", bootstrap_iters=0)
    assert result.task("t").metric("exact_match").estimate.value == 1.0
    assert not result.notices


def test_answers_that_white_space_alone_makes_wrong_are_counted() -> None:
    plain = [PipelineSpec("as-is", (FilterSpec("take_first"),))]
    rows = [{"said": said} for said in (" 4", "4", "5", "4\n")]
    task = PythonTask("t", rows, lambda row: assay.Write(row["said"], "4"), filters=plain)
    result = assay.evaluate(ScriptedModel(lambda request: str(request.prompt)), task, store=":memory:")  # type: ignore[union-attr]
    assert result.task("t").metric("exact_match").estimate.value == 0.25
    assert result.task("t").denominators.misses_by_space == {"as-is": 2}
    message = "t: 2 of 4 answers are correct except for surrounding white space and count as wrong (as-is)"
    assert [notice for notice in result.notices if notice.startswith(message)]


def test_several_answers_may_be_right() -> None:
    task = PythonTask("t", ROWS, lambda row: assay.Write("?", ["x", "y"]))
    assert task.build(task.documents()[0]).gold == ("x", "y")


def test_any_callable_may_build() -> None:
    task = PythonTask("t", ROWS, partial(lambda prompt, row: assay.Read(prompt), "text"))
    assert task.card.config["function"] == ""


def test_no_rows_are_an_error() -> None:
    with pytest.raises(DataError, match="task t: has no rows; expected at least one document"):
        PythonTask("t", [], choose).documents()


def test_a_function_that_gives_no_question_is_reported() -> None:
    message = "task t, document 0: its function returned 'a question', a str; expected assay.Choose, Complete, Write or"
    with pytest.raises(DataError, match=message):
        _ = PythonTask("t", ROWS, lambda row: "a question").card  # type: ignore[arg-type,return-value]


def test_a_change_of_shape_is_reported_with_the_document() -> None:
    task = PythonTask("t", ROWS, lambda row: read(row) if row["country"] == "France" else write(row))
    with pytest.raises(DataError, match="task t, document 1: was built as a Write; expected the same shape"):
        task.build(task.documents()[1])


@pytest.mark.parametrize("answer", [2, -1])
def test_an_answer_that_is_none_of_the_choices_is_reported(answer: int) -> None:
    task = PythonTask("t", ROWS, lambda row: assay.Choose("?", ["a", "b"], answer))
    message = f"task t, document 0: has the answer {answer} and 2 choices; expected a place from 0 to 1"
    with pytest.raises(DataError, match=message):
        task.build(task.documents()[0])


def test_choices_have_the_requests_that_the_metrics_need() -> None:
    metrics = ["acc", "acc_mutual_info", MetricSpec("acc_mutual_phrase", options={"phrase": "So:"}), "acc_opencompass"]
    task = PythonTask("wide", ROWS, choose, metrics=metrics)
    instance = task.build(task.documents()[0])
    assert instance.requests == (
        Loglikelihood("France:", " Paris"),
        Loglikelihood("France:", " Rome"),
        Loglikelihood("", " Paris"),
        Loglikelihood("", " Rome"),
        Loglikelihood("So:", " Paris"),
        Loglikelihood("So:", " Rome"),
        RollingLoglikelihood("France:", stands_on_prefix=False),
    )
    assert (instance.nulls, instance.prompts) == (("", "So:"), 1)
    found = assay.evaluate("ngram", task, store=":memory:").task("wide")
    assert [metric.metric for metric in found.metrics] == [
        "acc",
        "acc_mutual_info",
        "acc_mutual_phrase",
        "acc_opencompass",
    ]
