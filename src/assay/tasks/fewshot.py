"""Few-shot samplers: which examples precede a document, as a pure function of seed and document index.

lm-eval draws from one generator per task, document by document in order. The draws here are the
same, but stored by document index, so that neither a limit nor a resumed or shuffled run changes them.
docs/fewshot.md gives the formula of every sampler.
"""

from __future__ import annotations

import math
import random
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol

from assay.core.errors import DataError, Fault, did_you_mean
from assay.core.plural import plural, verb

Row = Mapping[str, Any]
# The right answer of a row as text; None if it has none.
FewshotLabel = Callable[[Row], "str | None"]
_WORDS_AT_ONCE = 4096

DEFAULT, FIRST, FIXED, PER_DOCUMENT, CATWALK, BALANCED = SAMPLERS = (
    "default",
    "first_n",
    "fixed",
    "per_document",
    "catwalk",
    "balanced",
)
# Samplers of lm-eval; in task files, its rule decides whether a document may be its own example.
LM_EVAL_SAMPLERS = (DEFAULT, FIRST)


def sampler_fault(name: str, where: str) -> Fault | None:
    """Fault of an unknown sampler name; None for a known one."""
    if name in SAMPLERS:
        return None
    return Fault(where, f'unknown sampler "{name}"{did_you_mean(name, SAMPLERS)}', "one of " + ", ".join(SAMPLERS))


class Sampler(Protocol):
    """Chooses examples."""

    def places(self, document_id: int) -> tuple[int, ...]:
        """Pool indices of the examples for a document, in prompt order."""
        ...


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """Settings of a sampler.

    Attributes:
        count: examples per document.
        seed: seed of the random generator; None for a nondeterministic one.
        excluded: index → document that must not be its own example; None if it may be.
        where: the task, for errors.
        document: index → document, whether or not it must be excluded.
        order: indices of the documents that lm-eval draws for, in order; None for all, from the first on.
    """

    count: int
    seed: int | None
    excluded: Callable[[int], Row] | None
    where: str
    document: Callable[[int], Row]
    order: Sequence[int] | None = None


def make_sampler(
    name: str, pool: Sequence[Row], settings: SamplerSettings, label: Callable[[Row], str | None] | None = None
) -> Sampler:
    """The sampler of a name in `SAMPLERS`; `balanced` needs the right answer of a row."""
    count, seed, excluded, where = settings.count, settings.seed, settings.excluded, settings.where
    if name == BALANCED:
        assert label is not None, "a balanced sampler is made with labels"
        return BalancedSampler(pool, label, count, seed, excluded, where)
    if name == FIRST:
        return FirstSampler(pool, count, excluded, where)
    if name == CATWALK:
        return SeededSampler(pool, count, lambda index: index, settings.document, where)
    if name in (FIXED, PER_DOCUMENT):
        known = random.SystemRandom().getrandbits(32) if seed is None else seed
        is_fixed = name == FIXED
        return SeededSampler(pool, count, lambda index: known if is_fixed else f"{known}:{index}", excluded, where)
    return RandomSampler(pool, count, seed, excluded, where, settings.order)


class RandomSampler:
    """Draws examples at random, as lm-eval's `default` sampler does.

    Args:
        pool: the rows to draw from.
        count: examples per document.
        seed: seed of the random generator.
        excluded: index → document that must not be its own example; None if it may be.
        where: the task, for errors.
        order: indices of the documents to draw for, in order; None for all, from the first on.
    """

    def __init__(
        self,
        pool: Sequence[Row],
        count: int,
        seed: int | None,
        excluded: Callable[[int], Row] | None,
        where: str,
        order: Sequence[int] | None = None,
    ) -> None:
        self._pool = pool
        self._count = count
        self._excluded = excluded
        self._where = where
        self._random = random.Random(seed)
        self._order = order
        self._sample: Callable[[], list[int]] | None = None
        # All draws in one flat array: tuples of integers would take ten times the memory.
        self._drawn = array("I")
        self._steps = 0

    def places(self, document_id: int) -> tuple[int, ...]:
        step = document_id if self._order is None else bisect_left(self._order, document_id)
        while self._steps <= step:
            self._drawn.extend(self._draw(self._steps if self._order is None else self._order[self._steps]))
            self._steps += 1
        return tuple(self._drawn[step * self._count : (step + 1) * self._count])

    def _draw(self, document_id: int) -> Sequence[int]:
        size, count = len(self._pool), self._count
        wanted = count if self._excluded is None else count + 1
        if size < wanted:
            raise too_few_examples(self._where, count, size, wanted - count)
        if self._excluded is None:
            if self._sample is None:
                self._sample = repeated_sample(self._random, size, count)
            return self._sample()
        return _draw_others(self._random, self._pool, count, self._excluded(document_id), self._where)


def _draw_others(generator: random.Random, pool: Sequence[Row], count: int, document: Row, where: str) -> list[int]:
    """Indices of rows that are not the document: draws one more than needed and skips copies of the document.

    Args:
        generator: random generator to draw from.
        pool: the rows to draw from, more than `count`.
        count: how many.
        document: the row to leave out.
        where: the task, for errors.
    """
    drawn = generator.sample(range(len(pool)), count + 1)
    kept = [index for index in drawn if pool[index] != document]
    if len(kept) < count:  # several copies of the document were drawn: draw again from all other rows
        others = [index for index, row in enumerate(pool) if row != document]
        if len(others) < count:
            raise too_few_examples(where, count, len(others))
        kept = generator.sample(others, count)
    return kept[:count]


def repeated_sample(generator: random.Random, size: int, count: int) -> Callable[[], list[int]]:
    """A function that returns the same as `generator.sample(range(size), count)`, call after call.

    It takes many words at a time from the generator, which nothing else may use from then on. If Python draws by
    another algorithm, as it does for small pools, the function calls Python.
    """

    def plain() -> list[int]:
        return generator.sample(range(size), count)

    # Below this size Python draws from a shrinking list of the remaining items.
    if size <= 21 + (4 ** math.ceil(math.log(count * 3, 4)) if count > 5 else 0) or size.bit_length() > 32:
        return plain
    state = generator.getstate()
    expected = [plain() for _ in range(3)]
    generator.setstate(state)
    trial = random.Random()
    trial.setstate(state)
    fast = _fast_sample(trial, size, count)
    # Python does not guarantee the stream of `sample`; a different algorithm is detected here.
    return _fast_sample(generator, size, count) if [fast() for _ in range(3)] == expected else plain


def _fast_sample(generator: random.Random, size: int, count: int) -> Callable[[], list[int]]:
    numbers = chain.from_iterable(_numbers_below(generator, size))

    def sample() -> list[int]:
        drawn = list(islice(numbers, count))
        if len(set(drawn)) < count:  # skips repeated numbers
            distinct = dict.fromkeys(drawn)
            while len(distinct) < count:
                distinct[next(numbers)] = None
            drawn = list(distinct)
        return drawn

    return sample


def _numbers_below(generator: random.Random, size: int) -> Iterator[list[int]]:
    """Random numbers below a size, as Python draws them: the top bits of a word, unless they are too large."""
    unused = 32 - size.bit_length()
    while True:
        words = array("I", generator.getrandbits(32 * _WORDS_AT_ONCE).to_bytes(4 * _WORDS_AT_ONCE, "little"))
        if sys.byteorder == "big":
            words.byteswap()
        yield [number for word in words if (number := word >> unused) < size]


class FirstSampler:
    """Takes the first rows of the pool, without copies of the document if `excluded` is given."""

    def __init__(self, pool: Sequence[Row], count: int, excluded: Callable[[int], Row] | None, where: str) -> None:
        self._pool = pool
        self._count = count
        self._excluded = excluded
        self._where = where

    def places(self, document_id: int) -> tuple[int, ...]:
        places: list[int] = []
        document = self._excluded(document_id) if self._excluded is not None else None
        for index, row in enumerate(self._pool):
            if len(places) == self._count:
                break
            if document is None or row != document:
                places.append(index)
        if len(places) < self._count:
            raise too_few_examples(self._where, self._count, len(places))
        return tuple(places)


class ListedSampler:
    """The same rows before every document, in the listed order."""

    def __init__(self, listed: Sequence[int]) -> None:
        self._listed = tuple(listed)

    def places(self, document_id: int) -> tuple[int, ...]:
        return self._listed


class SeededSampler:
    """Draws with a separate generator for every document, so that no document's examples depend on others.

    With the document's index as seed, this is Catwalk's default; with one seed for all, its behaviour with an explicit
    seed: `Random(seed).sample(pool, count + 1)`, without the document, and of these the first `count`.

    Args:
        pool: the rows to draw from.
        count: examples per document.
        seed: index of a document → its seed.
        excluded: index → document that must not be its own example; None if it may be.
        where: the task, for errors.
    """

    def __init__(
        self,
        pool: Sequence[Row],
        count: int,
        seed: Callable[[int], int | str],
        excluded: Callable[[int], Row] | None,
        where: str,
    ) -> None:
        self._pool = pool
        self._count = count
        self._seed = seed
        self._excluded = excluded
        self._where = where

    def places(self, document_id: int) -> tuple[int, ...]:
        size, count = len(self._pool), self._count
        # A pool of exactly as many rows is enough if no document is excluded.
        spare = 0 if self._excluded is None and size == count else 1
        if size < count + spare:
            raise too_few_examples(self._where, count, size, spare)
        generator = random.Random(self._seed(document_id))
        if self._excluded is not None:
            return tuple(_draw_others(generator, self._pool, count, self._excluded(document_id), self._where))
        return tuple(generator.sample(range(size), count + spare)[:count])


class BalancedSampler:
    """One example of every right answer in turn, the most frequent answers first: HELM's rule.

    Every document has the same examples, unless it is one of them itself. Answers of the same frequency are
    shuffled; an answer's rows are drawn without replacement; rows without an answer come last.

    Args:
        pool: the rows to draw from.
        label: the right answer of a row; None if it has none.
        count: examples per document.
        seed: seed of the random generator: HELM's trial index.
        excluded: index → document that must not be its own example; None if it may be.
        where: the task, for errors.
    """

    def __init__(
        self,
        pool: Sequence[Row],
        label: Callable[[Row], str | None],
        count: int,
        seed: int | None,
        excluded: Callable[[int], Row] | None,
        where: str,
    ) -> None:
        self._pool = pool
        self._labels = [label(row) for row in pool]
        self._count = count
        self._seed = seed
        self._excluded = excluded
        self._where = where
        self._common = self._chosen(range(len(pool)))

    def places(self, document_id: int) -> tuple[int, ...]:
        if self._excluded is None:
            return self._common
        document = self._excluded(document_id)
        if all(self._pool[index] != document for index in self._common):
            return self._common
        return self._chosen([index for index, row in enumerate(self._pool) if row != document])

    def _chosen(self, places: Sequence[int]) -> tuple[int, ...]:
        if len(places) < self._count:
            raise too_few_examples(self._where, self._count, len(places))
        generator = random.Random(self._seed)
        rows: dict[str, list[int]] = {}
        unlabelled: list[int] = []
        for index in places:
            label = self._labels[index]
            (unlabelled if label is None else rows.setdefault(label, [])).append(index)
        order = _by_frequency(rows, generator)
        chosen: list[int] = []
        while len(chosen) < self._count and any(rows.values()):
            for label in order:
                if rows[label] and len(chosen) < self._count:
                    chosen.append(rows[label].pop(generator.randrange(len(rows[label]))))
        return (*chosen, *generator.sample(unlabelled, self._count - len(chosen)))


def _by_frequency(rows: Mapping[str, Sequence[int]], generator: random.Random) -> list[str]:
    """Labels, the most frequent first; labels of equal frequency are sorted by text, then shuffled."""
    order: list[str] = []
    for size in sorted({len(places) for places in rows.values()}, reverse=True):
        labels = sorted(label for label, places in rows.items() if len(places) == size)
        generator.shuffle(labels)
        order += labels
    return order


class CodeSampler:
    """Examples that a sampler class of task code chooses.

    Args:
        make: the class, with lm-eval's constructor.
        pool: the rows to choose from; rows that the class creates itself are added to it.
        count: examples per document.
        seed: seed of the random generator.
        excluded: index → document to pass to the sampler; None to pass none.
        where: the task, for errors.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        pool: list[Row],
        count: int,
        seed: int | None,
        excluded: Callable[[int], Row] | None,
        where: str,
    ) -> None:
        self._sampler = make(pool, rnd=None).set_rnd(seed)
        self._pool = pool
        self._count = count
        self._excluded = excluded
        self._where = where
        self._drawn: list[tuple[int, ...]] = []

    def places(self, document_id: int) -> tuple[int, ...]:
        while len(self._drawn) <= document_id:
            document = self._excluded(len(self._drawn)) if self._excluded is not None else None
            rows = list(self._sampler.sample(n=self._count, eval_doc=document))
            if len(rows) < self._count:
                raise too_few_examples(self._where, self._count, len(rows))
            self._drawn.append(tuple(map(self._index_of, rows)))
        return self._drawn[document_id]

    def _index_of(self, row: Row) -> int:
        for index, known in enumerate(self._pool):
            if known is row:
                return index
        self._pool.append(row)
        return len(self._pool) - 1


def too_few_examples(where: str, wanted: int, size: int, spare: int = 0) -> DataError:
    """Error for a pool with fewer rows than the examples need, including a spare one for the document."""
    reserve = " and one to spare" if spare else ""
    needed = f"{plural(wanted, 'few-shot example')}{reserve} {verb(wanted + spare, 'is', 'are')} needed"
    return DataError(
        Fault(
            where,
            f"{needed}, but the pool has {plural(size, 'row')}",
            next="Lower --num_fewshot or name a larger fewshot_split",
        )
    )
