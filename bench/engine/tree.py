"""The least that a scoring engine must forward, counted from the token ids alone and knowing no engine.

In: what the model must read for each request, and from where on its logits are needed. Out: the nodes of the
prefix tree over all inputs (equal inputs once), the rows of logits, and the query × key pairs of one layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Read:
    """What a model reads for one request.

    Attributes:
        ids: the inputs: everything but the last token, which is only predicted.
        first_row: the first place whose logits are needed; all later ones are too.
    """

    ids: tuple[int, ...]
    first_row: int


@dataclass(frozen=True, slots=True)
class Least:
    """The least work for a set of requests.

    Attributes:
        tokens: nodes of the prefix tree.
        rows: nodes whose logits are needed.
        pairs: query × key pairs of one attention layer.
        plain: tokens without any sharing but that of equal inputs, as lm-eval's own cache has it.
        inputs: distinct inputs.
        longest: the longest of them.
    """

    tokens: int
    rows: int
    pairs: int
    plain: int
    inputs: int
    longest: int


def scored_read(context: Sequence[int], scored: Sequence[int], most: int) -> Read:
    """A scoring request: cut from the left to what the model takes, without the last token."""
    ids = tuple([*context, *scored][-(most + 1) :][:-1])
    return Read(ids, len(ids) - len(scored))


def least_work(reads: Iterable[Read]) -> Least:
    """Sorted, each input shares with its predecessor all that it shares with any before it."""
    ordered = sorted(reads, key=lambda read: read.ids)
    tokens = rows = pairs = plain = inputs = 0
    before: tuple[int, ...] = ()
    is_read: list[bool] = []
    for read in ordered:
        shared = common_prefix(before, read.ids)
        new = len(read.ids) - shared
        tokens += new
        plain += len(read.ids) if new else 0
        inputs += bool(new)
        pairs += sum(range(shared + 1, len(read.ids) + 1))
        is_read = is_read[:shared] + [False] * new
        for place in range(read.first_row, len(read.ids)):
            rows += not is_read[place]
            is_read[place] = True
        before = read.ids
    return Least(tokens, rows, pairs, plain, inputs, max((len(read.ids) for read in ordered), default=0))


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many ids two inputs share from the start."""
    most = min(len(left), len(right))
    for place in range(most):
        if left[place] != right[place]:
            return place
    return most
