"""Two systems over several tasks, every task counted once: the mean difference, its interval, sign flips of it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.core.comparisons import CompareWish, OverallScore
from assay.scoring.comparing import Compared, gaps_of
from assay.scoring.verdicts import corrected, direction, overall_sentence
from assay.stats.paired import sign_flip_table
from assay.stats.pooled import group_estimate
from assay.stats.ranking import macro_test

# More pairs than this share one draw of sign flips.
_FEW_PAIRS = 3


def overall_scores(wish: CompareWish, columns: Sequence[Sequence[Compared]]) -> list[OverallScore]:
    """Per pair, the mean difference over the tasks whose scores are shares, every task counted once."""
    gathered: dict[tuple[str, str], list[Compared]] = {}
    for own in columns:
        for item in own:
            score = item.score
            if score.is_share and score.higher_is_better and score.n:
                gathered.setdefault((score.first, score.second), []).append(item)
    several = {pair: items for pair, items in gathered.items() if len(items) > 1}
    estimates = [
        group_estimate([item.score.difference for item in items], [item.score.n for item in items], by_size=False)
        for items in several.values()
    ]
    p_values = _table(several, wish.seed) or [_p(items, wish.seed) for items in several.values()]
    adjusted = corrected(p_values, wish.correction)
    found = []
    for (pair, items), estimate, p, after in zip(several.items(), estimates, p_values, adjusted, strict=True):
        outcome = direction(estimate.value, after, True, wish.alpha)
        tasks = tuple(item.score.task for item in items)
        whole = OverallScore(*pair, tasks, estimate, p, after, outcome, "")
        found.append(replace(whole, verdict=overall_sentence(whole, wish, len(several))))
    return found


def _p(items: Sequence[Compared], seed: int) -> float:
    """Sign flips over all documents, each weighed so that every task counts once."""
    weighed = [[gap / item.score.n for gap in gaps_of(item)] for item in items]
    return macro_test([[gap * len(column) for gap in column] for column in weighed], seed)[1]


def _table(several: Mapping[tuple[str, str], Sequence[Compared]], seed: int) -> list[float]:
    """The same for many pairs on the same documents, by one draw of flips; empty where that does not apply."""
    every = [item for items in several.values() for item in items]
    sizes = {tuple((item.score.task, item.score.n) for item in items) for items in several.values()}
    is_partial = any(any(item.score.left_out) or item.clusters is not None for item in every)
    if len(several) <= _FEW_PAIRS or len(sizes) != 1 or is_partial:
        return []
    import numpy as np

    base = next(iter(several))[0]
    # Every system less the first: their differences are those of the systems themselves.
    rows = {
        pair[1]: [gap / item.score.n for item in items for gap in gaps_of(item)]
        for pair, items in several.items()
        if pair[0] == base
    }
    rows = {base: [0.0] * len(next(iter(rows.values()))), **rows}
    if not all(label in rows for pair in several for label in pair):
        return []
    order = {label: place for place, label in enumerate(rows)}
    found = sign_flip_table(list(rows.values()), np.random.default_rng(seed))
    return [found[order[first]][order[second]] for first, second in several]
