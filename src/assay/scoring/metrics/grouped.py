"""Exact match and F1 over groups of rows, each group counted once.

In: per row its group and its outcome. Out: the mean over groups, with groups (or clusters of groups) as the units of the
standard error. MultiRC's EM (Khashabi et al. 2018), MC-TACO's strict accuracy and F1 (Zhou et al. 2019), ETHICS's exact
match (Hendrycks et al. 2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from assay.core.scores import Estimate
from assay.stats import means

# The rows of one group without the group → its score.
GroupScore = Callable[[Sequence[Sequence[float]]], float]


def all_right(rows: Sequence[Sequence[float]]) -> float:
    """Whether every row of a group is right."""
    return float(all(row[0] for row in rows))


def label_f1(rows: Sequence[Sequence[float]]) -> float:
    """F1 of label 1 in a group. As in MC-TACO's evaluator, precision without predictions and recall without right rows
    are 1."""
    right, predicted = sum(row[0] == 1 for row in rows), sum(row[1] == 1 for row in rows)
    hits = sum(row[0] == row[1] == 1 for row in rows)
    precision, recall = hits / predicted if predicted else 1.0, hits / right if right else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def scores_of_groups(values: Sequence[Sequence[float]], score: GroupScore) -> tuple[list[float], list[int]]:
    """The score of each group, in order of first rows, and the index of its first row."""
    rows: dict[float, list[Sequence[float]]] = {}
    first: dict[float, int] = {}
    for index, (group, *outcome) in enumerate(values):
        rows.setdefault(group, []).append(outcome)
        first.setdefault(group, index)
    return [score(own) for own in rows.values()], list(first.values())


def estimate(values: Sequence[Sequence[float]], score: GroupScore) -> Estimate:
    """The mean over groups; n is the number of groups."""
    return means.mean_estimate(scores_of_groups(values, score)[0])


def clustered_estimate(values: Sequence[Sequence[float]], clusters: Sequence[str], score: GroupScore) -> Estimate:
    """The same with clusters of groups; a group belongs to the cluster of its first row."""
    from assay.stats.clustered import clustered_mean

    scores, first = scores_of_groups(values, score)
    if not all(map(math.isfinite, scores)):
        return means.mean_estimate(scores)
    return clustered_mean(scores, [clusters[index] for index in first]).estimate
