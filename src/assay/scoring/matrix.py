"""What the cells of a matrix say: columns, averages, win rates, shared ranks, correlations. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from assay.core.matrices import Column, Gap, Link, Matrix, MatrixCell, ModelRun, Ranking, Standing, WinRate
from assay.core.studies import ALPHA, Comparison
from assay.stats import correlation, multiple, paired, pooled, ranking

Cells = dict[tuple[str, str], MatrixCell]


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
        notices=tuple(notices),
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
    shares = [cell.estimate for column, cell in own if column.is_share and cell.estimate.value is not None]
    relative = [cell.relative for _, cell in own if cell.relative is not None]
    bounded = [cell.bounded for _, cell in own if cell.bounded is not None]
    score = pooled.group_estimate(shares, [estimate.n for estimate in shares], by_size=False)
    return Standing(model, score, len(shares), _mean(relative), _mean(bounded), len(bounded), wins)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# Ranks


def _rankings(models: Sequence[str], columns: Sequence[Column], cells: Cells, seed: int) -> tuple[Ranking, ...]:
    """Per column whose models can all be compared; and over all columns that are shares, where there are several."""
    found = []
    for column in columns:
        own = [cells[model, column.name] for model in models if (model, column.name) in cells]
        compared = _compared(own, seed)
        # Two models without a test would look as if the data could not tell them apart.
        if compared and len(compared) == len(own) * (len(own) - 1) // 2 and column.higher_is_better is not None:
            found.append(
                _ranking(column.name, [cell.model for cell in own], _oriented(column, cells), compared, column)
            )
    shares = [column for column in columns if column.is_share]
    overall = _overall(models, shares, cells, seed) if len(shares) > 1 else None
    return (*found, overall) if overall is not None else tuple(found)


def _ranking(
    task: str | None,
    models: Sequence[str],
    scores: dict[str, float],
    comparisons: Sequence[Comparison],
    column: Column | None = None,
) -> Ranking:
    """Ranks from comparisons, after Holm's correction over them."""
    adjusted = multiple.holm([item.p for item in comparisons])
    tested = tuple(replace(item, adjusted=p) for item, p in zip(comparisons, adjusted, strict=True))
    is_less_better = column is not None and column.higher_is_better is False
    separated = []
    for item in tested:
        difference = -(item.difference or 0.0) if is_less_better else item.difference or 0.0
        if item.adjusted < ALPHA and difference:
            separated.append((item.first, item.second) if difference > 0 else (item.second, item.first))
    best_first = sorted(models, key=lambda model: -scores.get(model, 0.0))
    return Ranking(task, ranking.ranks(best_first, separated), ranking.letters(best_first, separated), tested)


def _compared(cells: Sequence[MatrixCell], seed: int) -> list[Comparison]:
    """Every two models of a column that were asked about the same documents."""
    found = []
    for first, second in combinations(cells, 2):
        one, other = _shared(first, second)
        if one:
            test = paired.compare_pair(one, other, seed)
            ends = (test.difference, test.low, test.high, test.p, test.p, test.method, test.n)
            found.append(Comparison(first.task, first.metric, first.model, second.model, *ends))
    return found


def _shared(first: MatrixCell, second: MatrixCell) -> tuple[list[float], list[float]]:
    """The values of both cells on the documents that both have; none where other documents were asked about."""
    if first.asked != second.asked or (first.metric, first.filter) != (second.metric, second.filter):
        return [], []
    known = dict(zip(second.documents, second.values, strict=True))
    both = [(value, known[name]) for name, value in zip(first.documents, first.values, strict=True) if name in known]
    return [one for one, _ in both], [other for _, other in both]


def _overall(models: Sequence[str], columns: Sequence[Column], cells: Cells, seed: int) -> Ranking | None:
    """Models over all columns, each counted once; only those that have every column can be compared fairly."""
    whole = [model for model in models if all((model, column.name) in cells for column in columns)]
    if len(whole) < 2:
        return None
    compared = []
    for first, second in combinations(whole, 2):
        differences, count = [], 0
        for column in columns:
            one, other = _shared(cells[first, column.name], cells[second, column.name])
            differences.append([x - y for x, y in zip(one, other, strict=True)])
            count += len(one)
        if not all(differences):
            return None
        difference, p = ranking.macro_test(differences, seed)
        compared.append(Comparison("all", "mean", first, second, difference, None, None, p, p, "sign-flip", count))
    scores = {model: sum(_value(cells, model, column) or 0.0 for column in columns) for model in whole}
    return _ranking(None, whole, scores, compared)


# Correlations


def _task_links(columns: Sequence[Column], cells: Cells) -> tuple[Link, ...]:
    """Between every two columns, over the models that both have."""
    directed = [column for column in columns if column.higher_is_better is not None]
    scores = {column.name: _oriented(column, cells) for column in directed}
    return _adjusted([_link(one, other, scores[one], scores[other]) for one, other in combinations(scores, 2)])


def _model_links(models: Sequence[str], columns: Sequence[Column], cells: Cells) -> tuple[Link, ...]:
    """Between every two models, over the columns that are shares; others have no common scale."""
    scores: dict[str, dict[str, float]] = {}
    for model in models:
        known = {column.name: _value(cells, model, column) for column in columns if column.is_share}
        scores[model] = {name: value for name, value in known.items() if value is not None}
    return _adjusted([_link(one, other, scores[one], scores[other]) for one, other in combinations(models, 2)])


def _link(first: str, second: str, one: dict[str, float], other: dict[str, float]) -> Link:
    both = [name for name in one if name in other]
    a, b = [one[name] for name in both], [other[name] for name in both]
    return Link(first, second, correlation.spearman(a, b), correlation.kendall(a, b))


def _adjusted(links: Sequence[Link]) -> tuple[Link, ...]:
    """With Holm's correction over all links, for each coefficient."""
    rho = multiple.holm([link.spearman.p for link in links])
    tau = multiple.holm([link.kendall.p for link in links])
    return tuple(
        replace(link, spearman_adjusted=one, kendall_adjusted=other)
        for link, one, other in zip(links, rho, tau, strict=True)
    )
