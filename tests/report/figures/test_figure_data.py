"""What is reckoned for figures, by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from assay.report.figures.figure_data import (
    LengthPanel,
    Lengths,
    SpreadBar,
    axis_limits,
    bin_edges,
    densities,
)


def test_lengths_by_hand() -> None:
    found = Lengths.of(LengthPanel("p", [10, 12, 20], [8, 12, 10], [True, False, True], "characters"))
    assert (found.means, found.all, found.missed) == ([9, 12, 15], [2, 0, 10], [0, 2])
    assert (found.mean, found.missed_mean) == (4, 6)
    assert found.deviation == pytest.approx(math.sqrt(28))


def test_known_scores_are_finite() -> None:
    assert SpreadBar("t", "m", {"a": 0.5, "b": math.nan, "c": math.inf}).known() == {"a": 0.5}


def test_an_axis_shows_all_values_with_a_margin() -> None:
    assert axis_limits([0, 50, 100]) == pytest.approx((-4, 104))


def test_an_axis_leaves_out_what_is_far_away() -> None:
    """Quartiles 25 and 75 of 0 … 99: the fence is at 75 + 4 · 50, and nothing is below."""
    low, high = axis_limits([*range(100), 10_000])
    assert (low, high) == pytest.approx((-0.04 * 275, 275 + 0.04 * 275))


def test_an_axis_of_equal_values_has_width() -> None:
    assert axis_limits([3, 3, 3]) == (2, 4)


def test_whole_numbers_are_in_the_middle_of_their_bins() -> None:
    assert bin_edges([0.0, 1.0, 2.0], (-0.08, 2.08)) == [-1.5, -0.5, 0.5, 1.5, 2.5]


def test_halves_do_not_comb() -> None:
    """Every bin holds as many steps of one half as the next."""
    edges = bin_edges([0.5, 60.0, 100.0], (-4, 104))
    steps = [sum(low <= half / 2 < high for half in range(-8, 209)) for low, high in pairwise(edges)]
    assert set(steps[1:-1]) == {6}


def test_other_values_get_forty_bins() -> None:
    assert len(bin_edges([0.1, 0.7], (0.0, 1.0))) == 41


def test_densities_by_hand() -> None:
    """Of four values two fall into the first bin of width 2, one into the second, one beyond."""
    assert densities([0, 1, 3, 99], [0, 2, 4]) == [0.25, 0.125]
    assert densities([], [0, 2, 4]) == [0, 0]
