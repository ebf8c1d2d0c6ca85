"""Systems over several tasks, every task counted once."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from assay.core.comparisons import CompareWish, DocumentValues
from assay.scoring.comparing import Compared, compare_all
from assay.scoring.matching import Entry, matched
from assay.scoring.overall import overall_scores
from assay.stats.means import standard_error
from assay.stats.paired import sign_flip_p

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


def test_ways_of_asking_the_same_documents_are_no_more_documents() -> None:
    """A task in three seeds, always answered alike, says what one of them says."""
    base, x = [0, 0, 1, 0, 1, 0, 0, 1], [1, 1, 1, 0, 0, 1, 1, 1]
    names = ("t@asked#seed=1", "t@asked#seed=2", "t@told#seed=1")
    (found,) = overall_scores(CompareWish(), [column(name, {"base": base, "x": x}) for name in names])
    gaps = [second - first for first, second in zip(base, x, strict=True)]
    assert found.p == pytest.approx(sign_flip_p(gaps, np.random.default_rng(0)))
    assert (found.difference.stderr, found.difference.n) == (pytest.approx(standard_error(gaps)), 8)
    assert found.tasks == names


def test_ways_of_asking_and_other_tasks_are_added_up() -> None:
    """Gaps of 1, 0 and 0, 1 in two ways of asking are ½, ½; with a task of its own that has 1, 1."""
    ways = [column(f"t#seed={place}", {"base": [0, 0], "x": own}) for place, own in ((1, [1, 0]), (2, [0, 1]))]
    (found,) = overall_scores(CompareWish(), [*ways, column("u", {"base": [0, 0], "x": [1, 1]})])
    assert (found.difference.value, found.difference.n) == (pytest.approx((0.5 + 0.5 + 1) / 3), 4)
    assert found.p == pytest.approx(2 / 16)
    assert found.verdict.startswith("Over 2 tasks in 3 ways of asking, each way counted once, no difference was found")


def test_ways_of_asking_without_any_difference_keep_an_interval() -> None:
    same = {"base": [1, 0, 1], "x": [1, 0, 1]}
    (found,) = overall_scores(CompareWish(), [column(f"t#order={place}", same) for place in (1, 2)])
    alone = column("t", same)[0].score.difference
    assert (found.difference.low, found.difference.high) == pytest.approx((alone.low, alone.high))
