"""lm-eval's bootstrap error, to its very numbers."""

from __future__ import annotations

import math
import random
import statistics
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from assay.stats.bootstrap import percentile_estimate
from assay.stats.lm_eval_bootstrap import lm_eval_stderr

Floats = NDArray[np.float64]


def perplexities(values: Floats) -> Floats:
    return np.asarray(np.exp(-values.mean(axis=1)))


def means(values: Floats) -> Floats:
    return np.asarray(values.mean(axis=1))


def plain_stderr(values: list[float], iterations: int) -> float:
    """lm-eval's procedure, word by word."""
    chunk = min(1000, iterations)
    replicates = []
    for number in range(iterations // chunk):
        generator = random.Random(number)
        for _ in range(chunk):
            drawn = generator.choices(values, k=len(values))
            replicates.append(math.exp(-sum(drawn) / len(drawn)))
    return statistics.stdev(replicates)


@pytest.mark.parametrize(("iterations", "expected"), [(1000, 8.37533047438102), (2500, 8.384371697875736)])
def test_the_bootstrap_error_is_lm_evals(iterations: int, expected: float) -> None:
    found = lm_eval_stderr(np.array([-1.0, -2.0, -3.0, -4.0]), perplexities, iterations)
    assert found == pytest.approx(expected, abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(-5, 0), min_size=2, max_size=9), st.sampled_from([2, 7, 999, 1000, 1500, 2001]))
def test_the_bootstrap_error_is_that_of_pythons_generator(values: list[float], iterations: int) -> None:
    found = lm_eval_stderr(np.array(values), perplexities, iterations)
    assert found == pytest.approx(plain_stderr(values, iterations), rel=1e-9, abs=1e-12)


def test_blocks_of_rows_do_not_change_the_stream() -> None:
    """4001 values × 1000 replicates are more than one block of memory."""
    values = list(np.random.default_rng(0).normal(-1, 0.5, 4001))
    assert lm_eval_stderr(np.array(values), perplexities, 1000) == pytest.approx(plain_stderr(values, 1000), rel=1e-9)


@pytest.mark.parametrize(("n", "iterations"), [(0, 1000), (1, 1000), (5, 0), (5, -1), (5, 1)])
def test_no_error_where_lm_eval_has_none(n: int, iterations: int) -> None:
    assert lm_eval_stderr(np.ones(n), means, iterations) is None


def test_the_global_generators_are_left_alone() -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    lm_eval_stderr(np.arange(5.0), means, 1000)
    percentile_estimate(np.arange(5.0), means)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


@pytest.mark.parametrize("values", [[np.inf, 1.0, 2.0], [np.inf, -np.inf, 1.0]])
def test_infinite_values_have_no_error_and_no_warning(values: list[float]) -> None:
    found = lm_eval_stderr(np.array(values), lambda rows: np.asarray(rows.mean(axis=1)), 50)
    assert found is not None and np.isnan(found)


def test_resamples_are_reported_as_they_come() -> None:
    heard: list[tuple[int, int]] = []
    lm_eval_stderr(np.arange(50.0), means, 3500, lambda what, done, total: heard.append((done, total)))
    assert heard == [(1000, 3000), (2000, 3000), (3000, 3000)]


def test_an_interrupt_ends_the_resampling_at_once() -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    started, size = time.process_time(), 20_000
    with pytest.raises(KeyboardInterrupt):
        lm_eval_stderr(np.ones(size), means, 100_000, interrupt)  # 2e9 draws, some 12 s
    assert time.process_time() - started < 5
