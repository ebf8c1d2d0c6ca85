"""Paired sign-flip permutation tests for all pairs of a task and metric at once.

In: matched pairs. Out: the test of each pair to which it applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from assay.studies.paired.matching import MatchedPair, cluster_sums
from assay.studies.paired.paired_values import CompareOptions

if TYPE_CHECKING:
    from assay.stats.sign_flip import SignFlipTest

# Up to this many pairs are tested one by one.
_FEW_PAIRS = 3


def sign_flip_pairs(matches: Sequence[MatchedPair], options: CompareOptions) -> dict[int, SignFlipTest]:
    """The test of each pair, by the match's id: for many pairs, one draw of flips serves all."""
    if options.test == "bootstrap":
        return {}
    wanted = [match for match in matches if len(match.mine) and _uses_sign_flips(match, options)]
    if not wanted:  # outcomes of 0 and 1 without clusters
        return {}
    from assay.stats.sign_flip import sign_flip_test, sign_flip_tests

    found, rest = _table_tests(wanted, options)
    parts = [match.differences_and_weights for match in rest]
    if len(rest) <= _FEW_PAIRS:
        tests = [sign_flip_test(*own, np.random.default_rng(options.seed), max_alpha(options)) for own in parts]
    else:
        tests = sign_flip_tests(parts, np.random.default_rng(options.seed), max_alpha(options))
    return found | {id(match): test for match, test in zip(rest, tests, strict=True)}


def max_alpha(options: CompareOptions) -> float:
    """The largest α of any interval needed: that of a margin has level 1 − 2α."""
    return min(1.0, 2 * options.alpha)


def _uses_sign_flips(match: MatchedPair, options: CompareOptions) -> bool:
    """Whether the sign-flip test applies, and McNemar's test is not preferred."""
    if options.test != "permutation" and match.clusters is None and match.is_binary:
        return False
    addends = match.addends
    return addends is not None and bool(np.all(np.isfinite(addends)))


def _table_tests(
    matches: Sequence[MatchedPair], options: CompareOptions
) -> tuple[dict[int, SignFlipTest], list[MatchedPair]]:
    """The tests of pairs on all documents, for groups of many pairs with equal documents; and the remaining pairs."""
    groups: dict[object, list[MatchedPair]] = {}
    for match in matches:
        is_alike = isinstance(match.mine, range) and match.first.documents_key == match.second.documents_key
        groups.setdefault((match.first.documents_key, _lengths(match)) if is_alike else None, []).append(match)
    rest, found = groups.pop(None, []), {}
    for own in groups.values():
        if len(own) <= _FEW_PAIRS:
            rest += own
        else:
            found.update(_table(own, options))
    return found, rest


def _lengths(match: MatchedPair) -> bytes | None:
    return None if match.lengths is None else match.lengths.tobytes()


def _table(matches: Sequence[MatchedPair], options: CompareOptions) -> dict[int, SignFlipTest]:
    """The tests of pairs of systems that all have the same documents in the same order."""
    from assay.stats.sign_flip import sign_flip_table

    entries = {id(entry): entry for match in matches for entry in (match.first, match.second)}
    units, (_, weights) = matches[0].units, matches[0].differences_and_weights
    values = [entry.addends for entry in entries.values()]
    # The documents of a cluster are flipped together: one sign per cluster, applied to its sum.
    rows = [own if units is None else cluster_sums(units, own) for own in values if own is not None]
    order = {name: place for place, name in enumerate(entries)}
    pairs = [(order[id(match.first)], order[id(match.second)]) for match in matches]
    tests = sign_flip_table(rows, weights, pairs, np.random.default_rng(options.seed), max_alpha(options))
    return {id(match): test for match, test in zip(matches, tests, strict=True)}
