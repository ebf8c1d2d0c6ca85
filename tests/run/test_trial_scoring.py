"""Settings that cannot work are found on the first document, before the first request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assay.api import evaluate
from assay.core.errors import UserError
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec
from assay.testing import ScriptedModel, ToyTask, toy_choice_task, toy_generation_task


def changed(**changes: Any) -> ToyTask:
    task = toy_generation_task(4)
    return replace(task, scoring=replace(task.scoring, **changes))


def filtered(name: str, **options: Any) -> ToyTask:
    return changed(pipelines=(PipelineSpec("strict", (FilterSpec(name, options),)),))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (filtered("take_first_k", k=3), r"task toy_generation, filter take_first_k: only 1 draw; expected 3"),
        (filtered("multi_choice_regex"), "task toy_generation, filter multi_choice_regex: the document has no column"),
        (filtered("extract", using="choice_text", choices="gone"), "no list of texts in the column gone"),
        (filtered("regex", group_select="first"), "task toy_generation, document 0: its filters or metrics cannot"),
        (filtered("map", mapping_dict=["a"]), "AttributeError"),
        (
            changed(metrics=(MetricSpec("exact_match", options={"regexes_to_ignore": ["("]}),)),
            "unterminated subpattern",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_before_the_first_request(task: ToyTask, message: str) -> None:
    model = ScriptedModel(lambda request: "7")
    with pytest.raises(UserError, match=message):
        evaluate(model, [task, toy_generation_task(2, "other")], store=":memory:")
    assert model.asked == []


def test_code_of_a_task_is_called_once_per_document() -> None:
    calls: list[int] = []

    def process(document: dict[str, Any], results: list[Any]) -> dict[str, float]:
        calls.append(1)
        return {"exact_match": 1.0}

    evaluate(ScriptedModel(lambda request: "7"), changed(process=process), store=":memory:")
    assert len(calls) == 4


def test_every_shape_passes() -> None:
    model = ScriptedModel(lambda request: "7" if request.kind == "generation" else -1.0)
    tasks = [toy_choice_task(4), toy_generation_task(4), toy_generation_task(4, "drawn", draws=3)]
    assert evaluate(model, tasks, store=":memory:").is_whole
