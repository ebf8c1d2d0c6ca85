"""Agreement against scikit-learn, Krippendorff's own example, and by hand."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Hashable
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.core.scores import Estimate
from assay.stats.agreement import (
    Scale,
    Weights,
    clustered_kappa,
    cohen_kappa,
    kappa_of_table,
    krippendorff_alpha,
    percent_agreement,
    rater_agreement,
)
from assay.stats.means import t_quantile

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
    """600 items with distinct answers, half of them given twice."""
    items = [[f"a{place}", f"a{place}" if place % 2 else f"b{place}"] for place in range(600)]
    found = krippendorff_alpha(items)
    assert found.value == pytest.approx(0.5, abs=0.01)
    assert found.stderr == pytest.approx(math.sqrt(0.25 / 600), rel=0.15)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), min_size=3, max_size=3))
@pytest.mark.filterwarnings("ignore:(invalid|divide)")  # of statsmodels, where a variance of 0 is rounded below it
def test_kappa_of_counts_is_that_of_statsmodels(table: list[list[int]]) -> None:
    raters = pytest.importorskip("statsmodels.stats.inter_rater")
    used = [sum(row) + sum(column) for row, column in zip(table, zip(*table, strict=True), strict=True)]
    found = kappa_of_table(table)
    assert found.n == sum(map(sum, table))
    if sum(count > 0 for count in used) < 2:
        assert found.value is None
        return
    expected = raters.cohens_kappa(np.array(table))
    assert found.value == pytest.approx(float(expected.kappa))
    if found.stderr is not None:
        assert found.stderr == pytest.approx(float(expected.std_kappa), rel=1e-6)
        ends = max(-1.0, float(expected.kappa_low)), min(1.0, float(expected.kappa_upp))
        assert (found.low, found.high) == pytest.approx(ends, abs=1e-6)
    else:
        assert float(expected.var_kappa) == pytest.approx(0.0, abs=1e-9)


def test_perfect_agreement_has_no_interval_of_no_width() -> None:
    assert kappa_of_table([[5, 0], [0, 5]]) == Estimate(1.0, None, None, None, 10, "delta")
    assert cohen_kappa("aabb", "aabb") == Estimate(1.0, None, None, None, 4, "bootstrap")
    assert percent_agreement([["a", "a"], ["b", "b"]]) == Estimate(1.0, None, None, None, 2, "bootstrap")


def test_whole_clusters_are_resampled() -> None:
    """Every rating repeated eight times in a cluster: the error is that of the items without repetition."""
    generator = np.random.default_rng(0)
    a = generator.integers(0, 2, 100)
    b = np.where(generator.random(100) < 0.7, a, 1 - a)
    alone = cohen_kappa(a.tolist(), b.tolist())
    again = cohen_kappa(
        np.repeat(a, 8).tolist(), np.repeat(b, 8).tolist(), clusters=[str(place // 8) for place in range(800)]
    )
    assert (again.value, again.n, again.clusters) == (pytest.approx(alone.value), 800, 100)
    assert again.stderr == pytest.approx(alone.stderr, rel=0.1)


def test_judges_agreement_by_hand() -> None:
    """Two of four items alike for a and b; b and c share two items, both alike; a and c differ on one of two."""
    found = rater_agreement({"a": [1, 1, 0, 0], "b": [1, 0, 0, 1], "c": [1, 0, None, None]})
    assert (found.raters, found.items) == (("a", "b", "c"), 4)
    # Pairs alike: 3 of 3, 1 of 3, 1 of 1, 0 of 1.
    assert found.share.value == pytest.approx((1 + 1 / 3 + 1 + 0) / 4)
    assert {pair: kappa.value for pair, kappa in found.kappas.items()} == {
        ("a", "b"): pytest.approx(0.0),
        ("a", "c"): pytest.approx(0.0),
        ("b", "c"): pytest.approx(1.0),
    }
    assert found.alpha == krippendorff_alpha([[1, 1, 1], [1, 0, 0], [0, 0], [0, 1]])


def test_judges_of_krippendorffs_example() -> None:
    found = rater_agreement({f"o{place}": marks for place, marks in enumerate(OBSERVERS)}, scale="ordinal")
    assert (found.items, found.alpha.value) == (11, pytest.approx(0.815, abs=5e-4))
    assert len(found.kappas) == 6 and found.kappas["o0", "o1"].n == 9


def test_judges_that_cannot_be_compared_are_reported() -> None:
    with pytest.raises(DataError, match="1 raters"):
        rater_agreement({"a": [1, 2]})
    with pytest.raises(DataError, match="rater b"):
        rater_agreement({"a": [1, 2], "b": [1]})


def test_kappa_of_clusters_of_copies_has_the_error_of_one_of_each() -> None:
    generator = np.random.default_rng(2)
    first = generator.integers(0, 2, 80)
    second = np.where(generator.random(80) < 0.8, first, 1 - first)
    once = cohen_kappa(first.tolist(), second.tolist())
    names = [place for place in range(80) for _ in range(4)]
    found = cohen_kappa(np.repeat(first, 4).tolist(), np.repeat(second, 4).tolist(), clusters=names)
    assert (found.method, found.n, found.clusters) == ("cluster-bootstrap", 320, 80)
    assert found.value == pytest.approx(once.value)
    assert found.stderr == pytest.approx(once.stderr, rel=0.08)
    assert cohen_kappa([1, 0, 1, 0], [1, 0, 0, 0], clusters="aabb").low is None


def test_clustered_kappa_of_single_items_is_that_of_the_table() -> None:
    """Clusters of one item: the same but for n/(n − 1), and Student's quantile."""
    generator = np.random.default_rng(3)
    first, second = (generator.random((2, 80)) < 0.6).astype(np.float64)
    second[:50] = first[:50]
    table = [[int(np.sum((first == i) & (second == j))) for j in (0, 1)] for i in (0, 1)]
    found, expected = clustered_kappa(first, second, np.arange(80)), kappa_of_table(table)
    assert expected.stderr is not None
    error = expected.stderr * math.sqrt(80 / 79)
    assert (found.value, found.stderr) == pytest.approx((expected.value, error))
    reach = t_quantile(79) * error
    assert (found.low, found.high) == pytest.approx((found.value - reach, found.value + reach))  # type: ignore[operator]


def test_clustered_kappa_agrees_with_resampled_clusters() -> None:
    generator = np.random.default_rng(5)
    units = np.repeat(np.arange(100), 4)
    first = (generator.random(400) < 0.5).astype(np.float64)
    second = np.where(np.repeat(generator.random(100) < 0.6, 4), first, 1 - first)  # clusters agree as a whole
    resampled = cohen_kappa(first.tolist(), second.tolist(), clusters=units.tolist())
    found = clustered_kappa(first, second, units)
    assert found.value == pytest.approx(resampled.value) and found.stderr == pytest.approx(resampled.stderr, rel=0.1)
    assert (found.clusters, clustered_kappa(first, first, units).stderr) == (100, None)
    assert clustered_kappa(np.ones(4), np.ones(4), np.arange(4)).value is None


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
def test_agreement_of_copies_in_clusters_has_the_error_of_one_of_each(scale: Scale) -> None:
    """Three raters of 60 items, every item four times; one more with a single rating says nothing."""
    generator = np.random.default_rng(7)
    marks = generator.integers(1, 5, 60)
    items = np.stack([np.where(generator.random(60) < 0.7, marks, generator.integers(1, 5, 60)) for _ in range(3)], 1)
    again = [*np.repeat(items, 4, axis=0).tolist(), [1, None, None]]
    names = [*(place for place in range(60) for _ in range(4)), "more"]
    for once, found in (
        (percent_agreement(items.tolist()), percent_agreement(again, clusters=names)),
        (krippendorff_alpha(items.tolist(), scale), krippendorff_alpha(again, scale, clusters=names)),
    ):
        assert (found.method, found.n, found.clusters) == ("cluster-bootstrap", 240, 60)
        assert found.value == pytest.approx(once.value, abs=0.01)
        assert found.stderr == pytest.approx(once.stderr, rel=0.02)
    with pytest.raises(DataError, match="clusters"):
        percent_agreement(again, clusters=names[:-1])


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_kappa_of_resamples_is_that_of_their_items(weights: Weights) -> None:
    """Three clusters, of which a resample may lack labels of either rater: ends lie where some resample does."""
    first, second = [0, 1, 2, 3, 3, 1, 0, 4], [0, 2, 2, 3, 1, 1, 4, 0]
    found = cohen_kappa(first, second, weights, clusters="aaabbbcc")
    resamples = []
    for drawn in product([range(3), range(3, 6), range(6, 8)], repeat=3):
        places = [place for part in drawn for place in part]
        resamples.append(cohen_kappa([first[p] for p in places], [second[p] for p in places], weights).value or 0.0)
    assert (found.low, found.high) == pytest.approx((min(resamples), max(resamples)))


def test_coefficients_that_many_resamples_lack_have_no_interval() -> None:
    """One item of 20 differs from all others: a resample lacks it in 36 of 100."""
    one, other = ["a"] * 19 + ["b"], ["a"] * 19 + ["c"]
    found = [
        cohen_kappa(one, other),
        cohen_kappa(one, other, clusters=range(20)),
        krippendorff_alpha(list(zip(one, other, strict=True))),
    ]
    assert all(item.value is not None and item.low is None and item.stderr is None for item in found)


LABELS = [f"label {place}" for place in range(3000)]
MARKS = np.random.default_rng(0).integers(0, 100, (20_000, 2)).tolist()


@pytest.mark.parametrize(
    "of_many",
    [
        pytest.param(lambda: cohen_kappa(LABELS, LABELS[::-1]), id="kappa"),
        pytest.param(lambda: cohen_kappa(LABELS, LABELS[::-1], "linear", clusters=LABELS), id="kappa in clusters"),
        pytest.param(lambda: krippendorff_alpha(list(zip(LABELS, LABELS[::-1], strict=True))), id="alpha"),
        pytest.param(lambda: krippendorff_alpha(MARKS, "ordinal"), id="ordinal alpha"),
    ],
)
def test_many_labels_take_bounded_memory(of_many: Callable[[], Estimate]) -> None:
    """A table of all pairs of labels, or of items and labels, would take 70 MB and more."""
    tracemalloc.start()
    found = of_many()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.stderr is not None and peak < 40e6
