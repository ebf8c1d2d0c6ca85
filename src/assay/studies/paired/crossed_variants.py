"""Standard error of the mean difference over several variants of a task: prompts, few-shot seeds, choice orders.

Variants are a sample of those that could have been used. With enough of them the difference has a random effect per
variant, as in the variance of a run: the claim then extends to other prompts. With fewer, the claim holds for these
variants only, and only documents are random.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.errors import UserError
from assay.core.task_variants import DOCUMENT, ORDER, PROMPT, SEED, base_name
from assay.stats.variance import Decomposition, decompose
from assay.studies.paired.differences import PairedComparison

# With fewer levels of an axis the estimated variance between levels is too uncertain.
MIN_LEVELS = 3
STYLE = "style"
_LEVEL = re.compile(rf"#({SEED}|{ORDER})=(-?\d+)")


@dataclass(frozen=True)
class TaskVariants:
    """A task with its variants; there may be only one.

    Attributes:
        items: the pair of systems in each variant.
        random: axes treated as random samples, in words: `4 prompts of capitals`.
        fixed: axes treated as fixed: the claim holds for their levels only.
        decomposition: variance decomposition of the differences, if an axis is random.
    """

    items: Sequence[PairedComparison]
    random: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    decomposition: Decomposition | None = None

    @property
    def documents(self) -> int:
        """Number of distinct documents over all variants."""
        return len({document for item in self.items for document in item.documents})

    @cached_property
    def units(self) -> int:
        """Number of documents, or clusters."""
        return len({unit for item in self.items for unit in item.clusters or item.documents})

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the error."""
        if self.decomposition is not None and self.decomposition.degrees is not None:
            return self.decomposition.degrees
        return self.units - 1.0

    @cached_property
    def error(self) -> float:
        """Standard error of the mean difference: over random axes and documents, or over documents alone."""
        if self.decomposition is not None:
            return self.decomposition.stderr or 0.0
        if len(self.items) == 1:
            return self.items[0].score.difference.stderr or 0.0
        count, sums = self.units, self._residual_sums()
        return math.sqrt(count / (count - 1) * math.fsum(own * own for own in sums)) if count > 1 else 0.0

    def _residual_sums(self) -> list[float]:
        """Each document's, or cluster's, residual contribution to the mean over the variants."""
        sums: dict[Hashable, float] = {}
        for item in self.items:
            assert item.differences is not None
            middle, weight = float(item.differences.mean()), len(self.items) * item.score.n
            for unit, gap in zip(item.clusters or item.documents, item.differences.tolist(), strict=True):
                sums[unit] = sums.get(unit, 0.0) + (gap - middle) / weight
        tolerance = 1e-15
        return [0.0 if abs(own) < tolerance else own for own in sums.values()]


def task_variants(name: str, items: Sequence[PairedComparison]) -> TaskVariants:
    """A task's variants, with prompts, seeds and orders treated as random if there are enough of them.

    Args:
        name: the task's own name.
        items: the two systems in every variant.
    """
    variants = [_levels(item) for item in items]
    axes = [
        axis for axis in dict.fromkeys(axis for variant in variants for axis in variant) if _count(variants, axis) > 1
    ]
    enough = [axis for axis in axes if axis != STYLE and _count(variants, axis) >= MIN_LEVELS]
    decomposition = _decomposed(items, variants, axes, enough) if enough else None
    random = enough if decomposition is not None else []
    described = {axis: f"{_count(variants, axis)} {axis}s of {name}" for axis in axes}
    fixed = [described[axis] for axis in axes if axis not in random]
    return TaskVariants(items, tuple(described[axis] for axis in random), tuple(fixed), decomposition)


def _levels(item: PairedComparison) -> dict[str, str]:
    """Axis → level, parsed from the task's name."""
    name = item.score.task
    asked = base_name(name)
    variant = asked.partition("@")[2]
    found = {(STYLE if item.is_style else PROMPT): variant} if variant else {}
    return found | dict(_LEVEL.findall(name[len(asked) :]))


def _count(variants: Sequence[dict[str, str]], axis: str) -> int:
    return len({variant.get(axis) for variant in variants})


def _decomposed(
    items: Sequence[PairedComparison], variants: Sequence[dict[str, str]], axes: Sequence[str], random: Sequence[str]
) -> Decomposition | None:
    """The differences by document and level of each random axis, the others averaged; None if levels are missing."""

    levels = {axis: list(dict.fromkeys(variant.get(axis) for variant in variants)) for axis in axes}
    if math.prod(map(len, levels.values())) != len(items):
        return None
    documents = {document: place for place, document in enumerate(_documents(items))}
    table = np.full((len(documents), *map(len, levels.values())), np.nan)
    clusters: list[Hashable] = [None] * len(documents)
    for item, variant in zip(items, variants, strict=True):
        assert item.differences is not None
        rows = [documents[document] for document in item.documents]
        cell: Any = (rows, *(own.index(variant.get(axis)) for axis, own in levels.items()))
        table[cell] = item.differences
        for row, cluster in zip(rows, item.clusters or (), strict=False):
            clusters[row] = cluster
    means: NDArray[np.float64] = table.mean(axis=tuple(1 + axes.index(axis) for axis in axes if axis not in random))
    has_clusters = all(item.clusters is not None for item in items)
    try:
        return decompose(means, [DOCUMENT, *random], clusters=clusters if has_clusters else None)
    except UserError:
        return None


def _documents(items: Sequence[PairedComparison]) -> list[int]:
    return list(dict.fromkeys(document for item in items for document in item.documents))
