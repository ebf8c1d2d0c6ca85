"""Adjusted p-values by hand and against statsmodels."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.stats.multiple_testing import benjamini_hochberg, benjamini_hochberg_levels, holm, holm_levels

P_VALUES = st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.05]), min_size=1, max_size=30)


def test_holm_by_hand() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


def test_benjamini_hochberg_by_hand() -> None:
    """3/1 · .01, 3/2 · .03 = .045, 3/3 · .04 = .04: the second is no larger than the third."""
    assert benjamini_hochberg([0.04, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])
    assert benjamini_hochberg([]) == []


@pytest.fixture(scope="module")
def fast_collection() -> Iterator[None]:
    """`multipletests` collects garbage at every call, which takes a second each with all of a test run in memory."""
    pytest.importorskip("statsmodels.stats.multitest")
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("fast_collection")
@given(P_VALUES)
def test_adjustments_agree_with_statsmodels(values: list[float]) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    assert holm(values) == pytest.approx(multitest.multipletests(values, method="holm")[1].tolist(), abs=1e-12)
    expected = multitest.multipletests(values, method="fdr_bh")[1].tolist()
    assert benjamini_hochberg(values) == pytest.approx(expected, abs=1e-12)


@given(P_VALUES)
def test_adjusted_values_keep_order_and_ties_and_never_fall_below(values: list[float]) -> None:
    for adjust in (holm, benjamini_hochberg):
        adjusted = adjust(values)
        assert all(p <= q + 1e-15 and q <= 1 for p, q in zip(values, adjusted, strict=True))
        ranked = [q for _, q in sorted(zip(values, adjusted, strict=True))]
        assert ranked == sorted(ranked)
        assert len(set(zip(values, adjusted, strict=True))) == len(set(values))


def test_a_missing_p_value_stays_missing_and_does_not_count() -> None:
    assert holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]
    assert benjamini_hochberg([0.01, None, 0.04]) == [0.02, None, 0.04]
    assert holm([None]) == [None]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_what_is_not_a_probability_is_refused(wrong: float) -> None:
    with pytest.raises(DataError, match="p-value 1"):
        holm([0.5, wrong])


@example([0.03125, 0.03125, 0.03125])  # 0.05 · 3 / 3 is more than 0.05
@given(st.lists(st.one_of(st.none(), st.floats(1e-6, 1), st.sampled_from([0.001, 0.01, 0.02])), max_size=12))
def test_every_test_is_rejected_exactly_when_p_is_below_the_level_at_which_it_is_tested(ps: list[float | None]) -> None:
    for adjust, levels in ((holm, holm_levels), (benjamini_hochberg, benjamini_hochberg_levels)):
        for p, adjusted, level in zip(ps, adjust(ps), levels(ps, 0.05), strict=True):
            assert 0 < level <= 0.05
            if p is not None and adjusted is not None and abs(p - level) > 1e-12:
                assert (adjusted < 0.05) == (p < level)


def test_the_levels_of_holm_by_hand() -> None:
    """Two of four are rejected, at 0.05/4 and 0.05/3; the procedure stops at 0.05/2."""
    levels = holm_levels([0.04, 0.001, None, 0.03, 0.012], 0.05)
    assert levels == pytest.approx([0.05 / 2, 0.05 / 4, 0.05, 0.05 / 2, 0.05 / 3])
    assert benjamini_hochberg_levels([0.9, 0.001, 0.8, 0.02], 0.05) == pytest.approx([0.05 * 2 / 4] * 4)
    assert holm_levels([], 0.05) == [] == benjamini_hochberg_levels([], 0.05)
