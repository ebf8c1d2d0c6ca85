"""Measures of confidence with their bootstrap, against the plain ones and scikit-learn."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.core.errors import DataError
from assay.core.scores import Estimate
from assay.stats.calibration import reliability_table, risk_coverage
from assay.stats.confidence import REPLICATES, confidence_estimate

Floats = NDArray[np.float64]


def made(n: int, seed: int, is_rounded: bool) -> tuple[list[float], list[float]]:
    """Confidences that say too much, and hits; rounded ones have many ties."""
    generator = np.random.default_rng(seed)
    sure = generator.beta(4, 2, n)
    sure = np.round(sure, 1) if is_rounded else sure
    return sure.tolist(), (generator.random(n) < 0.8 * sure).astype(float).tolist()


def plain_ece(sure: list[float], hits: list[float]) -> float:
    """Mean gap of confidence and accuracy over the bins of the table."""
    return sum(item.n * abs(item.confidence - item.accuracy) for item in reliability_table(sure, hits)) / len(sure)


def plain_selective(sure: list[float], hits: list[float], coverage: float) -> float:
    """Accuracy on the surest documents that make up this share, rounded up to whole documents."""
    points = risk_coverage(sure, hits)
    return points[math.ceil(coverage * len(points) - 1e-9) - 1].accuracy


def plain_aurc(sure: list[float], hits: list[float]) -> float:
    return float(np.mean([1 - point.accuracy for point in risk_coverage(sure, hits)]))


def plain_auroc(sure: list[float], hits: list[float]) -> float | None:
    """Over all pairs of a hit and a miss: surer 1, as sure one half."""
    right, wrong = (np.array([c for c, h in zip(sure, hits, strict=True) if h == kind]) for kind in (1, 0))
    if not len(right) or not len(wrong):
        return None
    gaps = np.subtract.outer(right, wrong)
    return float(np.mean((gaps > 0) + (gaps == 0) / 2))


@pytest.mark.parametrize("is_rounded", [False, True])
@pytest.mark.parametrize("n", [2, 7, 100, 1001])
def test_values_are_those_of_the_plain_measures(n: int, is_rounded: bool) -> None:
    sure, hits = made(n, n, is_rounded)
    plain = {
        "ece_adaptive": plain_ece(sure, hits),
        "auroc": plain_auroc(sure, hits),
        "aurc": plain_aurc(sure, hits),
    }
    for name, value in plain.items():
        assert confidence_estimate(sure, hits, name).value == (
            None if value is None else pytest.approx(value, abs=1e-12)
        )
    for coverage in (0.1, 0.5, 0.8, 1.0):
        wanted = plain_selective(sure, hits, coverage)
        assert confidence_estimate(sure, hits, "selective_acc", coverage).value == pytest.approx(wanted, abs=1e-12)


def test_the_area_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    sure, hits = made(500, 3, is_rounded=True)
    assert confidence_estimate(sure, hits, "auroc").value == pytest.approx(metrics.roc_auc_score(hits, sure))


def test_four_documents_by_hand() -> None:
    sure, hits = [0.9, 0.8, 0.6, 0.3], [1, 0, 1, 0]
    # Right ones are surer than wrong ones in (0.9 > 0.8), (0.9 > 0.3), (0.6 > 0.3): three of four pairs.
    assert confidence_estimate(sure, hits, "auroc").value == 0.75
    assert confidence_estimate(sure, hits, "selective_acc", 0.5).value == 0.5
    assert confidence_estimate(sure, hits, "selective_acc", 0.75).value == pytest.approx(2 / 3)
    # Misses among the surest 1, 2, 3, 4: 0, 1/2, 1/3, 1/2.
    assert confidence_estimate(sure, hits, "aurc").value == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    # Four documents in ten bins are each by themselves: |0.9 − 1|, 0.8, |0.6 − 1|, 0.3.
    assert confidence_estimate(sure, hits, "ece_adaptive").value == pytest.approx((0.1 + 0.8 + 0.4 + 0.3) / 4)


@pytest.mark.parametrize("measure", ["auroc", "aurc", "selective_acc"])
def test_errors_are_those_of_resampling_one_set_after_the_other(measure: str) -> None:
    sure, hits = made(120, 5, is_rounded=False)
    plain = {
        "auroc": plain_auroc,
        "aurc": plain_aurc,
        "selective_acc": lambda s, h: plain_selective(s, h, 0.5),
    }[measure]
    generator = np.random.default_rng(9)
    values = []
    for _ in range(600):
        places = generator.integers(0, 120, 120)
        values.append(plain([sure[p] for p in places], [hits[p] for p in places]))
    found = confidence_estimate(sure, hits, measure, 0.5 if measure == "selective_acc" else None)
    assert found.stderr == pytest.approx(float(np.std(np.array(values, dtype=float), ddof=1)), rel=0.12)
    assert found.low == pytest.approx(float(np.quantile(np.array(values, dtype=float), 0.025)), abs=0.02)


def test_the_interval_of_the_area_covers() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    # Hits are N(1, 1), misses N(0, 1) before squashing: the area is Φ(1/√2).
    for seed in range(200):
        hits = (generator.random(150) < 0.5).astype(float)
        sure = 1 / (1 + np.exp(-(hits + generator.normal(size=150))))
        found = confidence_estimate(sure.tolist(), hits.tolist(), "auroc", seed=seed)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0.7602499 <= found.high
    assert 184 <= covered <= 198


def test_little_data_gives_honest_nulls() -> None:
    assert confidence_estimate([], [], "auroc").value is None
    assert confidence_estimate([0.7], [1], "aurc") == Estimate(0.0, None, None, None, 1, "bootstrap", 0.95)
    assert confidence_estimate([0.7, 0.8], [1, 1], "auroc").value is None
    # One miss of three is in no resample in (2/3)^3 of all: an interval would be made up.
    few = confidence_estimate([0.7, 0.8, 0.9], [0, 1, 1], "auroc")
    assert (few.value, few.stderr, few.low) == (1.0, None, None)


def test_what_cannot_be_is_reported() -> None:
    with pytest.raises(DataError, match="coverage"):
        confidence_estimate([0.5], [1], "selective_acc")
    with pytest.raises(DataError, match="measure"):
        confidence_estimate([0.5], [1], "sharpness")
    with pytest.raises(DataError, match="0 and 1"):
        confidence_estimate([0.5], [0.5], "aurc")


def test_many_documents_take_seconds() -> None:
    sure, hits = made(20_000, 2, is_rounded=False)
    before = time.perf_counter()
    assert confidence_estimate(sure, hits, "aurc").stderr is not None
    assert REPLICATES == 1000 and time.perf_counter() - before < 20


@pytest.mark.parametrize("measure", ["ece_adaptive", "auroc", "aurc", "selective_acc"])
def test_clusters_of_copies_show_no_more_than_one_of_each(measure: str) -> None:
    """Every document three times: resampled by cluster it has the error of one of each, singly a smaller one."""
    generator = np.random.default_rng(4)
    sure = generator.random(60)
    hits = (generator.random(60) < sure).astype(float)
    coverage = 0.5 if measure == "selective_acc" else None
    kind = "gap" if measure == "ece_adaptive" else "cluster"
    once = confidence_estimate(sure.tolist(), hits.tolist(), measure, coverage)
    names = [place for place in range(60) for _ in range(3)]
    copies = np.repeat(sure, 3).tolist(), np.repeat(hits, 3).tolist()
    thrice = confidence_estimate(*copies, measure, coverage, names)
    assert (thrice.method, thrice.n, thrice.clusters) == (f"{kind}-bootstrap", 180, 60)
    assert thrice.value == pytest.approx(once.value, abs=0.01)
    assert thrice.stderr == pytest.approx(once.stderr, rel=0.02)
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), abs=0.01)
    singly = confidence_estimate(*copies, measure, coverage)
    assert singly.stderr is not None and once.stderr is not None and singly.stderr < 0.75 * once.stderr


def test_clusters_of_unequal_size_are_resampled_whole() -> None:
    """Clusters of 2, 2 and 1 documents, of which the last is a miss: as sets of accuracy, from 0 to 1."""
    found = confidence_estimate([0.9, 0.8, 0.7, 0.6, 0.5], [1, 1, 1, 1, 0], "selective_acc", 1.0, clusters="aabbc")
    assert (found.value, found.clusters) == (0.8, 3)
    assert (found.low, found.high) == (0.0, 1.0)
    certain = confidence_estimate([0.9, 0.1, 0.8, 0.2, 0.7], [1, 0, 1, 0, 1], "auroc", clusters="aabbc")
    assert (certain.value, certain.low) == (1.0, None)  # every hit is surer than every miss, whichever are resampled


def test_two_documents_or_clusters_have_no_interval() -> None:
    assert confidence_estimate([0.9, 0.2], [1, 0], "auroc").low is None
    assert confidence_estimate([0.9, 0.2, 0.8, 0.3], [1, 0, 1, 0], "auroc", clusters="aabb").low is None
