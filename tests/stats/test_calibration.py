"""Calibration against scikit-learn and by hand."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.stats.bootstrap import Resampling
from assay.stats.calibration import (
    ReliabilityBin,
    area_under_risk_coverage,
    brier_score,
    confidence_auroc,
    expected_calibration_error,
    log_loss,
    reliability_table,
    resampled,
    risk_coverage,
    selective_accuracy,
)
from assay.stats.means import wilson_interval

PAIRS = st.lists(
    st.tuples(st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 1)), min_size=2, max_size=40
)


@given(PAIRS)
def test_scores_are_those_of_scikit_learn(pairs: list[tuple[float, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    sure, hits = [c for c, _ in pairs], [h for _, h in pairs]
    assert brier_score(sure, hits).value == pytest.approx(metrics.brier_score_loss(hits, sure, pos_label=1))
    assert log_loss(sure, hits).value == pytest.approx(metrics.log_loss(hits, sure, labels=[0, 1]), abs=1e-12)
    if len(set(hits)) == 2:
        assert confidence_auroc(sure, hits) == pytest.approx(metrics.roc_auc_score(hits, sure))
    else:
        assert confidence_auroc(sure, hits) is None


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
    expected = np.mean(np.abs(accuracy - confidence))
    assert expected_calibration_error(sure.tolist(), hits.tolist(), 8) == pytest.approx(expected)


def test_a_reliability_table_by_hand() -> None:
    table = reliability_table([0.9, 0.2, 0.8, 0.4], [1, 0, 0, 1], 2)
    assert table == (
        ReliabilityBin(0.2, 0.4, pytest.approx(0.3), 0.5, *wilson_interval(1, 2), 2),
        ReliabilityBin(0.8, 0.9, pytest.approx(0.85), 0.5, *wilson_interval(1, 2), 2),
    )
    assert expected_calibration_error([0.9, 0.2, 0.8, 0.4], [1, 0, 0, 1], 2) == pytest.approx((0.2 + 0.35) / 2)


def test_equal_confidences_share_a_bin() -> None:
    table = reliability_table([0.5] * 7 + [0.9], [1, 0, 1, 0, 1, 0, 1, 1], 4)
    assert [(item.least, item.n) for item in table] == [(0.5, 7), (0.9, 1)]
    # The tied six reach from the second to the seventh place: their middle is in the upper half.
    table = reliability_table([0.1] + [0.5] * 6 + [0.9], [1] * 8, 2)
    assert [(item.least, item.n) for item in table] == [(0.1, 1), (0.5, 7)]


def test_a_calibrated_model_has_a_small_error_and_an_overconfident_one_its_gap() -> None:
    generator = np.random.default_rng(1)
    sure = generator.random(20_000)
    hits = (generator.random(20_000) < sure).astype(float).tolist()
    assert (expected_calibration_error(sure.tolist(), hits) or 0) < 0.015
    assert expected_calibration_error([1.0] * 10, [1] * 7 + [0] * 3) == pytest.approx(0.3)


def test_selective_accuracy_by_hand() -> None:
    """Surest first: right, right, wrong, right: 1, 1, 2/3, 3/4."""
    sure, hits = [0.9, 0.8, 0.6, 0.7], [1, 1, 1, 0]
    points = risk_coverage(sure, hits)
    assert [point.accuracy for point in points] == pytest.approx([1, 1, 2 / 3, 3 / 4])
    assert [point.threshold for point in points] == [0.9, 0.8, 0.7, 0.6]
    assert selective_accuracy(sure, hits, 0.5) == 1.0
    assert selective_accuracy(sure, hits, 0.6) == pytest.approx(2 / 3)
    assert area_under_risk_coverage(sure, hits) == pytest.approx((0 + 0 + 1 / 3 + 1 / 4) / 4)


def test_tied_confidences_count_as_the_mean_over_their_orders() -> None:
    hits = [1, 0, 0]
    means = np.mean([np.cumsum(order) / [1, 2, 3] for order in permutations(hits)], axis=0)
    assert [point.accuracy for point in risk_coverage([0.5] * 3, hits)] == pytest.approx(means.tolist())


def test_no_document_has_no_calibration() -> None:
    assert (brier_score([], []).value, log_loss([], []).value) == (None, None)
    assert (expected_calibration_error([], []), confidence_auroc([], []), selective_accuracy([], [], 0.5)) == (
        None,
    ) * 3
    assert (reliability_table([], []), area_under_risk_coverage([], [])) == ((), None)


def test_a_measure_is_resampled() -> None:
    """The Brier score's bootstrap error is near that of a mean; without misses there is no AUROC, nor an interval."""
    generator = np.random.default_rng(2)
    sure = generator.random(150)
    hits = (generator.random(150) < sure).astype(float).tolist()
    found = resampled(lambda c, h: brier_score(c, h).value, sure.tolist(), hits, Resampling(replicates=400))
    assert found.stderr == pytest.approx(brier_score(sure.tolist(), hits).stderr, rel=0.15)
    auroc = resampled(confidence_auroc, [0.1, 0.9, 0.8], [0, 1, 1], Resampling(replicates=200))
    assert (auroc.value, auroc.low, auroc.stderr) == (1.0, None, None)


@pytest.mark.parametrize(("sure", "hits"), [([1.2], [1]), ([math.nan], [1]), ([0.5], [0.5]), ([0.5, 0.5], [1])])
def test_what_is_no_confidence_or_hit_is_refused(sure: list[float], hits: list[float]) -> None:
    with pytest.raises(DataError):
        brier_score(sure, hits)


def test_coverages_and_bins_must_be_some() -> None:
    with pytest.raises(DataError, match="coverage of 0"):
        selective_accuracy([0.5], [1], 0)
    with pytest.raises(DataError, match="0 bins"):
        reliability_table([0.5], [1], 0)
