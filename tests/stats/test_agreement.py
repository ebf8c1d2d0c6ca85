"""Agreement against scikit-learn, Krippendorff's own example, and by hand."""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.core.scores import Estimate
from assay.stats.agreement import cohen_kappa, krippendorff_alpha, percent_agreement

_ = None
# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", section D: four observers, twelve units.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]
UNITS: list[list[Hashable | None]] = [list(unit) for unit in zip(*OBSERVERS, strict=True)]


@pytest.mark.parametrize(("scale", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_krippendorffs_example(scale: str, expected: float) -> None:
    found = krippendorff_alpha(UNITS, scale)  # type: ignore[arg-type]
    assert found.value == pytest.approx(expected, abs=5e-4)
    assert found.n == 11  # the last unit has one rating
    assert found.low is not None and found.high is not None
    assert found.low < expected < found.high <= 1


def defined_alpha(items: list[list[int]], scale: str) -> float:
    """1 − D_o/D_e with all pairs written out."""
    pooled = [value for own in items for value in own]

    def distance(a: int, b: int) -> float:
        if scale == "nominal":
            return float(a != b)
        if scale == "interval":
            return float((a - b) ** 2)
        between = sum(min(a, b) <= value <= max(a, b) for value in pooled)
        return (between - (pooled.count(a) + pooled.count(b)) / 2) ** 2 if a != b else 0.0

    seen = sum(distance(a, b) / (len(own) - 1) for own in items for a, b in permutations(own, 2)) / len(pooled)
    chance = sum(distance(a, b) for a, b in permutations(pooled, 2)) / (len(pooled) * (len(pooled) - 1))
    return 1 - seen / chance if chance else math.nan


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.integers(1, 4), min_size=2, max_size=4), min_size=2, max_size=8),
    st.sampled_from(["nominal", "ordinal", "interval"]),
)
def test_alpha_is_that_of_its_definition(items: list[list[int]], scale: str) -> None:
    expected, found = defined_alpha(items, scale), krippendorff_alpha(items, scale).value  # type: ignore[arg-type]
    if math.isnan(expected):
        assert found is None
    else:
        assert found == pytest.approx(expected)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30),
    st.sampled_from(["none", "linear", "quadratic"]),
)
@pytest.mark.filterwarnings("ignore")
def test_kappa_is_scikit_learns(pairs: list[tuple[int, int]], weights: str) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    found = cohen_kappa(a, b, weights).value  # type: ignore[arg-type]
    if len({*a, *b}) == 1:
        assert found is None
    else:
        expected = metrics.cohen_kappa_score(a, b, weights=None if weights == "none" else weights)
        assert found == pytest.approx(expected)


def test_percent_agreement_by_hand() -> None:
    """Two of two, one of three pairs, none; the item with one rating does not count."""
    found = percent_agreement([["a", "a"], ["a", "a", "b"], ["a", "b"], ["a", None]])
    assert (found.value, found.n) == (pytest.approx(4 / 9), 3)


def test_intervals_of_agreement_have_the_right_width() -> None:
    """κ of 500 pairs, with the error that the delta method gives (statsmodels)."""
    raters = pytest.importorskip("statsmodels.stats.inter_rater")
    generator = np.random.default_rng(0)
    a = generator.integers(0, 3, 500)
    b = np.where(generator.random(500) < 0.7, a, generator.integers(0, 3, 500))
    table = np.histogram2d(a, b, bins=3)[0]
    expected = raters.cohens_kappa(table)
    found = cohen_kappa(a.tolist(), b.tolist())
    assert found.value == pytest.approx(expected.kappa)
    assert found.stderr == pytest.approx(expected.std_kappa, rel=0.1)
    assert (found.low, found.high) == pytest.approx((expected.kappa_low, expected.kappa_upp), abs=0.012)
    alpha = krippendorff_alpha(np.stack([a, b], axis=1).tolist())
    assert alpha.stderr == pytest.approx(expected.std_kappa, rel=0.1)


def test_agreement_is_the_same_every_time_and_another_for_another_seed() -> None:
    assert krippendorff_alpha(UNITS) == krippendorff_alpha(UNITS)
    assert krippendorff_alpha(UNITS, seed=1) != krippendorff_alpha(UNITS)


def test_no_item_and_one_item() -> None:
    assert krippendorff_alpha([]) == percent_agreement([]) == cohen_kappa([], [])
    assert krippendorff_alpha([]) == Estimate(None, None, None, None, 0, "bootstrap")
    assert percent_agreement([["a", "b"]]) == Estimate(0.0, None, None, None, 1, "bootstrap")


def test_ratings_that_do_not_fit_the_scale_are_refused() -> None:
    with pytest.raises(DataError, match="finite numbers"):
        krippendorff_alpha([["a", "b"]], "interval")
    with pytest.raises(DataError, match="can be sorted"):
        krippendorff_alpha([["a", 1]], "ordinal")
    with pytest.raises(DataError, match="second rater"):
        cohen_kappa([1], [1, 2])


def test_free_texts_of_many_values_are_compared() -> None:
    """600 items with answers of their own, half of them given twice."""
    items = [[f"a{place}", f"a{place}" if place % 2 else f"b{place}"] for place in range(600)]
    found = krippendorff_alpha(items)
    assert found.value == pytest.approx(0.5, abs=0.01)
    assert found.stderr == pytest.approx(math.sqrt(0.25 / 600), rel=0.15)
