"""The p of flipped signs, for all pairs of a task and metric at once: what documents add changes sides by fair coins.

In: matched systems. Out: p by pair, of those pairs for which it is the test.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.core.comparisons import CompareWish
from assay.scoring.matching import Matched
from assay.stats import paired

# Fewer pairs than this are flipped one by one.
_FEW_PAIRS = 3


def flip_ps(matches: Sequence[Matched], wish: CompareWish) -> dict[int, float]:
    """The p of each pair, by the match's id: for many pairs one draw of flips serves all."""
    if wish.test == "bootstrap":
        return {}
    wanted = [match for match in matches if len(match.mine) and _is_flipped(match, wish)]
    found, rest = _of_tables(wanted, wish)
    sums = [_sums(match) for match in rest]
    if len(rest) <= _FEW_PAIRS:
        ps = [paired.sign_flip_p(own.tolist(), np.random.default_rng(wish.seed)) for own in sums]
    else:
        ps = paired.sign_flip_ps(sums, np.random.default_rng(wish.seed))
    return found | {id(match): p for match, p in zip(rest, ps, strict=True)}


def _is_flipped(match: Matched, wish: CompareWish) -> bool:
    """Whether signs can be flipped, and no test of outcomes fits better."""
    if wish.test != "permutation" and match.clusters is None and match.is_binary:
        return False
    sides = match.addends
    return sides is not None and bool(np.all(np.isfinite(sides)))


def _of_tables(matches: Sequence[Matched], wish: CompareWish) -> tuple[dict[int, float], list[Matched]]:
    """The p of pairs that have all documents, many of them alike, and the pairs that are left."""
    groups: dict[object, list[Matched]] = {}
    for match in matches:
        is_alike = isinstance(match.mine, range) and match.first.documents_key == match.second.documents_key
        groups.setdefault(match.first.documents_key if is_alike else None, []).append(match)
    rest, found = groups.pop(None, []), {}
    for own in groups.values():
        if len(own) <= _FEW_PAIRS:
            rest += own
        else:
            found.update(_table(own, wish))
    return found, rest


def _table(matches: Sequence[Matched], wish: CompareWish) -> dict[int, float]:
    """The p of pairs of systems that all have the same documents in the same order."""
    entries = {id(entry): entry for match in matches for entry in (match.first, match.second)}
    units = matches[0].units
    values = [entry.addends for entry in entries.values()]
    # A cluster's documents turn together: as many signs as clusters, of their sums.
    rows = [(own if units is None else np.bincount(units, own)).tolist() for own in values if own is not None]
    order = {name: place for place, name in enumerate(entries)}
    table = paired.sign_flip_table(rows, np.random.default_rng(wish.seed))
    return {id(match): table[order[id(match.second)]][order[id(match.first)]] for match in matches}


def _sums(match: Matched) -> NDArray[np.float64]:
    """What turns together: a document's difference, or a cluster's."""
    gaps, units = match.gaps, match.units
    assert gaps is not None
    return gaps if units is None else np.asarray(np.bincount(units, gaps), dtype=np.float64)
