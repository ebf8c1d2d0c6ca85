"""Which metrics a matrix shows of a task."""

from __future__ import annotations

import math

from assay.core.scores import Estimate
from assay.studies.matrix.columns import choose_metrics, shown_cells
from assay.studies.matrix.matrix_values import MatrixCell


def ways(*names: str) -> list[tuple[str, str]]:
    return [(name, "none") for name in names]


def cell(model: str, metric: str, value: float | None = 0.5) -> MatrixCell:
    return MatrixCell(model, "t", metric, "none", Estimate(value, None, None, None, 9, "mean"), True)


def names(*models: list[tuple[str, str]], requested: tuple[str, ...] = ()) -> list[str]:
    return [metric for metric, _ in choose_metrics(models, requested)]


def test_the_first_metric_that_all_models_have_is_shown() -> None:
    assert names(ways("acc", "f1"), ways("acc")) == ["acc"]
    assert names(ways("acc", "f1"), ways("f1")) == ["f1"]


def test_models_without_a_common_metric_have_columns_of_their_own() -> None:
    assert names(ways("exact_match"), ways("mcc"), ways("mcc")) == ["mcc", "exact_match"]
    assert names(ways("acc", "acc_norm"), ways("acc_norm"), ways("acc")) == ["acc", "acc_norm"]


def test_a_requested_metric_precedes_one_that_more_models_have() -> None:
    models = ways("acc", "acc_norm"), ways("acc", "acc_norm"), ways("acc")
    assert names(*models, requested=("acc_norm",)) == ["acc_norm"]
    assert names(*models, requested=("acc_norm", "acc")) == ["acc_norm", "acc"]
    assert names(*models, requested=("mcc",)) == ["acc"]


def test_pipelines_of_one_metric_are_distinguished() -> None:
    read, plain = [("exact_match", "strict"), ("exact_match", "flexible")], ways("exact_match")
    assert choose_metrics([read, plain], ["exact_match"]) == [("exact_match", "strict"), ("exact_match", "none")]


def test_a_model_without_the_requested_metric_is_a_gap_that_names_what_it_has() -> None:
    found = shown_cells(["t"], [cell("a", "acc"), cell("a", "acc_norm"), cell("b", "acc")], ["acc_norm"])
    assert [(item.model, item.metric) for item in found.cells] == [("a", "acc_norm")]
    (gap,) = found.gaps
    assert (gap.model, gap.reason) == ("b", "reports acc instead of acc_norm. Add --metric acc for a column of its own")


def test_a_metric_without_a_value_is_still_the_models_metric() -> None:
    """One model's infinite perplexity neither hides it nor moves the others to another metric."""
    scores = [cell("a", "perplexity", math.inf), cell("a", "bits"), cell("b", "perplexity"), cell("b", "bits")]
    found = shown_cells(["t"], scores, [])
    assert [(item.model, item.metric) for item in found.cells] == [("b", "perplexity")]
    assert [(gap.model, gap.reason) for gap in found.gaps] == [("a", "perplexity is inf on 9 documents")]


def test_it_is_said_when_the_tasks_first_metric_is_passed_over() -> None:
    found = shown_cells(["t"], [cell("a", "acc"), cell("a", "f1"), cell("b", "f1")], [])
    assert found.notices == ("t: f1 is shown instead of acc, which b cannot report. --metric acc shows it",)
