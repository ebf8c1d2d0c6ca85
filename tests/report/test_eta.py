"""The pace of work: right for steady work from the first seconds on, and soon right after a change."""

from __future__ import annotations

import itertools
import random

import pytest

from assay.report.eta import RateEstimator

RATE = 80.0


def test_nothing_is_said_before_there_is_something_to_say() -> None:
    pace = RateEstimator()
    assert (pace.rate, pace.remaining_seconds(100)) == (None, None)
    pace.add(5.0, 0)
    pace.add(5.5, 50)
    assert pace.rate is None
    pace.add(6.0, 100)
    assert (pace.rate, pace.remaining_seconds(300)) == (100.0, 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_time_left_is_right_within_a_fifth_for_uneven_pieces_of_steady_work(seed: int) -> None:
    chance, pace, now, total = random.Random(seed), RateEstimator(), 20.0, 600 * RATE
    pace.add(now, 0)
    done = 0.0
    while done < total:
        # Pieces of 0.2 to 1.5 seconds, each up to 15 % faster or slower than the work is on the whole.
        seconds = chance.uniform(0.2, 1.5)
        now, done = now + seconds, min(total, done + seconds * RATE * chance.uniform(0.85, 1.15))
        pace.add(now, done)
        remaining_seconds = pace.remaining_seconds(total)
        if now - 20.0 > 3.0:
            assert remaining_seconds == pytest.approx((total - done) / RATE, rel=0.2)


def test_time_before_the_first_report_does_not_count() -> None:
    pace = RateEstimator()
    for second in range(10):
        pace.add(1000.0 + second, 500 + 10 * second)
    assert pace.rate == pytest.approx(10)


def test_a_change_of_rate_is_seen_within_a_minute() -> None:
    pace = RateEstimator()
    done = itertools.accumulate([100.0] * 60 + [50.0] * 60)
    for second, work in enumerate(done):
        pace.add(float(second), work)
    assert pace.rate == pytest.approx((50 + 75) / 2, rel=0.02)


def test_a_stall_and_a_step_back_give_no_nonsense() -> None:
    pace = RateEstimator()
    for now, done in ((0.0, 0), (10.0, 100), (50.0, 100), (90.0, 60)):
        pace.add(now, done)
    assert pace.rate is not None and pace.rate > 0
    assert pace.remaining_seconds(50) == 0.0
