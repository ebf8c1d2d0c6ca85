"""Sign-flip tests by hand, by enumeration, against scipy, and their inversion."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.stats.sign_flip import SIGN_FLIPS, hoeffding_bound, sign_flip_table, sign_flip_test, sign_flip_tests


def stream() -> np.random.Generator:
    return np.random.default_rng(1)


def sign_flip_p(differences: Sequence[float], generator: np.random.Generator) -> float:
    return sign_flip_test(np.array(differences, dtype=np.float64), None, generator).p


def test_sign_flips_err_in_5_percent() -> None:
    """Equal systems with measured values, every flip tried: 204 of 4,096; three simulation errors are 2 %."""
    generator = np.random.default_rng(2)
    found = [sign_flip_p(row, generator) <= 0.05 for row in generator.laplace(size=(1000, 12)).tolist()]
    assert np.mean(found) == pytest.approx(204 / 4096, abs=0.021)


@pytest.mark.slow
def test_sign_flips_err_in_5_percent_at_length() -> None:
    generator = np.random.default_rng(9)
    found = [sign_flip_p(row, generator) <= 0.05 for row in generator.laplace(size=(4000, 100)).tolist()]
    assert np.mean(found) == pytest.approx(0.05, abs=0.01)


def test_sign_flips_by_hand() -> None:
    """Of the 8 flips of 1, 2, 3 only +++ and −−− reach 6; of 1, 1, −1 all reach 1."""
    assert sign_flip_p([1, 2, 3], stream()) == 2 / 8
    assert sign_flip_p([1, 1, -1], stream()) == 1.0
    assert sign_flip_p([3, 0, 2, 0, 1, 0], stream()) == 2 / 8


def test_sign_flips_count_ties_despite_rounding() -> None:
    """±0.2 ±0.9 ±0.9 is 0.2, 1.6 or 2.0 from 0 in truth: every flip is at least as far as 0.2."""
    assert sign_flip_p([0.2, 0.9, -0.9], stream()) == 1.0
    assert sign_flip_p([0.3, 0.3, 0.1, 0.2], stream()) == 2 / 16


def test_no_difference_is_no_evidence() -> None:
    assert sign_flip_p([], stream()) == 1.0
    assert sign_flip_p([0.0] * 30, stream()) == 1.0


def test_twelve_differences_are_enumerated_and_thirteen_drawn() -> None:
    assert sign_flip_p([1.0] * 12, stream()) == 2 / 2**12
    drawn = sign_flip_p([1.0] * 13, stream())
    assert drawn * (SIGN_FLIPS + 1) == pytest.approx(round(drawn * (SIGN_FLIPS + 1)))
    assert drawn < 0.002


def test_drawn_flips_are_never_zero_and_follow_their_seed() -> None:
    assert sign_flip_p([1.0] * 15, stream()) == 1 / (SIGN_FLIPS + 1)  # 2 of 32,768 in truth
    assert sign_flip_p([1.0] * 5000, stream()) > 0
    values = np.random.default_rng(2).normal(0.1, 1, 300).tolist()
    assert sign_flip_p(values, stream()) == sign_flip_p(values, stream())


def test_shares_too_small_to_draw_are_bounded() -> None:
    """Of all flips of 40 ones, 82 in 2⁴⁰ are 38 or more from 0; the bound is above that, and far below 1 in 10,001."""
    found = sign_flip_p([1.0] * 39 + [-1.0], stream())
    assert 82 / 2**40 < found == pytest.approx(2 * math.exp(-(38**2) / 80))
    for seed in range(50):
        values = np.random.default_rng(seed).standard_t(2, size=12) + 1
        assert hoeffding_bound(values) >= sign_flip_p(values.tolist(), stream())
    assert hoeffding_bound(np.full(20, 1e300)) == pytest.approx(2 * math.exp(-10))


def test_drawn_flips_agree_with_scipy() -> None:
    values = np.random.default_rng(8).normal(0.12, 1, 150)
    expected = scipy.stats.permutation_test(
        (values,), np.sum, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(3)
    )
    assert sign_flip_p(values.tolist(), stream()) == pytest.approx(expected.pvalue, abs=0.015)


def test_many_documents_are_drawn_in_blocks() -> None:
    """30,000 differences pass the bound on memory; half of them up, half down, give no evidence."""
    assert sign_flip_p([0.5, -0.5] * 15_000, stream()) == 1.0


def test_a_table_of_sign_flips_holds_every_pairs_test() -> None:
    generator = np.random.default_rng(3)
    base = generator.random(80)
    systems = [base + shift + generator.normal(scale=0.3, size=80) for shift in (0, 0, 0.05, 0.1)]
    pairs = list(combinations(range(4), 2))
    for (first, second), found in zip(pairs, sign_flip_table(systems, None, pairs, stream()), strict=True):
        alone = sign_flip_test(systems[second] - systems[first], None, stream())
        assert found.value == pytest.approx(alone.value) and found.p == pytest.approx(alone.p, abs=0.02)
        assert found.interval(0.95) == pytest.approx(alone.interval(0.95), abs=0.01)


def test_a_table_of_sign_flips_tries_all_where_there_are_few() -> None:
    """Differences 1, 2, 3 and no more: two of eight flips."""
    systems = [np.array([0.0, 0.0, 0.0, 0.5]), np.array([1.0, 2.0, 3.0, 0.5])]
    (found,) = sign_flip_table(systems, None, [(0, 1)], stream())
    assert found.p == 2 / 8 and found.value == 1.5
    assert sign_flip_table([], None, [], stream()) == []
    with pytest.raises(DataError, match="system 2: 1 values"):
        sign_flip_table([np.ones(2), np.ones(1)], None, [(0, 1)], stream())


def test_flips_of_many_pairs_are_those_of_each_alone() -> None:
    """Pairs of any number of documents: few are flipped every way, of many the share is near."""
    generator = np.random.default_rng(7)
    pairs = [generator.normal(shift, 1, size=size) for size in (5, 12, 30, 300) for shift in (0.0, 0.2)]
    pairs.append(np.zeros(20))
    for own, found in zip(pairs, sign_flip_tests([(own, None) for own in pairs], stream()), strict=True):
        assert found.p == pytest.approx(sign_flip_p(own.tolist(), stream()), abs=0.0 if len(own) <= 12 else 0.02)
    assert sign_flip_tests([(np.ones(40), None)], stream())[0].p == pytest.approx(2 * math.exp(-20))
    assert sign_flip_tests([], stream()) == []


def test_thousands_of_pairs_on_documents_of_their_own_are_flipped_in_seconds() -> None:
    pairs = [(own, None) for own in np.random.default_rng(5).normal(size=(2000, 900))]
    began = time.process_time()
    found = sign_flip_tests(pairs, stream(), 0.1)
    assert time.process_time() - began < 10
    assert np.mean([own.p <= 0.05 for own in found]) == pytest.approx(0.05, abs=0.03)


def test_a_hundred_systems_are_compared_in_seconds() -> None:
    """1,000 documents, 4,950 pairs, under 5 s of processor time."""
    systems = list(np.random.default_rng(4).random((100, 1000)))
    began = time.process_time()
    found = sign_flip_table(systems, None, list(combinations(range(100), 2)), stream(), 0.1)
    assert time.process_time() - began < 5
    assert np.mean([own.p <= 0.05 for own in found]) == pytest.approx(0.05, abs=0.03)


@pytest.mark.parametrize("alpha", [0.3, 0.1, 0.05, 0.01])
def test_the_interval_ends_where_the_statistic_is_at_the_critical_value_of_the_flips(alpha: float) -> None:
    """Ten differences of other weights: fewer than a share α of all 1,024 flips are beyond it, and no more can be."""
    generator = np.random.default_rng(3)
    differences, weights = generator.normal(0.3, 1, size=10), generator.integers(1, 5, size=10).astype(float)
    signs = 2.0 * (np.arange(1024)[:, None] >> np.arange(10) & 1) - 1
    flipped = np.sort(np.abs(signs @ differences) / math.sqrt(differences @ differences))[::-1]
    ends = sign_flip_test(differences, weights, stream()).interval(1 - alpha)
    for rest in (differences - end * weights for end in ends):
        beyond = int(np.sum(flipped >= abs(rest.sum()) / math.sqrt(rest @ rest)))
        assert beyond < alpha * 1024 <= beyond + 2  # every flip has its opposite


@given(
    st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.0, 0.25, 1.0]), min_size=2, max_size=40),
    st.sampled_from([0.3, 0.1, 0.05, 0.01, 1e-4, 1e-6]),
)
def test_0_is_left_out_exactly_when_p_is_below_alpha(values: list[float], alpha: float) -> None:
    """Also where most differences are 0, and where the bound of very small shares decides."""
    found = sign_flip_test(np.array(values), None, stream())
    low, high = found.interval(1 - alpha)
    assert (found.p < alpha) == (not low <= 0 <= high)


def test_the_interval_is_near_students() -> None:
    values = np.random.default_rng(5).normal(0.2, 1, 200)
    expected = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert sign_flip_test(values, None, stream()).interval(0.95) == pytest.approx(
        (expected.low, expected.high), abs=0.01
    )


def test_few_differences_have_students_interval_that_holds_0() -> None:
    """Of five differences no flip has a p below 2 in 32: Student's interval, extended to 0."""
    values = np.array([1.0, 1.2, 0.8, 1.1, 1.5])
    few, expected = sign_flip_test(values, None, stream()), scipy.stats.ttest_1samp(values, 0).confidence_interval(0.99)
    assert expected.low > 0 and few.interval(0.99) == pytest.approx((0.0, expected.high))
    assert not few.rejects_any(0.95) and few.rejects_any(0.9)
    assert sign_flip_test(np.ones(6), None, stream()).interval(0.95) == (1.0, 1.0)
    assert sign_flip_test(np.ones(1), None, stream()).interval(0.95) == (-math.inf, math.inf)


@given(
    st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.0, 0.25, 1.0]), min_size=2, max_size=40),
    st.lists(st.sampled_from([1.0, 1.0, 2.0, 9.0]), min_size=40, max_size=40),
)
def test_no_interval_is_narrower_than_that_of_a_lower_level(values: list[float], weights: list[float]) -> None:
    own = np.array(weights[: len(values)])
    found = sign_flip_test(np.array(values) * own, own, stream())
    ends = [found.interval(1 - alpha) for alpha in (0.4, 0.2, 0.1, 0.05, 0.01, 1e-3, 1e-4, 1e-5, 1e-8)]
    for (low, high), (lower, higher) in pairwise(ends):
        assert lower <= low + 1e-9 and higher >= high - 1e-9


def test_levels_beyond_what_draws_can_show_are_bounded() -> None:
    values = np.random.default_rng(6).normal(1.0, 1, 100)
    found = sign_flip_test(values, None, stream())
    low, high = found.interval(1 - 1e-6)
    assert found.p < 1e-6 and 0 < low < 0.5 and high < 2
    assert hoeffding_bound(values - low) == pytest.approx(1e-6)
    assert hoeffding_bound(values - high) == pytest.approx(1e-6)
