"""Samples that nest, and the difference estimator."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.core.scores import Estimate
from assay.stats.means import bounded_interval, mean_estimate, wilson_interval
from assay.stats.paired import newcombe_interval
from assay.stats.sampling import difference_estimate, finite_estimate, nested_sample, random_order


def test_a_smaller_sample_lies_inside_a_larger_one() -> None:
    sizes = [0, 1, 50, 100, 999, 1000]
    samples = [set(nested_sample(n, 1000, seed=7)) for n in sizes]
    assert [len(sample) for sample in samples] == sizes
    assert all(one <= other for one, other in pairwise(samples))
    assert samples[-1] == set(range(1000))


def test_a_sample_is_in_order_repeats_and_depends_on_the_seed() -> None:
    found = nested_sample(20, 500, seed=1)
    assert list(found) == sorted(found)
    assert found == nested_sample(20, 500, seed=1)
    assert found != nested_sample(20, 500, seed=2)
    assert nested_sample(20, 500, seed=b"\0") != nested_sample(20, 500, seed=b"\0\0")


def test_a_sample_is_at_most_the_whole() -> None:
    assert nested_sample(5, 3, seed=0) == (0, 1, 2)
    with pytest.raises(DataError):
        nested_sample(-1, 3, seed=0)


def test_every_place_is_drawn_alike() -> None:
    """50 places, 2,000 seeds, 10 of each: 400 ± 18 draws of every place; chi-square of 49 degrees, times .8."""
    counts = np.zeros(50)
    for seed in range(2000):
        counts[list(nested_sample(10, 50, seed))] += 1
    assert scipy.stats.chi2.sf(float(np.sum((counts - 400) ** 2) / 400 / 0.8), 49) > 0.001


def test_the_difference_estimator_by_hand() -> None:
    """Reference mean .5 over 8; differences .1, .3, −.1, .1 on 4: mean .1, error √(.08/3)/2 · √½."""
    reference = [0.2, 0.4, 0.6, 0.8, 0.2, 0.4, 0.6, 0.8]
    found = difference_estimate(reference, {0: 0.3, 2: 0.9, 5: 0.3, 7: 0.9})
    error = math.sqrt(0.08 / 3) / 2 * math.sqrt(0.5)
    reach = scipy.stats.t.ppf(0.975, 3) * error
    ends = pytest.approx(0.6 - reach), pytest.approx(0.6 + reach)
    assert found == Estimate(pytest.approx(0.6), pytest.approx(error), *ends, 4, "difference-t")


def test_outcomes_have_newcombes_interval_shrunk_to_what_is_unseen() -> None:
    """Reference right on 20 of 40; of 10 sampled both are right on 5, the system alone on 2."""
    reference = [1.0] * 20 + [0.0] * 20
    sampled = {**dict.fromkeys(range(5), 1.0), 20: 1.0, 21: 1.0, 22: 0.0, 23: 0.0, 24: 0.0}
    low, high = newcombe_interval(5, 2, 0, 10)
    found = difference_estimate(reference, sampled)
    assert found.value == pytest.approx(0.7)
    assert found.low == pytest.approx(0.7 - (0.2 - low) * math.sqrt(0.75))
    assert found.high == pytest.approx(min(1.0, 0.7 + (high - 0.2) * math.sqrt(0.75)))


def test_a_sample_of_all_leaves_no_error_and_of_none_no_value() -> None:
    assert difference_estimate([1, 0], {0: 0, 1: 0}) == Estimate(0.0, 0.0, 0.0, 0.0, 2, "difference-newcombe")
    assert difference_estimate([1, 0], {}).value is None
    one = difference_estimate([0.5, 0.25], {1: 0.75})
    assert (one.value, one.stderr, one.low) == (0.875, None, None)


def test_a_document_that_the_reference_lacks_is_refused() -> None:
    with pytest.raises(DataError, match="indices from 0 to 1"):
        difference_estimate([1, 0], {2: 1})


def test_the_difference_estimator_covers_and_is_sharper_than_the_sample_alone() -> None:
    """1,000 documents on which two systems agree in 85 %; samples of 150."""
    generator = np.random.default_rng(0)
    reference = (generator.random(1000) < 0.6).astype(np.float64)
    system = np.where(generator.random(1000) < 0.85, reference, 1 - reference)
    found = []
    for _ in range(500):
        places = generator.choice(1000, size=150, replace=False)
        found.append(difference_estimate(reference.tolist(), {int(place): float(system[place]) for place in places}))
    covered = [
        item.low <= system.mean() <= item.high for item in found if item.low is not None and item.high is not None
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.03)
    spread = float(np.std([item.value for item in found if item.value is not None]))
    assert np.mean([item.stderr for item in found if item.stderr is not None]) == pytest.approx(spread, rel=0.1)
    alone = math.sqrt(system.var() / 150 * 0.85)
    assert spread < 0.85 * alone


def test_the_random_order_begins_with_every_sample() -> None:
    order = random_order(200, seed=3)
    assert sorted(order) == list(range(200))
    assert tuple(sorted(order[:37])) == nested_sample(37, 200, seed=3)


def test_the_mean_of_a_finite_task_by_hand() -> None:
    # Values 1, 2, 6 of 12 documents: deviation √7, so √(7/3 · 9/12); t of two degrees.
    found = finite_estimate([1.0, 2.0, 6.0], 12)
    error = math.sqrt(7 / 3 * 0.75)
    reach = scipy.stats.t.ppf(0.975, 2) * error
    assert (found.value, found.stderr, found.method) == (3.0, pytest.approx(error), "finite-t")
    assert (found.low, found.high) == pytest.approx((3 - reach, 3 + reach))


def test_a_finite_task_that_is_all_seen_is_known() -> None:
    whole = finite_estimate([1.0, 0.0, 1.0, 1.0], 4)
    assert whole == Estimate(0.75, 0.0, 0.75, 0.75, 4, "finite-wilson")


def test_outcomes_of_a_finite_task_stay_within_what_the_rest_can_make_of_them() -> None:
    found = finite_estimate([1.0] * 8, 10)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low is not None
    assert 0.8 <= found.low < 1.0
    of_many = finite_estimate([1.0, 0.0, 1.0, 1.0], 10**9)
    assert (of_many.low, of_many.high) == pytest.approx(
        (mean_estimate([1, 0, 1, 1]).low, mean_estimate([1, 0, 1, 1]).high)
    )


def test_equal_values_do_not_show_how_far_the_rest_lies() -> None:
    found = [finite_estimate([0.3] * 5, 20), difference_estimate([0.2] * 20, dict.fromkeys(range(5), 0.7))]
    for one, value in zip(found, (0.3, 0.7), strict=True):
        assert one.value == pytest.approx(value) and (one.stderr, one.low, one.high) == (None, None, None)


def test_few_documents_of_a_finite_task_are_nulls() -> None:
    assert (finite_estimate([], 5).value, finite_estimate([], 5).n) == (None, 0)
    one = finite_estimate([0.3], 5)
    assert (one.value, one.stderr, one.low, one.high) == (0.3, None, None, None)
    with pytest.raises(DataError, match="3 values of 2 documents"):
        finite_estimate([0.0, 1.0, 1.0], 2)


@pytest.mark.parametrize(("total", "n"), [(200, 30), (200, 100), (1000, 100)])
def test_the_interval_of_a_finite_task_covers(total: int, n: int) -> None:
    """Shares of right answers from 3 to 97 %; the exact law of samples in place of simulation."""
    found = [finite_estimate([1.0] * hits + [0.0] * (n - hits), total) for hits in range(n + 1)]
    low, high = np.array([item.low for item in found]), np.array([item.high for item in found])
    coverage = []
    for right in range(round(0.03 * total), round(0.97 * total), 5):
        law = scipy.stats.hypergeom(total, right, n).pmf(np.arange(n + 1))
        coverage.append(float(law[(low <= right / total) & (right / total <= high)].sum()))
    # As with Wilson's interval of any sample, single shares lie a little below, the average does not.
    assert np.mean(coverage) == pytest.approx(0.95, abs=0.01)
    assert min(coverage) > 0.9


def test_the_difference_estimator_stays_within_what_can_be() -> None:
    """Right on all ten evaluated, where the reference had five: its 90 % plus 50 is not a proportion, nor is −7 %."""
    reference = [1.0] * 90 + [0.0] * 10
    above = difference_estimate(reference, dict.fromkeys(range(85, 95), 1.0))
    below = difference_estimate([1 - value for value in reference], dict.fromkeys(range(85, 95), 0.0))
    alone = finite_estimate([1.0] * 10, 100)
    assert (above.value, above.low, above.high) == (1.0, alone.low, 1.0)
    assert (below.value, below.low) == (0.0, 0.0)
    assert below.high == pytest.approx(1 - (alone.low or 0))
    part = difference_estimate([0.5] * 40 + [0.0] * 60, {0: 0.9, 1: 1.0, 50: 0.9, 51: 0.8})
    assert part.value == pytest.approx(0.85) and part.high == pytest.approx((3.6 + 96) / 100)


@settings(deadline=None, max_examples=200)
@given(st.data(), st.integers(2, 12), st.sampled_from([[0.0, 1.0], [0.0, 0.25, 1.0]]))
def test_the_difference_estimators_interval_holds_its_own_value(
    data: st.DataObject, total: int, values: list[float]
) -> None:
    reference = data.draw(st.lists(st.sampled_from(values), min_size=total, max_size=total))
    places = data.draw(st.lists(st.integers(0, total - 1), min_size=1, unique=True))
    sampled = {place: data.draw(st.sampled_from(values)) for place in places}
    seen, found = sum(sampled.values()), difference_estimate(reference, sampled)
    assert found.value is not None
    assert seen / total - 1e-12 <= found.value <= (seen + total - len(places)) / total + 1e-12
    if found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.value + 1e-12 and found.value - 1e-12 <= found.high <= 1 + 1e-12
        assert found.low < found.high or len(places) == total


def test_a_sample_on_which_both_agree_has_an_interval_and_no_error() -> None:
    found = difference_estimate([1.0, 0.0] * 20, {0: 1.0, 1: 0.0, 2: 1.0, 3: 0.0})
    assert (found.value, found.stderr) == (0.5, None)
    assert found.low is not None and found.high is not None and found.low < 0.4 and found.high > 0.6


def test_values_from_0_to_1_of_a_finite_task_have_an_interval_within_them() -> None:
    """The interval of a mean with that error, and no less than what was seen: .3 + .9 of 1,000."""
    values = [0.0] * 28 + [0.3, 0.9]
    found = finite_estimate(values, 1000)
    assert found.stderr is not None and found.method == "finite-wilson-t"
    assert (found.low, found.high) == pytest.approx(bounded_interval(0.04, found.stderr, 29))
    known = finite_estimate([0.5, 0.6, 0.7, 0.2], 5)
    assert known.low == pytest.approx(2.0 / 5) and known.high == pytest.approx(3.0 / 5)


def test_a_finite_task_of_few_documents_has_its_own_width() -> None:
    """Three right of five, of twenty: Wilson's interval as of 5 · 19/15 documents, not of 5 · 20/15."""
    found = finite_estimate([1.0, 1.0, 1.0, 0.0, 0.0], 20)
    assert (found.low, found.high) == pytest.approx(wilson_interval(0.6 * 5 * 19 / 15, 5 * 19 / 15))


def test_an_infinite_value_has_neither_error_nor_interval() -> None:
    infinite = Estimate(math.inf, None, None, None, 2, "finite-t")
    assert finite_estimate([math.inf, 1.0], 9) == infinite
    assert difference_estimate([1.0] * 9, {0: math.inf, 1: 1.0}) == replace(infinite, method="difference-t")
    assert difference_estimate([1.0] * 8 + [math.inf], {0: 1.0, 1: 1.0}).value is None
