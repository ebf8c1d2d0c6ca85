"""Stopping rules: hand values, exact laws, and error rates under peeking after every document."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.stats.means import wilson_interval
from assay.stats.sequential import (
    MeanBounds,
    capital,
    decide,
    difference_bounds,
    mean_bounds,
    outcome_evidence,
    value_evidence,
)

BAR = math.log(2 / 0.05)


def test_evidence_of_outcomes_by_hand() -> None:
    """5 : 0 gives 2⁵/6, 2 : 1 gives 2³ · 2!1!/4!; every coin alike: probability 1/(m+1) of each number of wins."""
    found = outcome_evidence(np.array([5, 2]), np.array([0, 1]))
    assert np.exp(found) == pytest.approx([32 / 6, 16 / 24])


def test_evidence_is_one_on_average_after_any_number_of_documents() -> None:
    """Over all 2¹⁰ series of wins and losses, of a fair coin."""
    series = 2 * (np.arange(2**10)[:, None] >> np.arange(10) & 1) - 1
    wins = np.cumsum(series > 0, axis=1)
    evidence = outcome_evidence(wins, np.arange(1, 11) - wins)
    assert np.exp(evidence).mean(axis=0) == pytest.approx(np.ones(10))
    by_values = np.array([value_evidence(row.astype(np.float64)) for row in series])
    assert np.exp(by_values).mean(axis=0) == pytest.approx(np.ones(10))


def test_capital_is_one_on_average_for_the_true_mean_only() -> None:
    """Values 0, .3 and 1 with probabilities .5, .25, .25: mean .325; over all series of six."""
    places = np.indices((3,) * 6).reshape(6, -1).T
    values, weights = np.array([0, 0.3, 1.0])[places], np.array([0.5, 0.25, 0.25])[places].prod(axis=1)
    for mean, expected in ((0.325, pytest.approx(1.0)), (0.3, pytest.approx(1.13, abs=0.06))):
        average = sum(w * math.exp(capital(row, mean)[-1]) for w, row in zip(weights, values, strict=True))
        assert average == expected


def test_capital_without_replacement_is_one_on_average_for_the_populations_mean() -> None:
    """All orders of 0, 0, 1, .5, of which three are drawn: mean .375."""
    from itertools import permutations

    orders = [np.array(order[:3]) for order in permutations([0.0, 0.0, 1.0, 0.5])]
    assert np.mean([math.exp(capital(order, 0.375, population=4)[-1]) for order in orders]) == pytest.approx(1.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.booleans())
def test_bounds_hold_the_mean_shrink_and_mirror(values: list[float], is_finite: bool) -> None:
    population = 80 if is_finite else None
    found = mean_bounds(values, population=population)
    before = mean_bounds(values[:-1], population=population)
    mirrored = mean_bounds([1 - value for value in values], population=population)
    assert 0 <= before.low <= found.low + 1e-12 and found.high <= before.high + 1e-12 <= 1 + 2e-12
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high), abs=1e-5)


def test_bounds_of_nothing_and_of_everything() -> None:
    assert mean_bounds([]) == MeanBounds(None, 0.0, 1.0, 0, 0.95)
    whole = mean_bounds([0.0, 1.0, 1.0, 1.0], population=4)
    assert (whole.low, whole.high) == (0.75, 0.75)
    part = mean_bounds([1.0, 1.0], population=4)
    assert (part.low, part.high) == (0.5, 1.0)  # the two others may both be 0


def test_bounds_are_wider_than_those_of_one_look_but_not_by_much() -> None:
    values = (np.random.default_rng(0).random(2000) < 0.7).astype(np.float64)
    low, high = wilson_interval(float(values.sum()), 2000)
    found = mean_bounds(values.tolist())
    assert 1.2 < found.half_width / ((high - low) / 2) < 2.0


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(DataError, match="document 1 has the value 1.5; expected 0 to 1"):
        mean_bounds([0.5, 1.5])
    with pytest.raises(DataError, match="differences: document 0"):
        decide([3.0], [1.0])
    with pytest.raises(DataError, match="2 values of 1 documents"):
        mean_bounds([0.5, 0.5], population=1)


def test_bounds_of_a_difference_are_those_of_the_shifted_mean() -> None:
    a, b = [1.0, 0.5, 1.0, 1.0] * 10, [0.0, 0.5, 1.0, 0.0] * 10
    found, shifted = difference_bounds(a, b), mean_bounds([1.0, 0.5, 0.5, 1.0] * 10)
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 2 * shifted.low - 1, 2 * shifted.high - 1))


def test_bounds_are_rounded_outwards() -> None:
    values = np.random.default_rng(2).random(200)
    found = mean_bounds(values.tolist())
    assert capital(values, found.low).max() >= BAR > capital(values, found.low + 2e-6).max()


def test_evidence_is_carried_over_many_documents() -> None:
    """Documents without a difference change nothing, also beyond the 10,000 that are taken at once."""
    differences = np.concatenate([np.full(30, 0.5), np.zeros(10_000)])
    evidence = value_evidence(differences)
    assert evidence[29] > 3
    assert evidence[[30, 9_999, 10_029]] == pytest.approx(evidence[29])


def test_eight_wins_without_a_loss_decide() -> None:
    """2⁷/8 = 16 does not reach 20, 2⁸/9 = 28.4 does."""
    assert not decide([1] * 7, [0] * 7).is_decided
    found = decide([1, 0, *[1] * 7, 0, 0, 0], [0, 0, *[0] * 7, 1, 1, 1])
    assert (found.is_decided, found.decided_at, found.is_first_better) == (True, 9, True)
    assert found.p == pytest.approx(9 / 256)
    assert math.exp(found.log_evidence) == pytest.approx(2**11 * 6 * math.factorial(8) / math.factorial(12))
    assert (found.wins, found.losses, found.method) == (8, 3, "beta-binomial")
    assert decide([0] * 8, [1] * 8).is_first_better is False


def test_no_document_decides_nothing() -> None:
    assert (decide([], []).is_decided, decide([], []).p) == (False, 1.0)


def test_values_decide_by_betting() -> None:
    generator = np.random.default_rng(3)
    b = generator.random(400) * 0.6
    found = decide((b + 0.1 + generator.random(400) * 0.2).tolist(), b.tolist())
    assert (found.method, found.is_first_better) == ("betting", True)
    assert found.decided_at is not None and found.decided_at < 100


def false_decisions(discordance: float, documents: int, runs: int) -> tuple[float, float]:
    """Share of runs in which equal systems are ever separated, with outcomes and with values."""
    generator = np.random.default_rng(5)
    signs = generator.choice([-1, 1], size=(runs, documents)) * (generator.random((runs, documents)) < discordance)
    wins, losses = np.cumsum(signs > 0, axis=1), np.cumsum(signs < 0, axis=1)
    outcomes = np.mean(outcome_evidence(wins, losses).max(axis=1) >= math.log(20))
    sizes = generator.random((runs, documents))
    values = np.mean([value_evidence(row).max() >= math.log(20) for row in signs * sizes])
    return float(outcomes), float(values)


def misses(mean: float, documents: int, runs: int, population: int | None = None) -> float:
    """Share of runs in which the true mean ever lies outside the bounds."""
    generator = np.random.default_rng(6)
    count = 0
    for _ in range(runs):
        if population is None:
            drawn = (generator.random(documents) < mean).astype(np.float64)
        else:
            drawn = generator.permutation(np.arange(population) < round(mean * population))[:documents].astype(
                np.float64
            )
        paths = capital(drawn, mean, population), capital(1 - drawn, 1 - mean, population)
        count += max(path.max() for path in paths) >= BAR
    return count / runs


def test_looking_after_every_document_keeps_the_error_rate() -> None:
    """300 documents, 600 runs; an ordinary test at 5 % after each document would err in a third of them."""
    assert max(false_decisions(0.3, 300, 600)) <= 0.05
    assert misses(0.8, 300, 400) <= 0.05
    assert misses(0.8, 300, 400, population=400) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_error_rates_hold_at_length(share: float) -> None:
    assert max(false_decisions(share, 3000, 2000)) <= 0.05
    assert misses(share, 3000, 1000) <= 0.05
    assert misses(share, 3000, 1000, population=4000) <= 0.05


def test_a_difference_is_found() -> None:
    """Discordant in 30 %, two wins per loss: 500 documents decide more than three of four runs.

    McNemar's test with one look finds it in 98 %: that is the price of looking 500 times.
    """
    generator = np.random.default_rng(7)
    signs = generator.choice([0, 1, -1], p=[0.7, 0.2, 0.1], size=(300, 500))
    wins, losses = np.cumsum(signs > 0, axis=1), np.cumsum(signs < 0, axis=1)
    assert np.mean(outcome_evidence(wins, losses).max(axis=1) >= math.log(20)) > 0.75
