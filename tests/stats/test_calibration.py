"""Reliability tables and risk over coverage, against scikit-learn and by hand."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from assay.core.errors import DataError
from assay.stats.calibration import ReliabilityBin, reliability_table, risk_coverage
from assay.stats.means import wilson_interval


def test_bins_are_those_of_scikit_learn() -> None:
    calibration = pytest.importorskip("sklearn.calibration")
    generator = np.random.default_rng(0)
    sure = generator.random(400)
    hits = (generator.random(400) < sure**2).astype(np.float64)
    accuracy, confidence = calibration.calibration_curve(hits, sure, n_bins=8, strategy="quantile")
    table = reliability_table(sure.tolist(), hits.tolist(), 8)
    assert [item.n for item in table] == [50] * 8
    assert [item.accuracy for item in table] == pytest.approx(accuracy.tolist())
    assert [item.confidence for item in table] == pytest.approx(confidence.tolist())


def test_a_reliability_table_by_hand() -> None:
    table = reliability_table([0.9, 0.2, 0.8, 0.4], [1, 0, 0, 1], 2)
    assert table == (
        ReliabilityBin(0.2, 0.4, pytest.approx(0.3), 0.5, *wilson_interval(1, 2), 2),
        ReliabilityBin(0.8, 0.9, pytest.approx(0.85), 0.5, *wilson_interval(1, 2), 2),
    )


def test_equal_confidences_share_a_bin() -> None:
    table = reliability_table([0.5] * 7 + [0.9], [1, 0, 1, 0, 1, 0, 1, 1], 4)
    assert [(item.least, item.n) for item in table] == [(0.5, 7), (0.9, 1)]
    # The tied six reach from the second to the seventh place: their middle is in the upper half.
    table = reliability_table([0.1] + [0.5] * 6 + [0.9], [1] * 8, 2)
    assert [(item.least, item.n) for item in table] == [(0.1, 1), (0.5, 7)]


def test_accuracy_over_coverage_by_hand() -> None:
    """Surest first: right, right, wrong, right: 1, 1, 2/3, 3/4."""
    sure, hits = [0.9, 0.8, 0.6, 0.7], [1, 1, 1, 0]
    points = risk_coverage(sure, hits)
    assert [point.accuracy for point in points] == pytest.approx([1, 1, 2 / 3, 3 / 4])
    assert [point.threshold for point in points] == [0.9, 0.8, 0.7, 0.6]


def test_tied_confidences_count_as_the_mean_over_their_orders() -> None:
    hits = [1, 0, 0]
    means = np.mean([np.cumsum(order) / [1, 2, 3] for order in permutations(hits)], axis=0)
    assert [point.accuracy for point in risk_coverage([0.5] * 3, hits)] == pytest.approx(means.tolist())


def test_no_document_has_no_calibration() -> None:
    assert (reliability_table([], []), risk_coverage([], [])) == ((), ())


@pytest.mark.parametrize(("sure", "hits"), [([1.2], [1]), ([math.nan], [1]), ([0.5], [0.5]), ([0.5, 0.5], [1])])
def test_what_is_not_a_confidence_or_hit_is_refused(sure: list[float], hits: list[float]) -> None:
    with pytest.raises(DataError):
        reliability_table(sure, hits)


def test_bins_must_be_some() -> None:
    with pytest.raises(DataError, match="0 bins"):
        reliability_table([0.5], [1], 0)
