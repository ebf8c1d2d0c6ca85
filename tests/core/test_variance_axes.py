"""A task asked in several ways, as JSON data."""

from __future__ import annotations

import json

from assay.core.scores import Estimate
from assay.core.variance_axes import (
    Decomposition,
    StderrForecast,
    TaskVariance,
    VarianceAxis,
    VarianceComponent,
    task_family,
)

AXIS = VarianceAxis("order", {"1": 0.25, "2": 0.75}, Estimate(0.5, None, None, None, 4, "bootstrap"))


def test_an_axis_tells_its_worst_case_and_only_the_agreement_that_is_known() -> None:
    data = AXIS.to_json()
    assert (data["axis"], data["levels"], data["min"], data["lowest"], data["spread"]) == ("order", 2, 0.25, "1", 0.5)
    assert data["agreement"]["value"] == 0.5 and "krippendorff_alpha" not in data


def test_parts_stand_beside_the_naive_error() -> None:
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


def test_a_reason_stands_in_the_place_of_parts() -> None:
    data = TaskVariance("t", "mcc", "none", (AXIS,), reason="no mean").to_json()
    assert data["reason"] == "no mean" and "components" not in data


def test_ways_of_asking_are_of_one_family() -> None:
    names = ("t", "t@letters", "t@asked#seed=3", "t#seed=-1#order=2")
    assert {task_family(name) for name in names} == {"t"}
    assert task_family("c#") == "c#"
