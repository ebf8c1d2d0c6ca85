"""Aggregations of a task's own: their error is that of resampled documents, where there is one to be had."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from assay.scoring.metrics.task_functions import custom_aggregation
from assay.stats.clustered import clustered_mean

VALUES = np.random.default_rng(5).random(200).tolist()


def test_a_mean_of_its_own_has_the_error_of_a_mean() -> None:
    found = custom_aggregation(fmean).estimate(VALUES)
    error = np.std(VALUES, ddof=1) / np.sqrt(200)
    assert (found.value, found.n, found.method) == (pytest.approx(fmean(VALUES)), 200, "bootstrap")
    assert found.stderr == pytest.approx(error, rel=0.1)
    assert (found.low, found.high) == pytest.approx((found.value - 1.97 * error, found.value + 1.97 * error), abs=0.01)


def test_the_error_is_the_same_each_time() -> None:
    assert custom_aggregation(fmean).estimate(VALUES) == custom_aggregation(fmean).estimate(VALUES)


def test_values_need_not_be_numbers() -> None:
    def right(values: list[tuple[str, str]]) -> float:
        return fmean(float(gold == picked) for gold, picked in values)

    found = custom_aggregation(right).estimate([("a", "a"), ("a", "b"), ("b", "b"), ("b", "a")] * 50)
    assert found.value == 0.5 and found.stderr == pytest.approx(np.sqrt(0.25 / 200), rel=0.1)


def test_whole_clusters_are_resampled() -> None:
    values, clusters = [float(place // 5 % 2) for place in range(200)], [str(place // 5) for place in range(200)]
    clustered = custom_aggregation(fmean).clustered
    assert clustered is not None
    found = clustered(values, clusters)
    assert (found.method, found.clusters, found.n) == ("cluster-bootstrap", 40, 200)
    assert found.stderr == pytest.approx(clustered_mean(values, clusters).estimate.stderr, rel=0.1)


def emptied(values: list[list[int]]) -> int:
    return sum(value.pop() if value else 0 for value in values)


def slow(values: list[Any]) -> float:
    started = time.process_time()
    while time.process_time() < started + 0.06:
        pass
    return values[0] + 0.0


def picky(values: list[float]) -> float:
    if len(set(values)) < len(values):
        raise ValueError("equal values")
    return max(values)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        pytest.param(emptied, [[1] for _ in range(9)], 9.0, id="changes its values"),
        pytest.param(lambda values: random.Random().random(), VALUES, None, id="is random"),
        pytest.param(slow, VALUES, VALUES[0], id="takes long"),
        pytest.param(picky, VALUES, max(VALUES), id="fails for resampled documents"),
        pytest.param(lambda values: 1.0, VALUES, 1.0, id="is the same for all"),
        pytest.param(fmean, VALUES[:2], fmean(VALUES[:2]), id="has two documents"),
    ],
)
def test_there_is_none_where_the_function(
    function: Callable[[list[Any]], Any], values: list[Any], expected: float | None
) -> None:
    found = custom_aggregation(function).estimate(values)
    assert (found.stderr, found.low, found.high, found.n) == (None, None, None, len(values))
    assert expected is None or found.value == expected


def test_what_a_function_says_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    def loud(values: list[float]) -> float:
        print("aggregating")
        if len(set(values)) < len(values):
            warnings.warn("equal values", stacklevel=1)
        return fmean(values)

    assert custom_aggregation(loud).estimate(VALUES).stderr is not None
    assert capsys.readouterr().out == "aggregating\n"


def test_no_documents_have_no_number() -> None:
    found = custom_aggregation(fmean).estimate([])
    assert (found.value, found.n, found.method) == (None, 0, "custom")
