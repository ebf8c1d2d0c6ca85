"""What the cells of a matrix say: columns, averages, win rates, shared ranks, correlations. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from assay.core.comparisons import CompareWish, Place
from assay.core.matrices import Column, Gap, Link, Matrix, MatrixCell, ModelRun, Ranking, Standing, WinRate
from assay.core.scores import Estimate
from assay.core.studies import Comparison
from assay.core.variance_axes import task_family
from assay.scoring.comparing import Compared, at_tested_levels, compare_all
from assay.scoring.matching import matched
from assay.scoring.overall import overall_scores
from assay.scoring.pairing import Pairing, told_pair
from assay.scoring.verdicts import judged, ranked
from assay.stats import correlation, multiple, pooled, ranking

Cells = dict[tuple[str, str], MatrixCell]
# Between more columns, or models, no one reads a table of correlations; those of a thousand take many minutes.
MOST_LINKED = 100


def make_matrix(
    models: Sequence[str],
    tasks: Sequence[str],
    cells: Sequence[MatrixCell],
    gaps: Sequence[Gap],
    runs: Sequence[ModelRun],
    notices: Sequence[str],
    seed: int,
) -> Matrix:
    """The whole matrix from its cells.

    Args:
        models: short names, in the order to show them.
        tasks: the columns' names, in the order to show them.
        cells: every score.
        gaps: every cell without one.
        runs: the models' runs.
        notices: what the user ought to know.
        seed: of the sign flips.
    """
    found = {(cell.model, cell.task): cell for cell in cells}
    columns = [_column(task, [cell for cell in cells if cell.task == task]) for task in tasks]
    wins = ranking.win_rates(
        models, [_oriented(column, found) for column in columns if column.higher_is_better is not None]
    )
    return Matrix(
        models=tuple(models),
        columns=tuple(columns),
        cells=tuple(cells),
        gaps=tuple(gaps),
        standings=tuple(_standing(model, columns, found, wins[model]) for model in models),
        rankings=_rankings(models, columns, found, seed),
        task_links=_task_links(columns, found),
        model_links=_model_links(models, columns, found),
        runs=tuple(runs),
        notices=(*notices, *_unlinked(models, columns)),
    )


def _column(task: str, cells: Sequence[MatrixCell]) -> Column:
    """A column from its cells. Models that were asked about the same documents have the same baseline."""
    if not cells:
        return Column(task, "–", "none", None, None, False)
    first = cells[0]
    known = [cell.baseline for cell in cells if cell.baseline is not None]
    values = [cell.estimate.value for cell in cells if cell.estimate.value is not None]
    is_share = first.higher_is_better is True and all(0 <= value <= 1 for value in values)
    baseline = known[0] if len(known) == len(cells) else None
    return Column(task, first.metric, first.filter, first.higher_is_better, baseline, is_share)


def _value(cells: Cells, model: str, column: Column) -> float | None:
    cell = cells.get((model, column.name))
    return None if cell is None else cell.estimate.value


def _oriented(column: Column, cells: Cells) -> dict[str, float]:
    """Model → score, turned so that more is better."""
    sign = -1.0 if column.higher_is_better is False else 1.0
    own = {cell.model: cell.estimate.value for cell in cells.values() if cell.task == column.name}
    return {model: sign * value for model, value in own.items() if value is not None}


# Averages


def _standing(model: str, columns: Sequence[Column], cells: Cells, wins: WinRate) -> Standing:
    own = [(column, cells[model, column.name]) for column in columns if (model, column.name) in cells]
    shares = [cell for column, cell in own if column.is_share and cell.estimate.value is not None]
    relative = [cell.relative for _, cell in own if cell.relative is not None]
    bounded = [cell.bounded for _, cell in own if cell.bounded is not None]
    score = _mean_estimate(shares)
    return Standing(model, score, len(shares), _mean(relative), _mean(bounded), len(bounded), wins)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# Ranks


def _rankings(models: Sequence[str], columns: Sequence[Column], cells: Cells, seed: int) -> tuple[Ranking, ...]:
    """Per column whose models can all be compared; and over all columns that are shares, where there are several."""
    wish = CompareWish(seed=seed)
    found, shares = [], []
    numbers: dict[str, int] = {}
    for column in columns:
        own = {model: cells[model, column.name] for model in models if (model, column.name) in cells}
        compared = _compared(own, column, wish, numbers)
        shares += [compared] if column.is_share else []
        # Two models without a test would look as if the data could not tell them apart.
        if compared and len(compared) == math.comb(len(own), 2) and column.higher_is_better is not None:
            pairs = judged(at_tested_levels(compared, wish), wish)
            scores = {model: cell.estimate for model, cell in own.items()}
            told = [told_pair(pair, pair.task, pair.metric) for pair in pairs]
            found.append(_ranking(column.name, ranked(list(own), scores, pairs, column.higher_is_better), told))
    overall = _overall(models, [column for column in columns if column.is_share], shares, cells, wish)
    return (*found, overall) if overall is not None else tuple(found)


def _ranking(task: str | None, places: Sequence[Place], comparisons: Sequence[Comparison]) -> Ranking:
    ranks, letters = {item.label: item.ranks for item in places}, {item.label: item.letters for item in places}
    return Ranking(task, ranks, letters, tuple(comparisons))


def _compared(
    cells: Mapping[str, MatrixCell], column: Column, wish: CompareWish, numbers: dict[str, int]
) -> list[Compared]:
    """Every two models of a column that were asked about the same documents, as `assay compare` tests runs."""
    pairing = Pairing(column.name, column.metric, column.filter, numbers)
    entries = {model: pairing.entry(model, cell.documents, cell.values, cell.clusters) for model, cell in cells.items()}
    matches = [
        matched(entries[one], entries[other])
        for one, other in combinations(cells, 2)
        if _is_alike(cells[one], cells[other])
    ]
    return compare_all([match for match in matches if match.mine], column.higher_is_better, wish)


def _is_alike(first: MatrixCell, second: MatrixCell) -> bool:
    """Whether the two cells are about the same documents and the same number."""
    return (first.asked, first.metric, first.filter) == (second.asked, second.metric, second.filter)


def _overall(
    models: Sequence[str],
    columns: Sequence[Column],
    compared: Sequence[Sequence[Compared]],
    cells: Cells,
    wish: CompareWish,
) -> Ranking | None:
    """Models over all columns, each counted once; only those that have every column can be compared fairly."""
    whole = [model for model in models if all((model, column.name) in cells for column in columns)]
    if len(whole) < 2 or len(columns) < 2:
        return None
    own = [[item for item in found if {item.score.first, item.score.second} <= set(whole)] for found in compared]
    if any(len(found) < math.comb(len(whole), 2) for found in own):
        return None
    pairs = overall_scores(wish, own)
    if len(pairs) < math.comb(len(whole), 2):  # a mean over the documents in common that is no share
        return None
    scores = {model: _mean_estimate([cells[model, column.name] for column in columns]) for model in whole}
    told = [told_pair(pair, "all", "mean") for pair in pairs]
    return _ranking(None, ranked(whole, scores, pairs, better=True), told)


def _mean_estimate(cells: Sequence[MatrixCell]) -> Estimate:
    estimates = [cell.estimate for cell in cells]
    families = [task_family(cell.task) for cell in cells]
    return pooled.group_estimate(estimates, [estimate.n for estimate in estimates], False, families)


# Correlations


def _task_links(columns: Sequence[Column], cells: Cells) -> tuple[Link, ...]:
    """Between every two columns, over the models that both have."""
    return _links({column.name: _oriented(column, cells) for column in _directed(columns)})


def _directed(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if column.higher_is_better is not None]


def _model_links(models: Sequence[str], columns: Sequence[Column], cells: Cells) -> tuple[Link, ...]:
    """Between every two models, over the columns that are shares; others have no common scale."""
    scores: dict[str, dict[str, float]] = {}
    for model in models:
        known = {column.name: _value(cells, model, column) for column in columns if column.is_share}
        scores[model] = {name: value for name, value in known.items() if value is not None}
    return _links(scores)


def _unlinked(models: Sequence[str], columns: Sequence[Column]) -> Iterator[str]:
    for count, noun in ((len(_directed(columns)), "tasks"), (len(models), "models")):
        if count > MOST_LINKED:
            yield f"no correlations between {noun}: they are found for {MOST_LINKED} at most, and these are {count:,}"


def _links(scores: Mapping[str, dict[str, float]]) -> tuple[Link, ...]:
    """Between every two, with Holm's correction over all, for each coefficient; none where there are too many."""
    if len(scores) > MOST_LINKED:
        return ()
    links = [_link(one, other, scores[one], scores[other]) for one, other in combinations(scores, 2)]
    rho = multiple.holm([link.spearman.p for link in links])
    tau = multiple.holm([link.kendall.p for link in links])
    return tuple(
        replace(link, spearman_adjusted=one, kendall_adjusted=other)
        for link, one, other in zip(links, rho, tau, strict=True)
    )


def _link(first: str, second: str, one: dict[str, float], other: dict[str, float]) -> Link:
    both = [name for name in one if name in other]
    a, b = [one[name] for name in both], [other[name] for name in both]
    return Link(first, second, correlation.spearman(a, b), correlation.kendall(a, b))
