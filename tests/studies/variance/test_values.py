"""One task in several prompts: the numbers over them, by hand."""

from __future__ import annotations

import json
import math

import pytest

from assay.core.scores import Estimate
from assay.stats.variance import Decomposition, StderrForecast, VarianceComponent
from assay.studies.variance.values import PromptAxis, TaskVariance, VarianceAxis

AXIS = VarianceAxis("order", {"1": 0.25, "2": 0.75}, Estimate(0.5, None, None, None, 4, "bootstrap"))


def axis(**scores: float | None) -> PromptAxis:
    return PromptAxis("t", "acc", "none", scores, dict.fromkeys(scores, 10), dict.fromkeys(scores, 0))


def test_the_numbers_over_prompts() -> None:
    found = axis(a=0.2, b=0.5, c=0.8)
    assert found.mean == pytest.approx(0.5)
    assert found.deviation == pytest.approx(0.3)  # √((0.09 + 0 + 0.09) / 2)
    assert found.spread == pytest.approx(0.6)
    assert (found.lowest, found.highest) == ("a", "c")


def test_prompts_without_a_score_count_in_no_number() -> None:
    found = axis(a=None, b=0.5, c=math.nan)
    assert (found.mean, found.spread, found.deviation) == (0.5, 0.0, None)
    assert found.to_json()["prompts"] == 1 and found.to_json()["scores"]["a"] is None


def test_without_any_score_nothing_is_reported() -> None:
    found = axis(a=None)
    message = found.to_json()
    keys = ("mean", "min", "max", "spread", "standard_deviation", "lowest", "highest")
    assert [message[key] for key in keys] == [None] * 7


def test_an_axis_reports_its_worst_case_and_only_the_agreement_that_is_known() -> None:
    data = AXIS.to_json()
    assert (data["axis"], data["levels"], data["min"], data["lowest"], data["spread"]) == ("order", 2, 0.25, "1", 0.5)
    assert data["agreement"]["value"] == 0.5 and "krippendorff_alpha" not in data


def test_parts_are_next_to_the_naive_error() -> None:
    parts = Decomposition(
        0.4,
        0.1,
        (VarianceComponent(("document", "order"), 0.2, 1.0, 1.0, 3, False),),
        (StderrForecast("order", 2, 0.08, 0.12),),
        {"document": 4, "order": 2},
        (),
        1,
    )
    data = TaskVariance("t", "acc", "none", (AXIS,), parts, 0.05).to_json()
    assert (data["mean"], data["stderr"], data["stderr_of_documents_alone"], data["left_out"]) == (0.4, 0.1, 0.05, 1)
    assert json.loads(json.dumps(data))["components"][0]["effect"] == ["document", "order"]


def test_a_reason_replaces_the_parts() -> None:
    data = TaskVariance("t", "mcc", "none", (AXIS,), reason="no mean").to_json()
    assert data["reason"] == "no mean" and "components" not in data
