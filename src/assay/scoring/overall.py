"""Two systems over several tasks, every task counted once: the mean difference, its interval, sign flips of it all.

A task that is asked in several ways (seeds, orders, prompts, styles) has the same documents in all of them: what a
document adds to the difference in all ways is one number, whose sign turns as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from assay.core.comparisons import CompareWish, OverallScore
from assay.core.scores import Estimate
from assay.core.variance_axes import task_family
from assay.scoring.comparing import Compared
from assay.scoring.verdicts import corrected, direction, overall_sentence
from assay.stats.means import LEVEL, t_quantile
from assay.stats.paired import sign_flip_p, sign_flip_ps, sign_flip_table
from assay.stats.pooled import group_estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

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
    estimates = [_estimate(items) for items in several.values()]
    p_values = _table(several, wish.seed) or _ps(list(several.values()), wish.seed)
    adjusted = corrected(p_values, wish.correction)
    found = []
    for (pair, items), estimate, p, after in zip(several.items(), estimates, p_values, adjusted, strict=True):
        outcome = direction(estimate.value, after, True, wish.alpha)
        tasks = tuple(item.score.task for item in items)
        whole = OverallScore(*pair, tasks, estimate, p, after, outcome, "")
        found.append(replace(whole, verdict=overall_sentence(whole, wish, len(several))))
    return found


def _families(items: Sequence[Compared]) -> list[list[Compared]]:
    """The tasks, those together that ask the same documents in several ways."""
    found: dict[str, list[Compared]] = {}
    for item in items:
        found.setdefault(task_family(item.score.task), []).append(item)
    return list(found.values())


def _estimate(items: Sequence[Compared]) -> Estimate:
    families = _families(items)
    leaves = [own[0].score.difference if len(own) == 1 else _family_estimate(own) for own in families]
    whole = group_estimate(leaves, [len(own) for own in families], by_size=True)
    return replace(whole, n=sum(leaf.n for leaf in leaves))


def _family_estimate(items: Sequence[Compared]) -> Estimate:
    """The mean over the ways of asking, with the error that documents, or their clusters, leave of it."""
    cells = [item.score.difference for item in items]
    value = math.fsum(cell.value or 0.0 for cell in cells) / len(cells)
    documents = len({document for item in items for document in item.documents})
    sums = _by_document(items, is_centred=True)
    count = len(sums)
    error = math.sqrt(count / (count - 1) * math.fsum(own * own for own in sums.values())) if count > 1 else None
    clusters = count if any(item.clusters is not None for item in items) else None
    if error:
        below = above = t_quantile(count - 1) * error
    elif any(cell.low is None or cell.high is None for cell in cells):
        return Estimate(value, error, None, None, documents, "group", LEVEL, clusters)
    else:  # no document differs from another, but others might: what a single way can say
        below = math.fsum((cell.value or 0.0) - (cell.low or 0.0) for cell in cells) / len(cells)
        above = math.fsum((cell.high or 0.0) - (cell.value or 0.0) for cell in cells) / len(cells)
    return Estimate(
        value, error, max(-1.0, value - below), min(1.0, value + above), documents, "paired-t", LEVEL, clusters
    )


def _by_document(items: Sequence[Compared], is_centred: bool = False) -> dict[Hashable, float]:
    """What each document, or cluster, adds to the mean difference over these tasks; or to its error, centred."""
    sums: dict[Hashable, float] = {}
    for item in items:
        assert item.differences is not None
        middle = float(item.differences.mean()) if is_centred else 0.0
        family, units = task_family(item.score.task), item.clusters or item.documents
        for unit, gap in zip(units, item.differences.tolist(), strict=True):
            sums[family, unit] = sums.get((family, unit), 0.0) + (gap - middle) / (len(items) * item.score.n)
    return sums


def _added(items: Sequence[Compared]) -> Floats:
    """The same as an array, quickly where no two tasks share documents."""
    import numpy as np

    if any(item.clusters is not None for item in items) or len(_families(items)) < len(items):
        return np.array(list(_by_document(items).values()))
    parts = [(item.differences, len(items) * item.score.n) for item in items]
    return np.concatenate([own / weight for own, weight in parts if own is not None])


def _ps(pairs: Sequence[Sequence[Compared]], seed: int) -> list[float]:
    """Sign flips over all documents, each weighed so that every task counts once."""
    import numpy as np

    every = [_added(items) for items in pairs]
    if len(pairs) <= _FEW_PAIRS:
        return [sign_flip_p(own.tolist(), np.random.default_rng(seed)) for own in every]
    return sign_flip_ps(every, np.random.default_rng(seed))


def _share_clusters(pairs: Sequence[Sequence[Compared]]) -> bool:
    """Whether all pairs have the same clusters in each task, or none."""
    return all(
        (item.clusters and tuple(item.clusters)) == (first.clusters and tuple(first.clusters))
        for items in pairs
        for item, first in zip(items, pairs[0], strict=True)
    )


def _table(several: Mapping[tuple[str, str], Sequence[Compared]], seed: int) -> list[float]:
    """The same for many pairs on the same documents, by one draw of flips; empty where that does not apply."""
    every = [item for items in several.values() for item in items]
    sizes = {tuple((item.score.task, item.score.n) for item in items) for items in several.values()}
    is_partial = any(any(item.score.left_out) for item in every)
    if len(several) <= _FEW_PAIRS or len(sizes) != 1 or is_partial or not _share_clusters(list(several.values())):
        return []
    import numpy as np

    base = next(iter(several))[0]
    # Every system less the first: their differences are those of the systems themselves.
    rows = {pair[1]: _added(items).tolist() for pair, items in several.items() if pair[0] == base}
    rows = {base: [0.0] * len(next(iter(rows.values()))), **rows}
    if not all(label in rows for pair in several for label in pair):
        return []
    order = {label: place for place, label in enumerate(rows)}
    found = sign_flip_table(list(rows.values()), np.random.default_rng(seed))
    return [found[order[first]][order[second]] for first, second in several]
