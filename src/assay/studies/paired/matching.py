"""Matching: the documents that two systems have in common, their values under a metric, and the scores on them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import DocumentValues, Estimate, Value
from assay.scoring.metrics.aggregations import AGGREGATIONS, MEAN_AGGREGATIONS

Floats = NDArray[np.float64]
# Aggregations that ignore documents without a number.
_OF_KNOWN = (*MEAN_AGGREGATIONS, "median_of_known")
# Scores that are monotone in a sum over documents, and those monotone in such a sum divided by the texts' lengths.
_SUMS, _RATIOS = (*MEAN_AGGREGATIONS, "perplexity"), ("weighted_perplexity", "weighted_nats", "bits_per_byte")

# A difference this small relative to the values is rounding error of 0.
_TOLERANCE = 1e-13


@dataclass(frozen=True)
class SystemEntry:
    """A system's documents under one metric."""

    label: str
    recorded: DocumentValues

    @cached_property
    def places(self) -> dict[int, int]:
        """Document → position of its value."""
        return {document: place for place, document in enumerate(self.recorded.documents)}

    @cached_property
    def numbers(self) -> Floats:
        """The values as an array; each is a number or several."""
        return np.asarray(self.recorded.values, dtype=np.float64)

    @cached_property
    def addends(self) -> Floats | None:
        """Each document's contribution to the sum behind the score; None if the score is not based on a sum."""
        if self.recorded.aggregation in _SUMS:
            return self.numbers
        return self.numbers.reshape(-1, 2)[:, 0] if self.recorded.aggregation in _RATIOS else None

    @cached_property
    def lengths(self) -> Floats | None:
        """Each document's contribution to the denominator; None if that is the number of documents."""
        return self.numbers.reshape(-1, 2)[:, 1] if self.recorded.aggregation in _RATIOS else None

    @cached_property
    def has_value(self) -> NDArray[np.bool_]:
        """Per document, whether its value can be compared: a finite one for a mean, any number for a median."""
        if self.recorded.aggregation in MEAN_AGGREGATIONS:
            return np.isfinite(self.numbers)
        if self.recorded.aggregation in _OF_KNOWN:
            return ~np.isnan(self.numbers)
        return np.ones(len(self.recorded.values), dtype=np.bool_)

    @cached_property
    def is_known(self) -> bool:
        """Whether every document has such a value."""
        return bool(np.all(self.has_value))

    @cached_property
    def documents_key(self) -> tuple[tuple[int, ...], tuple[str, ...] | None]:
        """A key that is equal for systems with the same documents in the same order and clusters."""
        clusters = self.recorded.clusters
        return tuple(self.recorded.documents), None if clusters is None else tuple(clusters)

    @cached_property
    def is_binary(self) -> bool:
        """Whether it is a mean of values that are 0 or 1."""
        return self.recorded.aggregation in MEAN_AGGREGATIONS and _is_binary(self.numbers)

    @cached_property
    def is_share(self) -> bool:
        """Whether it is a mean of values from 0 to 1."""
        if self.recorded.aggregation not in MEAN_AGGREGATIONS:
            return False
        known = self.numbers[self.has_value]
        return bool(len(known)) and bool(np.all((known >= 0) & (known <= 1)))

    @cached_property
    def units(self) -> NDArray[np.int64] | None:
        """The cluster of each document as a number; None without clusters."""
        return None if self.recorded.clusters is None else cluster_numbers(self.recorded.clusters)

    @cached_property
    def infinite(self) -> int:
        """Number of documents that a mean excludes because their value is infinite."""
        return int(np.isinf(self.numbers).sum()) if self.recorded.aggregation in MEAN_AGGREGATIONS else 0

    @cached_property
    def estimate(self) -> Estimate:
        """The score over all documents that the system has."""
        return _estimate(self.recorded, range(len(self.recorded.documents)))


@dataclass(frozen=True, slots=True)
class MatchedPair:
    """Two entries with the positions of their common documents."""

    first: SystemEntry
    second: SystemEntry
    mine: Sequence[int]
    theirs: Sequence[int]

    @property
    def is_whole(self) -> bool:
        """Whether it contains all documents of both."""
        return len(self.mine) == len(self.first.recorded.documents) == len(self.second.recorded.documents)

    @property
    def numbers(self) -> tuple[Floats, Floats]:
        """The values of a mean, document by document."""
        return self._own(self.first.numbers, self.second.numbers)

    @property
    def is_binary(self) -> bool:
        """Whether all values of both are outcomes of 0 and 1."""
        if isinstance(self.mine, range):
            return self.first.is_binary and self.second.is_binary
        return self.first.recorded.aggregation in MEAN_AGGREGATIONS and all(map(_is_binary, self.numbers))

    @property
    def addends(self) -> tuple[Floats, Floats] | None:
        """Contributions of documents to two sums whose difference shows which score is higher; None without sums."""
        if self.first.addends is None or self.second.addends is None:
            return None
        one, other = self.first.lengths, self.second.lengths
        if one is not None and other is not None and not np.array_equal(*self._own(one, other)):
            return None
        return self._own(self.first.addends, self.second.addends)

    @property
    def differences(self) -> Floats | None:
        """The documents' contributions to the second minus those to the first; 0 if they differ by rounding only."""
        if (addends := self.addends) is None:
            return None
        found = addends[1] - addends[0]
        found[np.abs(found) <= _TOLERANCE * np.maximum(np.abs(addends[0]), np.abs(addends[1]))] = 0.0
        return found

    @property
    def lengths(self) -> Floats | None:
        """Each document's contribution to both denominators; None if that is the number of documents."""
        return None if self.first.lengths is None else self._own(self.first.lengths, self.first.lengths)[0]

    @property
    def differences_and_weights(self) -> tuple[Floats, Floats | None]:
        """The units of sign flips: the difference of each document or cluster, and its weight."""
        differences, units, lengths = self.differences, self.units, self.lengths
        assert differences is not None
        if units is None:
            return differences, lengths
        own = np.ones(len(differences)) if lengths is None else lengths
        return cluster_sums(units, differences), cluster_sums(units, own)

    def _own(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """The values of the common documents of both systems."""
        if isinstance(self.mine, range):
            return first, second
        return first[list(self.mine)], second[list(self.theirs)]

    @property
    def values(self) -> tuple[list[Value], list[Value]]:
        """The values of any metric, document by document."""
        one, other = self.first.recorded.values, self.second.recorded.values
        return [one[place] for place in self.mine], [other[place] for place in self.theirs]

    @property
    def clusters(self) -> Sequence[str] | None:
        entry, places = (self.first, self.mine) if self.first.recorded.clusters else (self.second, self.theirs)
        known = entry.recorded.clusters
        return known if known is None or isinstance(places, range) else [known[place] for place in places]

    @property
    def units(self) -> NDArray[np.int64] | None:
        """The cluster of each document as a number from 0."""
        entry, places = (self.first, self.mine) if self.first.recorded.clusters else (self.second, self.theirs)
        if entry.units is None or isinstance(places, range):
            return entry.units
        return cluster_numbers(entry.units[list(places)].tolist())

    @property
    def cluster_count(self) -> int | None:
        """Number of clusters of the documents; None without clusters."""
        return None if (units := self.units) is None else int(units.max(initial=-1)) + 1

    @property
    def scores(self) -> tuple[Estimate, Estimate]:
        """Both scores on the documents in common; scores on all documents are computed once per system."""
        if self.is_whole:
            return self.first.estimate, self.second.estimate
        return _estimate(self.first.recorded, self.mine), _estimate(self.second.recorded, self.theirs)


def match_documents(first: SystemEntry, second: SystemEntry, common: Mapping[int, int] | None = None) -> MatchedPair:
    """Documents scored by both, by their index in the split, or by a mapping: document of the first → of the second."""
    one, other = first.recorded.documents, second.recorded.documents
    is_known = first.is_known and second.is_known
    if common is None and one == other and is_known:
        return MatchedPair(first, second, range(len(one)), range(len(one)))
    links = {document: document for document in one} if common is None else common
    pairs = [
        (place, second.places[links[document]])
        for place, document in enumerate(one)
        if document in links and links[document] in second.places
    ]
    if not is_known:
        pairs = [(mine, theirs) for mine, theirs in pairs if first.has_value[mine] and second.has_value[theirs]]
    return MatchedPair(first, second, [mine for mine, _ in pairs], [theirs for _, theirs in pairs])


def cluster_numbers(clusters: Sequence[Hashable]) -> NDArray[np.int64]:
    """The cluster of each document as a number from 0."""
    from assay.stats.bootstrap import cluster_indices  # few tasks have clusters

    return cluster_indices(clusters, len(clusters))


def cluster_sums(units: NDArray[np.int64], values: Floats) -> Floats:
    """Per cluster, the sum over its documents."""
    return np.asarray(np.bincount(units, values), dtype=np.float64)


def _is_binary(values: Floats) -> bool:
    return bool(np.all((values == 0) | (values == 1)))


def _estimate(recorded: DocumentValues, places: Sequence[int]) -> Estimate:
    aggregation = AGGREGATIONS[recorded.aggregation]
    values = aggregation.read([recorded.values[place] for place in places])
    if recorded.clusters is None or aggregation.clustered is None or not len(places):
        return aggregation.estimate(values)
    return aggregation.clustered(values, [recorded.clusters[place] for place in places])
