"""Systems over several tasks, every task counted once."""

from __future__ import annotations

from itertools import combinations

import pytest

from assay.core.comparisons import CompareWish, DocumentValues
from assay.scoring.comparing import Compared, Entry, compare_all, matched
from assay.scoring.overall import overall_scores

# On two documents x wins both; on four it loses two.
BASE, X = ([0, 0], [1, 1, 0, 0]), ([1, 1], [0, 0, 0, 0])


def column(task: str, values: dict[str, list[int]], clusters: tuple[str, ...] | None = None) -> list[Compared]:
    entries = [
        Entry(label, DocumentValues(task, "acc", "none", "mean", tuple(range(len(own))), tuple(own), clusters))
        for label, own in values.items()
    ]
    return compare_all([matched(one, other) for one, other in combinations(entries, 2)], True, CompareWish())


def test_every_task_counts_once() -> None:
    columns = [column(str(place), {"base": BASE[place], "x": X[place]}) for place in (0, 1)]
    (found,) = overall_scores(CompareWish(), columns)
    assert (found.first, found.second, found.tasks) == ("base", "x", ("0", "1"))
    assert found.difference.value == pytest.approx((1 - 0.5) / 2)
    # Gaps of ½, ½, −¼, −¼: of 16 ways to sign them, 12 sum to ½ or more either way.
    assert found.p == pytest.approx(12 / 16)


def test_many_pairs_have_the_same_p() -> None:
    columns = [
        column(str(place), {"base": BASE[place], "x": X[place], "y": BASE[place], "z": X[place]}) for place in (0, 1)
    ]
    found = {(score.first, score.second): score.p for score in overall_scores(CompareWish(), columns)}
    assert found["base", "x"] == pytest.approx(12 / 16) and found["x", "y"] == pytest.approx(12 / 16)
    assert found["x", "z"] == 1.0


def test_clusters_turn_together() -> None:
    first = column("0", {"base": BASE[0], "x": X[0]}, ("p", "p"))
    second = column("1", {"base": BASE[1], "x": X[1]}, ("p", "p", "q", "q"))
    (found,) = overall_scores(CompareWish(), [first, second])
    # Two clusters with a gap, 1 and −½: their difference is the smallest sum there is.
    assert found.p == 1.0


def test_one_task_has_no_mean() -> None:
    assert overall_scores(CompareWish(), [column("0", {"base": BASE[0], "x": X[0]})]) == []
