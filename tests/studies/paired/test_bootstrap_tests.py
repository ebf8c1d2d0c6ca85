"""Scores of bootstrap samples: each as if its documents occurred that often, for every metric that a run can report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from assay.core.scores import DocumentValues
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.studies.paired.bootstrap_tests import statistic_by_counts
from assay.studies.paired.differences import compare_pairs, is_comparable
from assay.studies.paired.matching import SystemEntry, match_documents
from assay.studies.paired.paired_values import CompareOptions, PairedScore

GENERATOR = np.random.default_rng(4)
SIZE = 24
HITS = (GENERATOR.random(SIZE) < 0.6).astype(float).tolist()
SURE = np.round(GENERATOR.random(SIZE), 1).tolist()  # with ties
NUMBERS = GENERATOR.normal(size=SIZE).tolist()
LABELS = list(zip(GENERATOR.integers(0, 3, SIZE).tolist(), GENERATOR.integers(0, 3, SIZE).tolist(), strict=True))
BINARY = list(zip(HITS, (GENERATOR.random(SIZE) < 0.5).astype(float).tolist(), strict=True))
CONFIDENT = list(zip(SURE, HITS, strict=True))
SUMS = [(-abs(number), float(weight)) for number, weight in zip(NUMBERS, range(1, SIZE + 1), strict=True)]
TEXTS = [(["the cat sat on the mat"], "the cat sat on mat" if hit else "a dog ran") for hit in HITS]
VALUES: dict[str, Sequence[Any]] = {
    "perplexity": NUMBERS,
    "median": NUMBERS,
    "median_of_known": NUMBERS,
    "f1": BINARY,
    "matthews_corrcoef": LABELS,
    "cohen_kappa": LABELS,
    "ece": CONFIDENT,
    "ece_adaptive": CONFIDENT,
    "position_bias": LABELS,
    "auroc": CONFIDENT,
    "aurc": CONFIDENT,
    "selective_acc": [(sure, hit, 0.5) for sure, hit in CONFIDENT],
    "weighted_perplexity": SUMS,
    "weighted_nats": SUMS,
    "bits_per_byte": SUMS,
    "bleu": TEXTS,
    "chrf": TEXTS,
}


def compare(
    aggregation: str, one: Sequence[Any], other: Sequence[Any], clusters: Sequence[str] | None = None, **options: Any
) -> PairedScore:
    entries = [
        SystemEntry(label, DocumentValues("t", "m", "none", aggregation, range(len(own)), tuple(own), clusters))
        for label, own in (("a", one), ("b", other))
    ]
    return compare_pairs([match_documents(*entries)], True, CompareOptions(**options))[0].score


@pytest.mark.parametrize("aggregation", VALUES)
def test_a_resampled_set_scores_as_its_documents_do(aggregation: str) -> None:
    if aggregation in ("bleu", "chrf"):
        pytest.importorskip("sacrebleu")
    values, rule = VALUES[aggregation], AGGREGATIONS[aggregation]
    # Bins of equal mass stay those of all documents, so that a redrawn set of them has others.
    times = (
        np.random.default_rng(0).integers(0, 3, size=(4, SIZE)) if aggregation != "ece_adaptive" else np.ones((1, SIZE))
    )
    found = statistic_by_counts(aggregation, values)(times.astype(np.float64))
    for row, score in zip(times.astype(int).tolist(), found, strict=True):
        drawn = [value for value, count in zip(values, row, strict=True) for _ in range(count)]
        assert score == pytest.approx(rule.estimate(rule.read(drawn)).value)


def test_every_aggregation_is_compared_but_that_of_unscored_answers() -> None:
    assert [name for name in AGGREGATIONS if not is_comparable(name)] == ["bypass"]


@pytest.mark.parametrize("aggregation", VALUES)
def test_none_one_and_equal_documents(aggregation: str) -> None:
    values = VALUES[aggregation]
    nothing = compare(aggregation, [], [])
    assert (nothing.n, nothing.difference.value, nothing.p) == (0, None, None)
    one = compare(aggregation, values[:1], values[:1])
    # The signs of one difference can be flipped, which tells nothing; one document cannot be redrawn.
    assert (one.n, one.difference.low, one.p) == (1, None, 1.0 if one.test == "sign-flip" else None)
    same = compare(aggregation, values, values)
    assert (same.difference.value, same.p, same.ties) == (0.0, 1.0, SIZE)


def test_auroc_is_compared_as_scikit_learn_computes_it() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    other = list(zip(SURE[::-1], HITS, strict=True))
    found = compare("auroc", CONFIDENT, other)
    expected = [metrics.roc_auc_score(HITS, sure) for sure in (SURE, SURE[::-1])]
    assert found.difference.value == pytest.approx(expected[1] - expected[0])
    # The same sets for both: resampled by hand, with the same generator.
    places = np.random.default_rng(0).integers(0, SIZE, size=(2000, SIZE))
    hits, sure = np.array(HITS), np.array(SURE)
    rows = [row for row in places if 0 < hits[row].sum() < SIZE]
    areas = [[area_under_curve(hits[row], other[row]) for other in (sure, sure[::-1])] for row in rows]
    for row, (one, two) in list(zip(rows, areas, strict=True))[:20]:
        assert one == pytest.approx(metrics.roc_auc_score(hits[row], sure[row]))
        assert two == pytest.approx(metrics.roc_auc_score(hits[row], sure[::-1][row]))
    assert found.difference.stderr == pytest.approx(np.std([two - one for one, two in areas]), rel=0.05)


def area_under_curve(hits: Any, sure: Any) -> float:
    """The share of pairs of a right and a wrong answer in which the right one is surer; scikit-learn takes 4 ms."""
    right, wrong = sure[hits == 1], sure[hits == 0]
    return float(np.mean((right[:, None] > wrong) + 0.5 * (right[:, None] == wrong)))


def test_whole_clusters_are_resampled() -> None:
    clusters = [f"c{place // 4}" for place in range(SIZE)]
    found = compare("matthews_corrcoef", LABELS, LABELS[::-1], clusters)
    assert (found.test, found.clusters, found.difference.method) == ("cluster-bootstrap", 6, "cluster-bootstrap")
    assert compare("f1", BINARY, BINARY[::-1], ["one"] * SIZE).p is None


@pytest.mark.parametrize("aggregation", ["ece", "ece_adaptive"])
def test_noise_of_one_system_is_not_a_difference_in_calibration(aggregation: str) -> None:
    """Both are calibrated; that with confidences near one half has the larger error by chance alone."""
    generator = np.random.default_rng(8)
    for n in (100, 300):
        systems = []
        for low, high in ((0.4, 0.6), (0.95, 1.0)):
            sure = generator.uniform(low, high, size=n)
            hits = (generator.random(n) < sure).astype(float)
            systems.append(list(zip(sure.tolist(), hits.tolist(), strict=True)))
        found = compare(aggregation, *systems)
        assert found.difference.low is not None and found.difference.high is not None and found.p is not None
        assert found.difference.low <= 0 <= found.difference.high and found.p > 0.05


def test_a_large_difference_in_calibration_is_found() -> None:
    generator = np.random.default_rng(9)
    sure = generator.uniform(0.5, 1.0, size=400)
    right = (generator.random(400) < sure).astype(float)
    one = list(zip(sure.tolist(), right.tolist(), strict=True))
    other = list(zip(np.minimum(1.0, sure + 0.4).tolist(), (1 - right).tolist(), strict=True))
    found = compare("ece", one, other)
    assert found.difference.method == "gap-bootstrap" and found.p is not None and found.p < 0.001
    assert found.difference.value is not None and found.difference.low is not None
    assert 0 < found.difference.low < found.difference.value


def test_few_texts_cannot_show_a_difference_with_fewer_resampled_sets() -> None:
    pytest.importorskip("sacrebleu")
    assert compare("bleu", TEXTS[:4], TEXTS[4:8]).detectable is None


def test_undefined_and_infinite_scores_have_no_test() -> None:
    always = [(sure, 1.0) for sure in SURE]  # no wrong answer to be surer than
    found = compare("auroc", always, CONFIDENT)
    assert (found.difference.value, found.p) == (None, None)
    endless = compare("perplexity", [-1e6, -1.0, -1.0], [-1.0, -1.0, -2.0])
    assert (endless.difference.value, endless.difference.low, endless.p) == (-math.inf, None, None)
    both = compare("perplexity", [-1e6, -1.0, -1.0], [-1e6, -1.0, -2.0])
    assert (both.difference.value, both.p) == (None, None)
    assert compare("weighted_perplexity", [(0.0, 0.0)] * 3, [(-1.0, 1.0)] * 3).difference.value is None


def test_a_median_leaves_out_documents_without_a_number() -> None:
    found = compare("median_of_known", [1.0, math.nan, 3.0, 4.0, 5.0], [1.0, 2.5, 3.0, 4.0, 7.0])
    assert (found.n, found.left_out, found.difference.value) == (4, (1, 1), 0.0)


def test_many_pairs_are_resampled_as_each_alone() -> None:
    generator = np.random.default_rng(8)
    entries = []
    for label in "abcd":
        own = tuple(zip(HITS, generator.integers(0, 2, SIZE).tolist(), strict=True))
        entries.append(SystemEntry(label, DocumentValues("t", "m", "none", "f1", range(SIZE), own)))
    matches = [match_documents(one, other) for place, one in enumerate(entries) for other in entries[place + 1 :]]
    together = [item.score for item in compare_pairs(matches, True, CompareOptions())]
    assert together == [compare_pairs([match], True, CompareOptions())[0].score for match in matches]
