"""Curves of checkpoints: where their points lie, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from assay.core.scores import Estimate
from assay.run.many import CheckpointStep
from assay.studies.matrix.checkpoint_curves import curves
from assay.studies.matrix.matrix_analysis import make_matrix
from assay.studies.matrix.matrix_page import page
from assay.studies.matrix.matrix_values import Matrix, MatrixCell

SVG = "{http://www.w3.org/2000/svg}"


def made(scores: Mapping[str, float], steps: Mapping[str, float]) -> Matrix:
    cells = [
        MatrixCell(model, "t<&>", "acc", "none", Estimate(v, 0.1, v - 0.1, v + 0.1, 9, "wilson"), True, 0.5)
        for model, v in scores.items()
    ]
    matrix = make_matrix(list(scores), ["t<&>"], cells, (), (), (), seed=1)
    return replace(matrix, steps={model: CheckpointStep("run", number) for model, number in steps.items()})


def dots(figure: str) -> list[tuple[float, float]]:
    root = ElementTree.fromstring(figure)
    return [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in root.findall(f"{SVG}circle")]


def test_points_lie_where_their_steps_and_scores_are() -> None:
    """Between x = 70 and 620 for steps 0 to 20. Ends of intervals are 0.4 and 1.0, with 0.03 of room at either side:
    0.5 lies 0.13/0.66 above the bottom at 270, 0.9 lies 0.53/0.66 above it, over a height of 230."""
    figure = curves(made({"b": 0.9, "a": 0.5, "c": 0.5}, {"b": 20.0, "a": 0.0, "c": 10.0}))["t<&>"]
    low, high = 270 - 230 * 0.13 / 0.66, 270 - 230 * 0.53 / 0.66
    assert dots(figure) == [pytest.approx(point, abs=0.1) for point in ((70, low), (345, low), (620, high))]
    assert "picking at random" in figure


def test_steps_far_apart_are_on_a_logarithmic_scale() -> None:
    figure = curves(made({"a": 0.5, "b": 0.5, "c": 0.5}, {"a": 1.0, "b": 10.0, "c": 100.0}))["t<&>"]
    assert [x for x, _ in dots(figure)] == [70, 345, 620]
    assert "training step, logarithmic" in figure


def labels(figure: str) -> list[str]:
    root = ElementTree.fromstring(figure)
    return [text.text or "" for text in root.findall(f"{SVG}text")]


def test_marks_are_at_round_numbers() -> None:
    figure = curves(made({"a": 0.5, "b": 0.9}, {"a": 0.0, "b": 20.0}))["t<&>"]
    assert labels(figure)[1:10] == ["40 %", "60 %", "80 %", "100 %", "0", "5", "10", "15", "20"]
    figure = curves(made({"a": 0.5, "b": 0.9}, {"a": 3.0, "b": 3000.0}))["t<&>"]
    assert labels(figure)[5:8] == ["10", "100", "1,000"]


def test_perplexities_far_apart_are_on_a_logarithmic_scale() -> None:
    """An interval that reaches below zero ends where the picture ends."""
    estimates = {"a": Estimate(1000.0, 600.0, -200.0, 2200.0, 9, "t"), "b": Estimate(10.0, 1.0, 8.0, 12.0, 9, "t")}
    cells = [MatrixCell(model, "t", "perplexity", "none", value, False, None) for model, value in estimates.items()]
    matrix = replace(
        make_matrix(["a", "b"], ["t"], cells, (), (), (), seed=1),
        steps={"a": CheckpointStep("r", 1.0), "b": CheckpointStep("r", 2.0)},
    )
    figure = curves(matrix)["t"]
    assert labels(figure)[:4] == ["t (perplexity), logarithmic", "10", "100", "1000"]
    (_, above), (_, below) = dots(figure)
    assert above < below
    assert (
        max(float(y) for y in re.findall(r",([\d.]+)", re.search(r'polygon points="([^"]*)"', figure).group(1))) <= 270
    )  # type: ignore[union-attr]


def test_one_checkpoint_is_not_a_curve() -> None:
    assert curves(made({"a": 0.5, "b": 0.6}, {"a": 1.0})) == {}


def test_the_page_has_the_curves() -> None:
    text = page(made({"a": 0.5, "b": 0.6}, {"a": 1.0, "b": 2.0}))
    ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    assert len(re.findall("<figure>", text)) == 1
