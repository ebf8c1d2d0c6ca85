"""The datasets that tasks need, as plain values: what `assay data get` fetches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from assay.data.sources import SourceSpec


@dataclass(frozen=True, slots=True)
class DatasetNeed:
    """A dataset that a task reads.

    Attributes:
        source: the dataset.
        splits: splits that the task names; empty for all.
        rows: official number of rows by split, as far as the task's card states it.
    """

    source: SourceSpec
    splits: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class NeedsDatasets(Protocol):
    """A task that can say which datasets it reads, without reading them."""

    def dataset_needs(self) -> Sequence[DatasetNeed]: ...


def title_of(need: DatasetNeed) -> str:
    """Dataset and configuration, or the first address of files."""
    spec, found = need.source, need.source.options.get("data_files")
    while isinstance(found, (Mapping, list, tuple)) and found:
        found = next(iter(found.values())) if isinstance(found, Mapping) else found[0]
    if "://" in str(found):
        return str(found).removeprefix("hf://datasets/")
    return spec.path + (f" ({spec.name})" if spec.name else "")
