"""Analysis of a methods study: spread, changed predictions, model ranking, length and position bias."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

from assay.core.scores import Estimate
from assay.stats import means, paired
from assay.stats.clustered import clustered_mean
from assay.stats.power import ALPHA
from assay.stats.spread import chance_spread
from assay.studies.methods.methods_values import (
    NO_PREDICTION,
    ChoiceQuestion,
    LengthBias,
    MethodsCell,
    PositionCounts,
    PredictionChange,
    PredictionChanges,
    RankChange,
    Spread,
)
from assay.studies.paired.differences import PairedComparison, compare_pairs, with_adjusted_intervals
from assay.studies.paired.matching import match_documents
from assay.studies.paired.paired_values import CompareOptions, Comparison
from assay.studies.paired.several_models import EntryFactory, to_comparison
from assay.studies.paired.verdicts import with_verdicts

Key = TypeVar("Key", bound=Hashable)


def grouped(cells: Iterable[MethodsCell], key: Callable[[MethodsCell], Key]) -> dict[Key, list[MethodsCell]]:
    """Cells by a key, in their order."""
    found: dict[Key, list[MethodsCell]] = {}
    for cell in cells:
        found.setdefault(key(cell), []).append(cell)
    return found


def spreads(cells: Sequence[MethodsCell], seed: int) -> tuple[Spread, ...]:
    """Spreads per model and task: over the methods of each style, and over everything if there are several styles.

    Args:
        cells: every score.
        seed: seed of the bootstrap that estimates the spread by sampling alone.
    """
    found = []
    for (model, task), own in grouped(cells, lambda cell: (cell.model, cell.task)).items():
        by_style = grouped(own, lambda cell: cell.style)
        found += [_spread((model, task, style), some, seed) for style, some in by_style.items() if len(some) > 1]
        if len(by_style) > 1:
            found.append(_spread((model, task, None), own, seed))
    return tuple(found)


def _spread(names: tuple[str, str, str | None], cells: Sequence[MethodsCell], seed: int) -> Spread:
    common = shared_documents(cells)
    scores = {cell.name: cell.estimate.value or 0.0 for cell in cells}
    lowest, highest = min(scores, key=scores.__getitem__), max(scores, key=scores.__getitem__)
    rows = [aligned(cell, common) for cell in cells]
    # The test needs outcomes of 0 and 1; a mean over several orders of the choices may be neither.
    is_binary = all(value in (0.0, 1.0) for row in rows for value in row)
    # Nor does it support clustered documents.
    stands_alone = all(cell.clusters is None for cell in cells)
    p = paired.cochran_q(rows).p if is_binary and stands_alone and common else None
    chance = chance_spread(rows, _shared_clusters(cells[0], common), seed)
    return Spread(
        *names,
        delta=scores[highest] - scores[lowest],
        lowest=lowest,
        highest=highest,
        p=p,
        n=len(common),
        chance=chance,
    )


def _shared_clusters(cell: MethodsCell, documents: Sequence[str]) -> list[str] | None:
    if cell.clusters is None:
        return None
    known = dict(zip(cell.documents, cell.clusters, strict=True))
    return [known[document] for document in documents]


def shared_documents(cells: Sequence[MethodsCell]) -> list[str]:
    """Documents that all cells have, in the order of the first."""
    rest = [set(cell.documents) for cell in cells[1:]]
    return [document for document in cells[0].documents if all(document in some for some in rest)]


def aligned(cell: MethodsCell, documents: Sequence[str]) -> list[float]:
    """A cell's hits on some of its documents."""
    hits = dict(zip(cell.documents, cell.hits, strict=True))
    return [hits[document] for document in documents]


def changes(cells: Sequence[MethodsCell], questions: Mapping[str, ChoiceQuestion]) -> tuple[PredictionChanges, ...]:
    """Changed predictions per model, task and style: documents on which two methods predict different choices."""
    found = []
    for (model, task, style), own in grouped(cells, lambda cell: (cell.model, cell.task, cell.style)).items():
        if len(own) < 2:
            continue
        predictions = {cell.method: dict(zip(cell.documents, cell.predictions, strict=True)) for cell in own}
        common = shared_documents(own)
        changed = []
        pairs: Counter[tuple[str, str]] = Counter(dict.fromkeys(combinations(predictions, 2), 0))
        for document in common:
            picked = {method: some[document] for method, some in predictions.items()}
            if len(set(picked.values())) > 1:
                changed.append(PredictionChange(document, questions[document].right, picked))
                pairs.update(pair for pair in combinations(predictions, 2) if picked[pair[0]] != picked[pair[1]])
        found.append(PredictionChanges(model, task, style, len(common), changed, dict(pairs)))
    return tuple(found)


def comparisons(cells: Sequence[MethodsCell], seed: int) -> tuple[Comparison, ...]:
    """All pairs of models under every cell, with p-values corrected over all comparisons."""
    tested: list[PairedComparison] = []
    options = CompareOptions(seed=seed)
    for (task, name), own in grouped(cells, lambda cell: (cell.task, cell.name)).items():
        pairing = EntryFactory(task, name)
        entries = [pairing.entry(cell.model, cell.documents, cell.hits, cell.clusters) for cell in own]
        tested += compare_pairs([match_documents(one, other) for one, other in combinations(entries, 2)], True, options)
    pairs = with_verdicts(with_adjusted_intervals(tested, options), options)
    return tuple(to_comparison(pair, pair.task, pair.metric) for pair in pairs)


def rank_changes(compared: Sequence[Comparison]) -> tuple[RankChange, ...]:
    """Pairs of models whose order differs between two cells; of each, the pair of cells with the smallest p-values."""
    by_pair: dict[tuple[str, str, str], list[Comparison]] = {}
    for item in compared:
        by_pair.setdefault((item.task, item.first, item.second), []).append(item)
    found = []
    for (task, _, _), items in by_pair.items():
        ahead = [item for item in items if (item.difference or 0.0) > 0]
        behind = [item for item in items if (item.difference or 0.0) < 0]
        if ahead and behind:
            one = min(ahead, key=lambda item: (item.adjusted, item.p))
            other = min(behind, key=lambda item: (item.adjusted, item.p))
            found.append(RankChange(task, one, other, max(one.adjusted, other.adjusted) < ALPHA))
    return tuple(found)


def length_biases(cells: Sequence[MethodsCell], questions: Mapping[str, ChoiceQuestion]) -> tuple[LengthBias, ...]:
    """Length bias per cell: is the right choice shorter or longer than the others when the method errs?"""
    known = {document: question.compared_lengths for document, question in questions.items()}
    found = []
    for cell in cells:
        gaps = {
            place: lengths[0] - lengths[1]
            for place, document in enumerate(cell.documents)
            if (lengths := known[document]) is not None
        }
        missed = {place: gap for place, gap in gaps.items() if cell.hits[place] < 1}
        both = _mean_gap(gaps, cell.clusters), _mean_gap(missed, cell.clusters)
        found.append(LengthBias(cell.model, cell.task, cell.name, *both))
    return tuple(found)


def _mean_gap(gaps: Mapping[int, float], clusters: Sequence[str] | None) -> Estimate:
    """The mean over some of a cell's documents, by their positions, with a cluster-robust standard error."""
    if clusters is None:
        return means.mean_estimate(list(gaps.values()))
    return clustered_mean(list(gaps.values()), [clusters[place] for place in gaps]).estimate


def places(cells: Sequence[MethodsCell], questions: Mapping[str, ChoiceQuestion]) -> tuple[PositionCounts, ...]:
    """Position bias per cell: how often each position was predicted, and how often it was right."""
    found = []
    for cell in cells:
        size = max((len(questions[document].lengths) for document in cell.documents), default=0)
        picked = Counter(cell.predictions)
        right = Counter(questions[document].right[0] for document in cell.documents if questions[document].right)
        counts = tuple(picked[place] for place in range(size)), tuple(right[place] for place in range(size))
        found.append(PositionCounts(cell.model, cell.task, cell.name, *counts, picked[NO_PREDICTION]))
    return tuple(found)
