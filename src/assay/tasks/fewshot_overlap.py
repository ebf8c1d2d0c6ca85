"""Documents that are drawn as their own few-shot examples: detected by content, replaced, counted.

Takes any sampler and the documents, gives a sampler that shows another example in place of the document. All other
documents have exactly the examples of the original sampler.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.errors import DataError, Fault
from assay.core.plural import plural, verb
from assay.tasks.fewshot import Row, Sampler, SamplerSettings

# Notes of an instance: its prompt shows the document with its answer; another example replaces the document.
SHOWN, REPLACED = "own_example_shown", "own_example_replaced"


def is_same(row: Any, document: Any) -> bool:
    """Whether a row has the content of a document. Rows that cannot be compared, such as arrays, differ."""
    try:
        return row is document or bool(row == document)
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class LeakPolicy:
    """Policy for a document that is drawn as its own example.

    Attributes:
        replaces: whether another example is shown in its place; lm-eval shows the document.
        is_own_split: whether the pool is the evaluated split. If so, too few other rows are an error, as for every
            sampler. Otherwise a pool without a spare row is shown unchanged, and counted.
        in_order: whether the next row of the pool replaces it, rather than a random one.
        by_index: whether the row at the document's own index also counts as the document, whatever its content: the
            same split, processed by other code for the examples.
    """

    replaces: bool
    is_own_split: bool
    in_order: bool = False
    by_index: bool = False


class CheckedSampler:
    """Examples of another sampler, without the document itself.

    The replacement comes from the rows that were not drawn: the next one for a sampler that takes the first rows,
    else `Random(f"{seed}:{index}").sample(others, missing)`. It comes after the remaining examples.

    Args:
        inner: sampler of the examples.
        pool: the rows that it draws from.
        settings: its settings.
        leak_policy: policy for a document that is drawn as its own example.
    """

    def __init__(self, inner: Sampler, pool: Sequence[Row], settings: SamplerSettings, leak_policy: LeakPolicy) -> None:
        self._inner = inner
        self._pool = pool
        self._settings = settings
        self._leak_policy = leak_policy
        self._seed = random.SystemRandom().getrandbits(32) if settings.seed is None else settings.seed
        # A document's examples are requested several times in succession.
        self._last: tuple[int, tuple[int, ...], tuple[str, ...]] = (-1, (), ())

    def places(self, document_id: int) -> tuple[int, ...]:
        return self._checked(document_id)[1]

    def notes(self, document_id: int) -> tuple[str, ...]:
        """Notes on the examples of a document: `SHOWN`, `REPLACED` or none."""
        return self._checked(document_id)[2]

    def _checked(self, document_id: int) -> tuple[int, tuple[int, ...], tuple[str, ...]]:
        if self._last[0] != document_id:
            drawn = self._inner.places(document_id)
            if self._is_among(document_id, drawn):
                self._last = (document_id, *self._replaced(document_id, drawn))
            else:
                self._last = (document_id, drawn, ())
        return self._last

    def _is_among(self, document_id: int, drawn: tuple[int, ...]) -> bool:
        """Whether a document is drawn as its own example. Compares all rows in one step, for speed."""
        if self._leak_policy.by_index and document_id in drawn:
            return True
        document, rows = self._settings.document(document_id), [self._pool[index] for index in drawn]
        try:
            return document in rows
        except (TypeError, ValueError):
            return any(is_same(row, document) for row in rows)

    def _replaced(self, document_id: int, drawn: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        if not self._leak_policy.replaces:
            return drawn, (SHOWN,)
        document, own = self._settings.document(document_id), document_id if self._leak_policy.by_index else None
        kept = [index for index in drawn if index != own and not is_same(self._pool[index], document)]
        missing = len(drawn) - len(kept)
        rng = None if self._leak_policy.in_order else random.Random(f"{self._seed}:{document_id}")
        taken = (*drawn, document_id) if self._leak_policy.by_index else drawn
        others = other_indices(self._pool, taken, document, missing, rng)
        if others is not None:
            return (*kept, *others), (REPLACED,)
        if self._leak_policy.is_own_split:
            raise _too_few(self._settings, sum(not is_same(row, document) for row in self._pool))
        return drawn, (SHOWN,)


def _too_few(settings: SamplerSettings, size: int) -> DataError:
    """The error for a split with too few rows besides the document."""
    needed = f"{plural(settings.count, 'few-shot example')} {verb(settings.count, 'is', 'are')} needed"
    found = f"{needed}, but the split has {plural(size, 'row')} besides the document itself"
    advice = "Lower --num_fewshot or name a larger fewshot_split; --like lm-eval shows the document among its examples"
    return DataError(Fault(settings.where, found, next=advice))


def other_indices(
    pool: Sequence[Row], drawn: Sequence[int], document: Row, count: int, rng: random.Random | None
) -> list[int] | None:
    """Indices of rows that were not drawn and are not the document; None if there are too few.

    Args:
        pool: the rows.
        drawn: indices that are taken.
        document: the document.
        count: how many rows.
        rng: random generator that draws them; None for the first ones.
    """
    taken = set(drawn)
    free = [index for index, row in enumerate(pool) if index not in taken and not is_same(row, document)]
    if len(free) < count:
        return None
    return free[:count] if rng is None else rng.sample(free, count)
