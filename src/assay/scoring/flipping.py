"""Sign-flip tests for all pairs of a task and metric at once.

In: matched systems. Out: the test by pair, of those pairs that it judges.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.core.comparisons import CompareWish
from assay.scoring.matching import Matched, cluster_sums
from assay.stats.flips import FlipTest, flip_table, flip_test, flip_tests

# Fewer pairs than this are flipped one by one.
_FEW_PAIRS = 3


def pair_flips(matches: Sequence[Matched], wish: CompareWish) -> dict[int, FlipTest]:
    """The test of each pair, by the match's id: for many pairs one draw of flips serves all."""
    if wish.test == "bootstrap":
        return {}
    wanted = [match for match in matches if len(match.mine) and _is_flipped(match, wish)]
    found, rest = _of_tables(wanted, wish)
    parts = [match.flipped_parts for match in rest]
    if len(rest) <= _FEW_PAIRS:
        tests = [flip_test(*own, np.random.default_rng(wish.seed), most_alpha(wish)) for own in parts]
    else:
        tests = flip_tests(parts, np.random.default_rng(wish.seed), most_alpha(wish))
    return found | {id(match): test for match, test in zip(rest, tests, strict=True)}


def most_alpha(wish: CompareWish) -> float:
    """The narrowest interval that is asked for is that of a margin, 1 − 2α."""
    return min(1.0, 2 * wish.alpha)


def _is_flipped(match: Matched, wish: CompareWish) -> bool:
    """Whether signs can be flipped, and no test of outcomes fits better."""
    if wish.test != "permutation" and match.clusters is None and match.is_binary:
        return False
    sides = match.addends
    return sides is not None and bool(np.all(np.isfinite(sides)))


def _of_tables(matches: Sequence[Matched], wish: CompareWish) -> tuple[dict[int, FlipTest], list[Matched]]:
    """The tests of pairs that have all documents, many of them alike, and the pairs that are left."""
    groups: dict[object, list[Matched]] = {}
    for match in matches:
        is_alike = isinstance(match.mine, range) and match.first.documents_key == match.second.documents_key
        groups.setdefault((match.first.documents_key, _lengths(match)) if is_alike else None, []).append(match)
    rest, found = groups.pop(None, []), {}
    for own in groups.values():
        if len(own) <= _FEW_PAIRS:
            rest += own
        else:
            found.update(_table(own, wish))
    return found, rest


def _lengths(match: Matched) -> bytes | None:
    return None if match.lengths is None else match.lengths.tobytes()


def _table(matches: Sequence[Matched], wish: CompareWish) -> dict[int, FlipTest]:
    """The tests of pairs of systems that all have the same documents in the same order."""
    entries = {id(entry): entry for match in matches for entry in (match.first, match.second)}
    units, (_, weights) = matches[0].units, matches[0].flipped_parts
    values = [entry.addends for entry in entries.values()]
    # A cluster's documents turn together: as many signs as clusters, of their sums.
    rows = [own if units is None else cluster_sums(units, own) for own in values if own is not None]
    order = {name: place for place, name in enumerate(entries)}
    pairs = [(order[id(match.first)], order[id(match.second)]) for match in matches]
    tests = flip_table(rows, weights, pairs, np.random.default_rng(wish.seed), most_alpha(wish))
    return {id(match): test for match, test in zip(matches, tests, strict=True)}
