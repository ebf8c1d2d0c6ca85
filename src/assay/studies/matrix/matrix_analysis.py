"""Analysis of the cells of a matrix: columns, averages, win rates, shared ranks, correlations. Pure.

Only comparable scores are compared: a column is one metric of one task after one pipeline, over cells evaluated on
the same documents. A task whose models have several metrics has several columns, one of which counts in averages.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from assay.core.scores import Estimate
from assay.core.task_variants import task_family
from assay.stats import correlation, pooled, ranking
from assay.stats import multiple_testing as multiple
from assay.stats.ranking import Average
from assay.studies.matrix.matrix_values import (
    CorrelationPair,
    Key,
    Matrix,
    MatrixCell,
    MatrixColumn,
    MissingCell,
    ModelRun,
    Ranking,
    Standing,
)
from assay.studies.paired.differences import PairedComparison, compare_pairs, with_adjusted_intervals
from assay.studies.paired.matching import match_documents
from assay.studies.paired.over_tasks import overall_scores
from assay.studies.paired.paired_values import CompareOptions, Comparison, RankedSystem
from assay.studies.paired.several_models import EntryFactory, to_comparison
from assay.studies.paired.verdicts import rank_systems, with_verdicts

Cells = dict[tuple[str, Key], MatrixCell]
# A larger table of correlations is unreadable, and one of a thousand columns or models takes many minutes.
MAX_CORRELATED = 100
# Metrics with a range from −1 or to 100, whose scores are not shares even if between 0 and 1.
_OTHER_SCALES = frozenset({"mcc", "cohen_kappa", "bleu", "chrf", "chrf++", "ter"})


def make_matrix(
    models: Sequence[str],
    tasks: Sequence[str],
    cells: Sequence[MatrixCell],
    gaps: Sequence[MissingCell],
    runs: Sequence[ModelRun],
    notices: Sequence[str],
    seed: int,
) -> Matrix:
    """The whole matrix from its cells.

    Args:
        models: short names, in display order.
        tasks: names of tasks and groups, in display order.
        cells: every score to show, one per model, task, metric and pipeline.
        gaps: every model and task without one.
        runs: the models' runs.
        notices: further information for the reader.
        seed: seed of the sign flips.
    """
    columns = [column for task in tasks for column in _columns(task, [cell for cell in cells if cell.task == task])]
    places = {column.key: place for place, column in enumerate(columns)}
    ordered = sorted(cells, key=lambda cell: (models.index(cell.model), places[cell.key]))
    found = _comparable_cells(ordered)
    main = [column for column in columns if column.is_main]
    common = _common(models, main, found)
    return Matrix(
        models=tuple(models),
        columns=tuple(columns),
        cells=tuple(ordered),
        gaps=tuple(gaps),
        standings=_standings(models, main, common, found),
        common=tuple(column.label for column in common),
        rankings=_rankings(models, columns, found, seed),
        task_correlations=_task_links(columns, found),
        model_correlations=_model_links(models, main, found),
        runs=tuple(runs),
        notices=(*notices, *_excluded_notices(columns, ordered, found), *_uncorrelated_notices(models, columns)),
    )


# Columns


def _columns(task: str, cells: Sequence[MatrixCell]) -> list[MatrixColumn]:
    """The columns of a task, one per metric and pipeline: that of most models first, which counts in averages."""
    by_key: dict[Key, list[MatrixCell]] = {}
    for cell in cells:
        by_key.setdefault(cell.key, []).append(cell)
    own = sorted(by_key.values(), key=len, reverse=True)
    if not own:
        return [
            MatrixColumn(name=task, metric="–", filter="none", higher_is_better=None, baseline=None, is_share=False)
        ]
    return [_column(cells, is_main=place == 0, is_split=len(own) > 1) for place, cells in enumerate(own)]


def _column(cells: Sequence[MatrixCell], is_main: bool, is_split: bool) -> MatrixColumn:
    """A column from its cells. Models with the same documents have the same baseline."""
    first = cells[0]
    known = [cell.baseline for cell in cells if cell.baseline is not None]
    values = [cell.estimate.value for cell in cells if cell.estimate.value is not None]
    is_share = first.higher_is_better is True and all(0 <= value <= 1 for value in values)
    is_share = is_share and first.metric not in _OTHER_SCALES
    baseline = known[0] if len(known) == len(cells) else None
    return MatrixColumn(
        *first.key,
        higher_is_better=first.higher_is_better,
        baseline=baseline,
        is_share=is_share,
        is_main=is_main,
        is_split=is_split,
    )


def _comparable_cells(cells: Sequence[MatrixCell]) -> Cells:
    """The comparable cells: of each column, those with the documents that most models evaluated."""
    asked: dict[Key, Counter[str]] = {}
    for cell in cells:
        asked.setdefault(cell.key, Counter()).update([cell.asked])
    most = {key: counts.most_common(1)[0][0] for key, counts in asked.items()}
    return {(cell.model, cell.key): cell for cell in cells if cell.asked == most[cell.key]}


def _excluded_notices(
    columns: Sequence[MatrixColumn], cells: Sequence[MatrixCell], comparable_cells: Cells
) -> Iterator[str]:
    for column in columns:
        own = [
            cell.model for cell in cells if cell.key == column.key and (cell.model, cell.key) not in comparable_cells
        ]
        if own:
            reported = f"{column.label}: {', '.join(own)} answered different documents than the other models"
            yield f"{reported}, so this score is in no average, win rate, rank or correlation"


def _oriented(column: MatrixColumn, cells: Cells) -> dict[str, float]:
    """Model → score, negated if lower is better."""
    sign = -1.0 if column.higher_is_better is False else 1.0
    own = {cell.model: cell.estimate.value for cell in cells.values() if cell.key == column.key}
    return {model: sign * value for model, value in own.items() if value is not None}


# Averages


def _common(models: Sequence[str], columns: Sequence[MatrixColumn], cells: Cells) -> list[MatrixColumn]:
    """The share columns that all models have; a model without any score is ignored."""
    some = [model for model in models if any((model, column.key) in cells for column in columns)]
    shares = [column for column in columns if column.is_share]
    return [column for column in shares if all((model, column.key) in cells for model in some)]


def _standings(
    models: Sequence[str], columns: Sequence[MatrixColumn], common: Sequence[MatrixColumn], cells: Cells
) -> tuple[Standing, ...]:
    wins = ranking.win_rates(models, {column.label: _oriented(column, cells) for column in _directed(columns)})
    return tuple(_standing(model, columns, common, cells, wins[model]) for model in models)


def _standing(
    model: str, columns: Sequence[MatrixColumn], common: Sequence[MatrixColumn], cells: Cells, wins: Average
) -> Standing:
    own = [(column, cells[model, column.key]) for column in columns if (model, column.key) in cells]
    shares = [(column, cell) for column, cell in own if column.is_share]
    above = [(column, cell) for column, cell in own if column.baseline is not None]
    relative = {column.label: cell.relative for column, cell in above if cell.relative is not None}
    bounded = {column.label: cell.bounded for column, cell in above if cell.bounded is not None}
    return Standing(
        model=model,
        score=_mean_estimate([cell for _, cell in shares]),
        score_tasks=tuple(column.label for column, _ in shares),
        common=_mean_estimate([cell for column, cell in shares if column in common]),
        relative=_average(relative),
        bounded=_average(bounded),
        win_rate=wins,
    )


def _average(values: Mapping[str, float]) -> Average:
    return Average(sum(values.values()) / len(values) if values else None, tuple(values))


# Ranks


def _rankings(models: Sequence[str], columns: Sequence[MatrixColumn], cells: Cells, seed: int) -> tuple[Ranking, ...]:
    """Rankings per column whose models can all be compared, and over all share columns if there are several."""
    options = CompareOptions(seed=seed)
    found, shares = [], []
    numbers: dict[str, int] = {}
    for column in columns:
        own = {model: cells[model, column.key] for model in models if (model, column.key) in cells}
        compared = _compare_models(own, column, options, numbers)
        shares += [compared] if column.is_share and column.is_main else []
        # Two models without a test would look statistically indistinguishable.
        if compared and len(compared) == math.comb(len(own), 2) and column.higher_is_better is not None:
            pairs = with_verdicts(with_adjusted_intervals(compared, options), options)
            scores = {model: cell.estimate for model, cell in own.items()}
            reported = [to_comparison(pair, pair.task, pair.metric) for pair in pairs]
            found.append(
                _ranking(column.label, rank_systems(list(own), scores, pairs, column.higher_is_better), reported)
            )
    averaged = [column for column in columns if column.is_share and column.is_main]
    overall = _overall(models, averaged, shares, cells, options)
    return (*found, overall) if overall is not None else tuple(found)


def _ranking(task: str | None, places: Sequence[RankedSystem], comparisons: Sequence[Comparison]) -> Ranking:
    ranks, letters = {item.label: item.ranks for item in places}, {item.label: item.letters for item in places}
    return Ranking(task, ranks, letters, tuple(comparisons))


def _compare_models(
    cells: Mapping[str, MatrixCell], column: MatrixColumn, options: CompareOptions, numbers: dict[str, int]
) -> list[PairedComparison]:
    """All pairs of models of a column, tested as by `assay compare`."""
    pairing = EntryFactory(column.name, column.metric, column.filter, numbers)
    entries = {model: pairing.entry(model, cell.documents, cell.values, cell.clusters) for model, cell in cells.items()}
    matches = [match_documents(entries[one], entries[other]) for one, other in combinations(cells, 2)]
    found = compare_pairs([match for match in matches if match.mine], column.higher_is_better, options)
    return [replace(item, is_style=any(cell.is_style for cell in cells.values())) for item in found]


def _overall(
    models: Sequence[str],
    columns: Sequence[MatrixColumn],
    compared: Sequence[Sequence[PairedComparison]],
    cells: Cells,
    options: CompareOptions,
) -> Ranking | None:
    """Ranking over all tasks, each counted once; only models with a score on every task can be compared fairly."""
    whole = [model for model in models if all((model, column.key) in cells for column in columns)]
    if len(whole) < 2 or len(columns) < 2:
        return None
    own = [[item for item in found if {item.score.first, item.score.second} <= set(whole)] for found in compared]
    if any(len(found) < math.comb(len(whole), 2) for found in own):
        return None
    pairs = overall_scores(options, own)
    if len(pairs) < math.comb(len(whole), 2):  # a mean over the documents in common that is not a share
        return None
    scores = {model: _mean_estimate([cells[model, column.key] for column in columns]) for model in whole}
    reported = [to_comparison(pair, "all", "mean") for pair in pairs]
    fixed = tuple(dict.fromkeys(text for pair in pairs for text in pair.fixed))
    random = tuple(dict.fromkeys(text for pair in pairs for text in pair.random if text not in fixed))
    found = _ranking(None, rank_systems(whole, scores, pairs, better=True), reported)
    return replace(found, random=random, fixed=fixed)


def _mean_estimate(cells: Sequence[MatrixCell]) -> Estimate:
    estimates = [cell.estimate for cell in cells]
    families = [task_family(cell.task) for cell in cells]
    return pooled.group_estimate(estimates, [estimate.n for estimate in estimates], False, families)


# Correlations


def _task_links(columns: Sequence[MatrixColumn], cells: Cells) -> tuple[CorrelationPair, ...]:
    """Correlations between all pairs of columns, over the models that both have."""
    return _links({column.label: _oriented(column, cells) for column in _directed(columns)})


def _directed(columns: Sequence[MatrixColumn]) -> list[MatrixColumn]:
    return [column for column in columns if column.higher_is_better is not None]


def _model_links(models: Sequence[str], columns: Sequence[MatrixColumn], cells: Cells) -> tuple[CorrelationPair, ...]:
    """Correlations between all pairs of models, over tasks whose scores are shares; others have no common scale."""
    scores: dict[str, dict[str, float]] = {}
    for model in models:
        known = {column.label: cells.get((model, column.key)) for column in columns if column.is_share}
        scores[model] = {label: cell.estimate.value or 0.0 for label, cell in known.items() if cell is not None}
    return _links(scores)


def _uncorrelated_notices(models: Sequence[str], columns: Sequence[MatrixColumn]) -> Iterator[str]:
    for count, noun in ((len(_directed(columns)), "tasks"), (len(models), "models")):
        if count > MAX_CORRELATED:
            yield f"no correlations between {noun}: computed for at most {MAX_CORRELATED}, and there are {count:,}"


def _links(scores: Mapping[str, dict[str, float]]) -> tuple[CorrelationPair, ...]:
    """Correlations of all pairs, with Holm's correction per coefficient; empty if there are too many pairs."""
    if len(scores) > MAX_CORRELATED:
        return ()
    links = [_link(one, other, scores[one], scores[other]) for one, other in combinations(scores, 2)]
    rho = multiple.holm([link.spearman.p for link in links])
    tau = multiple.holm([link.kendall.p for link in links])
    return tuple(
        replace(link, spearman_adjusted=one, kendall_adjusted=other)
        for link, one, other in zip(links, rho, tau, strict=True)
    )


def _link(first: str, second: str, one: dict[str, float], other: dict[str, float]) -> CorrelationPair:
    both = [name for name in one if name in other]
    a, b = [one[name] for name in both], [other[name] for name in both]
    return CorrelationPair(first, second, correlation.spearman(a, b), correlation.kendall(a, b))
