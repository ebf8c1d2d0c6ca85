"""What a spread is by sampling alone."""

from __future__ import annotations

import numpy as np
import pytest

from assay.core.errors import DataError
from assay.stats.spread import chance_spread


def test_two_methods_are_a_difference_and_its_error() -> None:
    """δ of two is |difference|: mean √(2/π) and 95 % quantile 1.96 of its standard error, here √(0.5/200)."""
    generator = np.random.default_rng(1)
    first, second = generator.permutation([1.0, 0.0] * 100), generator.permutation([1.0, 0.0] * 100)
    error = float(np.std(first - second, ddof=1)) / 200**0.5
    found = chance_spread([first.tolist(), second.tolist()], seed=1)
    assert found is not None
    assert found.expected == pytest.approx((2 / np.pi) ** 0.5 * error, rel=0.05)
    assert found.reach == pytest.approx(1.96 * error, rel=0.05)


def test_methods_that_are_one_have_no_spread() -> None:
    found = chance_spread([[1.0, 0.0] * 8] * 3)
    assert found is not None and (found.expected, found.reach) == (0.0, 0.0)


def test_a_true_difference_is_not_counted_as_chance() -> None:
    """One method is right everywhere and the other nowhere: sampling does not explain any of it."""
    found = chance_spread([[1.0] * 50, [0.0] * 50])
    assert found is not None and found.reach == 0.0


def test_spreads_of_equal_methods_stay_within_reach() -> None:
    """Five methods that guess: the spread is beyond reach in about 5 % of samples, and as large as expected."""
    generator = np.random.default_rng(2)
    samples = [(generator.random((5, 80)) < 0.25).astype(float) for _ in range(100)]
    found = [(float(np.ptp(own.mean(axis=1))), chance_spread(own.tolist(), seed=3)) for own in samples]
    beyond = [delta > chance.reach for delta, chance in found if chance is not None]
    expected = [chance.expected for _, chance in found if chance is not None]
    assert len(beyond) == 100 and sum(beyond) <= 12
    assert np.mean(expected) == pytest.approx(np.mean([delta for delta, _ in found]), rel=0.1)


def test_too_few_for_a_conclusion() -> None:
    """Four documents that all differ alike would leave no error at all."""
    assert chance_spread([[1.0] * 4, [0.0] * 4]) is None
    assert chance_spread([[1.0, 0.0] * 10]) is None
    assert chance_spread([[1.0] * 40, [0.0] * 40], clusters=["a", "b"] * 20) is None


def test_methods_must_have_the_same_documents() -> None:
    with pytest.raises(DataError, match="method 2"):
        chance_spread([[1.0, 0.0], [1.0]])
