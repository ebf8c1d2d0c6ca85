"""Paired tests against published examples, hand counts, statsmodels and simulation."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.core.scores import Estimate
from assay.stats.paired import (
    FLIPS,
    CochranTest,
    cochran_q,
    flip_bound,
    mcnemar_mid_p,
    mcnemar_p,
    newcombe_interval,
    paired_difference,
    sign_flip_p,
    sign_flip_ps,
    sign_flip_table,
)

OUTCOMES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=60)


def outcomes(both: int, wins: int, losses: int, neither: int) -> tuple[list[float], list[float]]:
    """Two systems' 0/1 values with these counts."""
    return (
        [1.0] * (both + wins) + [0.0] * (losses + neither),
        [1.0] * both + [0.0] * wins + [1.0] * losses + [0.0] * neither,
    )


def difference_of(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """a less b, document by document."""
    first, second = np.array(a, dtype=float), np.array(b, dtype=float)
    gaps, is_binary = first - second, bool(np.isin([first, second], (0, 1)).all())
    counts = int((first * second).sum()), int((gaps > 0).sum()), int((gaps < 0).sum())
    return paired_difference(gaps, float(np.std(gaps, ddof=1)) if len(gaps) > 1 else 0.0, counts if is_binary else None)


def stream() -> np.random.Generator:
    return np.random.default_rng(1)


def test_mcnemar_by_hand() -> None:
    assert mcnemar_p(0, 5) == pytest.approx(2 / 2**5)
    assert mcnemar_p(1, 9) == pytest.approx(2 * (1 + 10) / 2**10)
    assert mcnemar_p(4, 4) == 1.0


def test_mcnemar_of_published_tables() -> None:
    """Tubercle media of Armitage and Berry (12 against 2), complete response of Cavo et al. (6 against 16)."""
    assert mcnemar_p(12, 2) == pytest.approx(0.0129, abs=5e-5)
    assert mcnemar_p(6, 16) == pytest.approx(0.052479, abs=5e-7)


def test_mcnemar_without_discordance_is_one() -> None:
    assert mcnemar_p(0, 0) == 1.0


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_agrees_with_statsmodels(wins: int, losses: int) -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    if wins + losses:
        expected = tables.mcnemar([[3, wins], [losses, 8]], exact=True).pvalue
        assert mcnemar_p(wins, losses) == pytest.approx(expected, rel=1e-9)


def test_mid_p_mcnemar_by_hand() -> None:
    """Half of the observed split off on either side: 2 · (1 + 10/2)/2¹⁰; an even split is no evidence."""
    assert mcnemar_mid_p(1, 9) == pytest.approx(2 * (1 + 5) / 2**10)
    assert mcnemar_mid_p(0, 5) == mcnemar_mid_p(5, 0) == pytest.approx(1 / 2**5)
    assert (mcnemar_mid_p(4, 4), mcnemar_mid_p(0, 0)) == (pytest.approx(1.0), 1.0)


def test_mid_p_mcnemar_of_published_tables() -> None:
    """Fagerland, Lydersen and Laake's formula: the exact p less the probability of the observed split."""
    for wins, losses in ((12, 2), (6, 16), (100, 140)):
        split = scipy.stats.binom.pmf(wins, wins + losses, 0.5)
        assert mcnemar_mid_p(wins, losses) == pytest.approx(mcnemar_p(wins, losses) - split)


def true_level(test: Callable[[int, int], float], n: int, discordance: float) -> float:
    """Probability to find a difference at 5 % where there is none, summed over all tables."""
    level = 0.0
    for count in range(n + 1):
        wins = np.arange(count + 1)
        found = np.array([test(int(w), count - int(w)) <= 0.05 for w in wins])
        level += scipy.stats.binom.pmf(count, n, discordance) * scipy.stats.binom.pmf(wins, count, 0.5)[found].sum()
    return float(level)


@pytest.mark.parametrize(("n", "discordance"), [(30, 0.5), (50, 0.2), (100, 0.1), (100, 0.3), (200, 0.05)])
def test_mid_p_mcnemar_errs_in_4_to_6_percent_from_ten_discordant_documents_on(n: int, discordance: float) -> None:
    assert 0.04 <= true_level(mcnemar_mid_p, n, discordance) <= 0.06


def test_exact_mcnemar_errs_far_more_rarely_than_it_says() -> None:
    assert true_level(mcnemar_p, 30, 0.3) == pytest.approx(0.0209, abs=5e-5)
    assert true_level(mcnemar_p, 100, 0.1) == pytest.approx(0.0220, abs=5e-5)
    assert true_level(mcnemar_mid_p, 30, 0.1) < 0.01  # three discordant documents cannot tell


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


@pytest.mark.parametrize(
    ("table", "low", "high", "rounding"),
    [
        ((59, 6, 16, 80), -0.1186, -0.0046, 5e-5),  # Cavo et al., in Fagerland, Lydersen and Laake (2017), chapter 8
        ((36, 12, 2, 0), 0.0569, 0.3404, 5e-5),  # Newcombe (1998), negative correlation; quoted from memory
        ((14, 5, 0, 22), 0.011, 0.226, 5e-4),  # Altman et al. (2000), table 6.2; the ends quoted from memory
    ],
)
def test_newcombe_of_published_tables(
    table: tuple[int, int, int, int], low: float, high: float, rounding: float
) -> None:
    both, wins, losses, _ = table
    assert newcombe_interval(both, wins, losses, sum(table)) == pytest.approx((low, high), abs=rounding)


@given(OUTCOMES)
def test_newcombe_holds_the_difference_and_turns_with_the_pair(pairs: list[tuple[int, int]]) -> None:
    a, b = [float(x) for x, _ in pairs], [float(y) for _, y in pairs]
    there, back = difference_of(a, b), difference_of(b, a)
    assert there.low is not None and there.high is not None and there.value is not None
    assert -1 <= there.low <= there.value <= there.high <= 1
    assert there.high > there.low
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-12)


def test_newcombe_covers_in_simulation() -> None:
    """Shares of the four cells .5, .2, .1, .2; the true difference is .1."""
    draws = np.random.default_rng(4).multinomial(80, [0.5, 0.2, 0.1, 0.2], size=2000)
    ends = [newcombe_interval(int(both), int(wins), int(losses), 80) for both, wins, losses, _ in draws]
    assert np.mean([low <= 0.1 <= high for low, high in ends]) == pytest.approx(0.955, abs=0.015)


def test_agreement_on_every_document_still_has_width() -> None:
    estimate = difference_of(*outcomes(20, 0, 0, 0))
    assert (estimate.value, estimate.stderr) == (0.0, 0.0)
    reach = math.hypot(0.0, 3.8414588 / (20 + 3.8414588))  # Wilson's lower end of 20 of 20
    assert (estimate.low, estimate.high) == pytest.approx((-reach, reach))


def test_a_paired_difference_of_outcomes() -> None:
    """Differences 1 × 12, −1 × 2, 0 × 36: mean .2, variance (14 − 50 · .04) / 49."""
    estimate = difference_of(*outcomes(36, 12, 2, 0))
    assert estimate.value == pytest.approx(0.2)
    assert estimate.stderr == pytest.approx(math.sqrt(12 / 49 / 50))
    assert (estimate.low, estimate.high) == pytest.approx((0.0569, 0.3404), abs=5e-5)
    assert (estimate.method, estimate.n) == ("newcombe", 50)


def test_a_paired_difference_of_measurements_has_students_interval() -> None:
    a, b = [0.5, 2.5, 3.0, 4.5], [0.0, 1.0, 3.5, 2.5]
    expected = scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
    estimate = difference_of(a, b)
    assert (estimate.value, estimate.method) == (0.875, "t")
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high))


def test_no_document_and_one_document_have_no_interval() -> None:
    assert difference_of([], []) == Estimate(None, None, None, None, 0, "newcombe", 0.95)
    assert difference_of([1], [0]) == Estimate(1.0, None, None, None, 1, "newcombe", 0.95)
    assert difference_of([0.5], [2.0]) == Estimate(-1.5, None, None, None, 1, "t", 0.95)


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
    assert drawn * (FLIPS + 1) == pytest.approx(round(drawn * (FLIPS + 1)))
    assert drawn < 0.002


def test_drawn_flips_are_never_zero_and_follow_their_seed() -> None:
    assert sign_flip_p([1.0] * 15, stream()) == 1 / (FLIPS + 1)  # 2 of 32,768 in truth
    assert sign_flip_p([1.0] * 5000, stream()) > 0
    values = np.random.default_rng(2).normal(0.1, 1, 300).tolist()
    assert sign_flip_p(values, stream()) == sign_flip_p(values, stream())


def test_shares_too_small_to_draw_are_bounded() -> None:
    """Of all flips of 40 ones, 82 in 2⁴⁰ are 38 or more from 0; the bound is above that, and far below 1 in 10,001."""
    found = sign_flip_p([1.0] * 39 + [-1.0], stream())
    assert 82 / 2**40 < found == pytest.approx(2 * math.exp(-(38**2) / 80))
    for seed in range(50):
        values = np.random.default_rng(seed).standard_t(2, size=12) + 1
        assert flip_bound(values) >= sign_flip_p(values.tolist(), stream())
    assert flip_bound(np.full(20, 1e300)) == pytest.approx(2 * math.exp(-10))


def test_drawn_flips_agree_with_scipy() -> None:
    values = np.random.default_rng(8).normal(0.12, 1, 150)
    expected = scipy.stats.permutation_test(
        (values,), np.sum, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(3)
    )
    assert sign_flip_p(values.tolist(), stream()) == pytest.approx(expected.pvalue, abs=0.015)


def test_many_documents_are_drawn_in_blocks() -> None:
    """30,000 differences pass the bound on memory; half of them up, half down, give no evidence."""
    assert sign_flip_p([0.5, -0.5] * 15_000, stream()) == 1.0


def test_a_pair_of_outcomes_has_newcombes_interval() -> None:
    found = difference_of(*outcomes(20, 12, 2, 16))
    assert (found.value, found.n, found.method) == (pytest.approx(0.2), 50, "newcombe")
    assert (found.low, found.high) == (pytest.approx(0.0562, abs=5e-5), pytest.approx(0.3292, abs=5e-5))
    assert mcnemar_p(12, 2) == pytest.approx(212 / 2**14)


def test_a_pair_of_measurements_has_students_interval() -> None:
    found = difference_of([1.5, 2.5, 3.5, 1.0], [0.5, 0.5, 0.5, 1.0])
    assert (found.value, found.n, found.method) == (1.5, 4, "t")
    assert sign_flip_p([1, 2, 3, 0], np.random.default_rng(0)) == 2 / 8


def test_a_pair_without_documents() -> None:
    found = difference_of([], [])
    assert (found.value, found.low, found.high, found.n) == (None, None, None, 0)
    assert mcnemar_p(0, 0) == 1.0


def test_cochran_by_hand() -> None:
    """Columns 3, 1, 1 right of 4; rows 2, 2, 1, 0: Q = 2 (3 · 11 − 25) / (3 · 5 − 9) = 8/3."""
    found = cochran_q([[1, 1, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    assert (found.q, found.degrees, found.n) == (pytest.approx(8 / 3), 2, 4)
    assert found.p == pytest.approx(math.exp(-4 / 3))  # chi-square with 2 degrees has the tail exp(−q/2)


@given(st.integers(2, 6).flatmap(lambda k: st.lists(st.lists(st.integers(0, 1), min_size=k, max_size=k), min_size=1)))
def test_cochran_agrees_with_statsmodels(documents: list[list[int]]) -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    found = cochran_q([list(column) for column in zip(*documents, strict=True)])
    if any(0 < sum(document) < len(document) for document in documents):
        expected = tables.cochrans_q(np.array(documents))
        assert (found.q, found.p) == pytest.approx((expected.statistic, expected.pvalue), abs=1e-9)
    else:
        assert (found.q, found.p) == (0.0, 1.0)


def test_cochran_of_nothing_to_compare() -> None:
    assert cochran_q([]) == CochranTest(None, 0, None, 0)
    assert cochran_q([[1, 0]]) == CochranTest(None, 0, None, 2)
    assert cochran_q([[], []]) == CochranTest(None, 1, None, 0)


def test_cochran_wants_outcomes_of_the_same_documents() -> None:
    with pytest.raises(DataError, match="method 2: values other than 0 and 1"):
        cochran_q([[1, 0], [0.5, 0]])
    with pytest.raises(DataError, match="method 2: 1 values; expected 2"):
        cochran_q([[1, 0], [1]])


def test_a_table_of_sign_flips_holds_every_pairs_p() -> None:
    generator = np.random.default_rng(3)
    base = generator.random(80)
    systems = [(base + shift + generator.normal(scale=0.3, size=80)).tolist() for shift in (0, 0, 0.05, 0.1)]
    found = sign_flip_table(systems, stream())
    for first, a in enumerate(systems):
        assert found[first][first] == 1.0
        for second, b in enumerate(systems):
            differences = [x - y for x, y in zip(a, b, strict=True)]
            assert found[first][second] == found[second][first]
            assert found[first][second] == pytest.approx(sign_flip_p(differences, stream()), abs=0.02)


def test_a_table_of_sign_flips_tries_all_where_there_are_few() -> None:
    """Differences 1, 2, 3 and no more: two of eight flips."""
    found = sign_flip_table([[1.0, 2.0, 3.0, 0.5], [0.0, 0.0, 0.0, 0.5]], stream())
    assert found == [[1.0, 0.25], [0.25, 1.0]]
    assert sign_flip_table([], stream()) == []
    assert sign_flip_table([[], []], stream()) == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(DataError, match="system 2: 1 values"):
        sign_flip_table([[1.0, 2.0], [1.0]], stream())


def test_flips_of_many_pairs_are_those_of_each_alone() -> None:
    """Pairs of any number of documents: few are flipped every way, of many the share is near."""
    generator = np.random.default_rng(7)
    pairs = [generator.normal(shift, 1, size=size) for size in (5, 12, 30, 300) for shift in (0.0, 0.2)]
    pairs.append(np.zeros(20))
    for own, p in zip(pairs, sign_flip_ps(pairs, stream()), strict=True):
        assert p == pytest.approx(sign_flip_p(own.tolist(), stream()), abs=0.0 if len(own) <= 12 else 0.02)
    assert sign_flip_ps([np.ones(40)], stream()) == [pytest.approx(2 * math.exp(-20))]
    assert sign_flip_ps([], stream()) == []


def test_thousands_of_pairs_on_documents_of_their_own_are_flipped_in_seconds() -> None:
    pairs = list(np.random.default_rng(5).normal(size=(2000, 900)))
    began = time.process_time()
    found = sign_flip_ps(pairs, stream())
    assert time.process_time() - began < 10
    assert np.mean(np.array(found) <= 0.05) == pytest.approx(0.05, abs=0.03)


def test_a_table_of_sign_flips_never_holds_zero() -> None:
    found = sign_flip_table([[1.0] * 40, [0.0] * 40], stream())
    assert found[0][1] == pytest.approx(2 * math.exp(-20))


def test_a_hundred_systems_are_compared_in_seconds() -> None:
    """1,000 documents, 4,950 pairs, under 5 s of processor time."""
    systems = np.random.default_rng(4).random((100, 1000)).tolist()
    began = time.process_time()
    found = sign_flip_table(systems, stream())
    assert time.process_time() - began < 5
    upper = np.array(found)[np.triu_indices(100, 1)]
    assert np.mean(upper <= 0.05) == pytest.approx(0.05, abs=0.03)


def test_no_p_of_mcnemar_is_0() -> None:
    """1,100 wins without a loss: 2 in 2^1100, which is too small for a float."""
    assert mcnemar_p(0, 1100) == mcnemar_mid_p(1100, 0) == sys.float_info.min
