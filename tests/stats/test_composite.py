"""Composed scores: values and errors by hand, and the coverage of their intervals."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.scores import Estimate
from assay.stats.composite import Composite, above_floor, composite, normalised, scaled, weighted_mean
from assay.stats.means import mean_estimate


def estimate(value: float, error: float, low: float, high: float) -> Estimate:
    return Estimate(value, error, low, high, n=100, method="wilson")


A, B = estimate(0.6, 0.03, 0.54, 0.66), estimate(0.4, 0.04, 0.33, 0.48)


def test_independent_sources_add_in_squares() -> None:
    found = weighted_mean([composite(A, "a"), composite(B, "b")], [1, 1]).estimate(200)
    assert found.value == pytest.approx(0.5)
    assert found.stderr == pytest.approx(0.025)  # √(0.03² + 0.04²) / 2
    assert found.low == pytest.approx(0.5 - math.hypot(0.06, 0.07) / 2)
    assert found.high == pytest.approx(0.5 + math.hypot(0.06, 0.08) / 2)
    assert (found.n, found.method) == (200, "delta-mover")


def test_errors_of_one_source_add_up() -> None:
    found = weighted_mean([composite(A, "a"), composite(B, "a")], [3, 1]).estimate(100)
    assert found.value == pytest.approx(0.55)
    assert found.stderr == pytest.approx((3 * 0.03 + 0.04) / 4)


def test_normalisation_stretches_errors_by_the_slope() -> None:
    found = normalised(composite(A, "a"), 0.25, 1.0).estimate(100)
    assert found.value == pytest.approx(0.35 / 0.75)
    assert found.stderr == pytest.approx(0.03 / 0.75)
    assert (found.low, found.high) == (pytest.approx(0.29 / 0.75), pytest.approx(0.41 / 0.75))


def test_below_the_floor_the_value_is_0_and_the_upper_end_is_not() -> None:
    found = normalised(composite(estimate(0.24, 0.02, 0.20, 0.29), "a"), 0.25, 1.0).estimate(100)
    assert (found.value, found.stderr, found.low) == (0.0, 0.0, 0.0)
    assert found.high == pytest.approx(0.04 / 0.75)
    # The floor cuts the lower end off.
    near = normalised(composite(estimate(0.27, 0.02, 0.23, 0.31), "a"), 0.25, 1.0).estimate(100)
    assert near.low == 0.0 and near.value == pytest.approx(0.02 / 0.75)


def test_a_ceiling_other_than_1() -> None:
    assert above_floor(30.0, 20.0, 60.0) == 0.25
    assert above_floor(70.0, 20.0, 60.0) == 1.25  # the definition has no cap


def test_a_scale_multiplies_everything() -> None:
    found = scaled(composite(A, "a"), 100).estimate(100)
    assert (found.value, found.stderr) == (pytest.approx(60.0), pytest.approx(3.0))
    assert (found.low, found.high) == (pytest.approx(54.0), pytest.approx(66.0))


def test_what_is_unknown_of_a_part_is_unknown_of_the_whole() -> None:
    bare = composite(Estimate(0.5, None, None, None, n=1, method="t"), "b")
    found = weighted_mean([composite(A, "a"), bare], [1, 1]).estimate(101)
    assert found.value == pytest.approx(0.55)
    assert (found.stderr, found.low, found.high, found.method) == (None, None, None, "delta")


shares = st.floats(0.0, 1.0)


@given(shares, shares, shares, shares, st.floats(0.01, 0.9))
def test_an_interval_holds_its_value_after_any_composition(
    a: float, b: float, width: float, other: float, floor: float
) -> None:
    parts = [composite(estimate(a, 0.1, a - width, a + other), 1), composite(estimate(b, 0.1, b - other, b + width), 2)]
    found: Composite = scaled(normalised(weighted_mean(parts, [1, 2]), floor, 1.0), 100)
    done = found.estimate(10)
    assert done.low is not None and done.high is not None and done.value is not None
    assert done.low - 1e-9 <= done.value <= done.high + 1e-9 and done.low >= -1e-9


def test_intervals_cover_95_percent() -> None:
    """Six tasks of 40 to 120 documents: normalised by floors, one of them averaged over two tasks first."""
    stream = random.Random(7)
    truth = [(0.62, 80, 0.25), (0.31, 120, 0.25), (0.55, 60, 0.5), (0.9, 40, 0.0), (0.45, 90, 0.2), (0.7, 50, 0.5)]

    def score(parts: list[Composite]) -> Composite:
        means = [normalised(part, floor, 1.0) for part, (_, _, floor) in zip(parts, truth, strict=True)]
        first = weighted_mean(means[:2], [1, 1])
        return scaled(weighted_mean([first, *means[2:]], [1] * 5), 100)

    right = score([composite(estimate(share, 0, share, share), place) for place, (share, _, _) in enumerate(truth)])
    hits, rounds = 0, 1500
    for _ in range(rounds):
        drawn = [[float(stream.random() < share) for _ in range(size)] for share, size, _ in truth]
        found = score([composite(mean_estimate(values), place) for place, values in enumerate(drawn)]).estimate(440)
        assert found.low is not None and found.high is not None
        hits += found.low <= right.value <= found.high
    assert 0.935 <= hits / rounds <= 0.975
