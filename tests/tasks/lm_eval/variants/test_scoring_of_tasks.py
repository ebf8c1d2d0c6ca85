"""Other metrics and filters than a file names: what fits a task's shape, what is kept, what costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.errors import UserError
from assay.core.specs import TaskOptions
from assay.tasks.lm_eval.file.schema import KnownNames
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.lm_eval.variants.scoring_overrides import rescored, scoring_changes
from assay.tasks.lm_eval.variants.style_variants import restyle
from assay.tasks.styles import find_style

Make = Callable[..., LmEvalTask]

ROWS = [{"q": "Is it?", "label": 0}]
CHOICE = {
    "output_type": "multiple_choice",
    "doc_to_text": "Question: {{q}}\nAnswer:",
    "doc_to_target": "label",
    "doc_to_choice": ["yes", "no"],
    "metric_list": [{"metric": "acc"}, {"metric": "f1"}],
}
FREE = {"doc_to_text": "q", "doc_to_target": "q", "metric_list": [{"metric": "exact_match", "ignore_case": True}]}


@pytest.fixture
def changed(make_task: Make, names: KnownNames) -> Callable[..., list[str]]:
    """The metrics of a task after a run's changes."""

    def change(keys: dict[str, Any], metrics: Any = None, scoring: Any = None, style: str | None = None) -> list[str]:
        definition = make_task(ROWS, TaskOptions(), **keys).definition
        if style:
            definition = restyle(definition, find_style(style))
        found = rescored(definition, scoring_changes(metrics, scoring), names.metrics)
        return [spec.name for spec in found.scoring.metrics]

    return change


def test_no_change(changed: Callable[..., list[str]]) -> None:
    assert changed(CHOICE) == ["acc", "f1"]


def test_other_metrics(changed: Callable[..., list[str]]) -> None:
    assert changed(CHOICE, "ece,acc_bytes") == ["ece", "acc_bytes"]
    assert changed(CHOICE, "+ece,acc") == ["acc", "f1", "ece"]


def test_what_does_not_fit_is_left_out(changed: Callable[..., list[str]]) -> None:
    assert changed(CHOICE, "bleu,ece") == ["ece"]
    assert changed(FREE, "bleu,ece") == ["bleu"]
    assert changed(FREE, "ece") == ["exact_match"]


def test_all_costs_no_further_request(changed: Callable[..., list[str]], names: KnownNames) -> None:
    found = changed(CHOICE, "all")
    assert set(found) == {
        "acc", "acc_norm", "acc_per_char", "acc_bytes", "acc_tokens", "exact_match", "brier_score", "ece",
        "greedy_choice", "choice_mass", "choice_margin", "position_bias", "positions", "ece_adaptive", "log_loss",
        "auroc", "aurc", "selective_acc@0.8", "acc_top2", "mc2", "mrr",
    }  # fmt: skip
    assert changed(CHOICE, "all", style="letters:rotated") == [
        name for name, shapes in names.metrics.items()
        if "rotated_choice" in shapes
        and name not in ("acc_mutual_info", "acc_mutual_phrase", "acc_opencompass", "bypass")
    ]  # fmt: skip
    assert {"rotation_vote", "acc_tokens"} < set(changed(CHOICE, "all", style="letters:rotated"))


def test_the_last_word_on_a_metric_counts(make_task: Make, names: KnownNames) -> None:
    changes = scoring_changes(None, {"metric_list": [{"metric": "exact_match", "ignore_case": False}]})
    found = rescored(make_task(ROWS, **FREE).definition, {**changes, "adds": True}, names.metrics)
    (spec,) = found.scoring.metrics
    assert spec.options == {"ignore_case": False}


def test_an_unknown_metric(changed: Callable[..., list[str]]) -> None:
    with pytest.raises(UserError, match=r'unknown metric "acc_nrom" \(did you mean "acc_norm".*assay ls metrics'):
        changed(CHOICE, "acc_nrom")


def test_filters_are_for_generated_answers(make_task: Make, names: KnownNames) -> None:
    pipeline = {"name": "low", "filter": [{"function": "lowercase"}, {"function": "take_first"}]}
    changes = scoring_changes(None, {"filter_list": [pipeline]})
    free = rescored(make_task(ROWS, **FREE).definition, changes, names.metrics)
    assert [(pipe.name, [step.name for step in pipe.steps]) for pipe in free.scoring.pipelines] == [
        ("low", ["lowercase", "take_first"])
    ]
    assert [spec.name for spec in free.scoring.metrics] == ["exact_match"]
    choice = make_task(ROWS, **CHOICE).definition
    assert rescored(choice, changes, names.metrics).scoring.pipelines == choice.scoring.pipelines


def test_a_phrase_of_ones_own(make_task: Make, names: KnownNames) -> None:
    listed = [{"metric": "acc_mutual_phrase", "phrase": "So:"}, {"metric": "acc_mutual_info"}]
    changes = scoring_changes(None, {"metric_list": listed})
    definition = rescored(make_task(ROWS, **CHOICE).definition, changes, names.metrics)
    assert definition.scoring.nulls == ("So:", "")
