"""A matrix as tables of text, Markdown, CSV, LaTeX and JSON data. Shares are in percent."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from assay.report.safe_names import printable
from assay.report.tables import Section, bounds_text, format_number, p_value, percent, section_markdown
from assay.stats.correlation import MIN_PAIRS_FOR_SIGNIFICANCE, Correlation
from assay.stats.power import ALPHA
from assay.studies.matrix.matrix_values import CorrelationPair, Matrix, MatrixCell, MatrixColumn, Ranking, Standing
from assay.studies.matrix.standings import NONE, ranks, score_text, standings

_CHANCE = "picking at random"
_ALL = "all"


@dataclass(frozen=True, slots=True)
class HeatTable:
    """A table with a shade behind each of its numbers.

    Attributes:
        section: the table.
        shades: per row and column after the first, from 0 to 1; None for no shade. Empty for a plain table.
        tips: the tooltip of each shade.
        is_diverging: whether the middle of the scale is neutral.
        legend: what the shades mean.
    """

    section: Section
    shades: tuple[tuple[float | None, ...], ...] = ()
    tips: tuple[tuple[str, ...], ...] = ()
    is_diverging: bool = False
    legend: str = ""


def sections(matrix: Matrix) -> list[Section]:
    """All tables of a matrix; those that would be empty are left out."""
    return [table.section for table in heat_tables(matrix)]


def heat_tables(matrix: Matrix) -> list[HeatTable]:
    """The same with shades."""
    found = [
        _scores(matrix),
        _improvements(matrix, "relative"),
        _improvements(matrix, "bounded"),
        HeatTable(standings(matrix)),
        HeatTable(ranks(matrix)),
        *_correlations("tasks, over models", [column.label for column in matrix.columns], matrix.task_correlations),
        *_correlations("models, over tasks", matrix.models, matrix.model_correlations),
        HeatTable(_gaps(matrix)),
    ]
    return [table for table in found if table.section.rows]


# Scores and improvements


def _grid(
    matrix: Matrix,
    columns: Sequence[MatrixColumn],
    show: Callable[[MatrixCell, MatrixColumn], tuple[str, float | None]],
) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[tuple[float | None, ...]], list[tuple[str, ...]]]:
    """Headings, rows, shades and tips of models against columns; the longer side goes downwards."""
    cells = {(cell.model, cell.key): cell for cell in matrix.cells}

    def one(model: str, column: MatrixColumn) -> tuple[str, float | None, str]:
        cell = cells.get((model, column.key))
        return (NONE, None, "") if cell is None else (*show(cell, column), _tip(cell, column))

    if len(columns) > len(matrix.models):
        headings = ("Task (metric)", *matrix.models)
        lines = [(column.title, [one(model, column) for model in matrix.models]) for column in columns]
    else:
        headings = ("Model", *(column.title for column in columns))
        lines = [(model, [one(model, column) for column in columns]) for model in matrix.models]
    rows = [(name, *(text for text, _, _ in line)) for name, line in lines]
    return (
        headings,
        rows,
        [tuple(shade for _, shade, _ in line) for _, line in lines],
        [tuple(tip for _, _, tip in line) for _, line in lines],
    )


def _tip(cell: MatrixCell, column: MatrixColumn) -> str:
    shown: Callable[[float | None], str] = percent if column.is_share else format_number
    estimate = cell.estimate
    n = f"n = {estimate.n}" if cell.bounds is None else f"n = {estimate.n} of {estimate.n + cell.bounds.failed}"
    if estimate.low is None or estimate.high is None:
        return f"{shown(estimate.value)}, {n}"
    return f"{shown(estimate.value)} [{shown(estimate.low)}, {shown(estimate.high)}], {n}"


def _scores(matrix: Matrix) -> HeatTable:
    def show(cell: MatrixCell, column: MatrixColumn) -> tuple[str, float | None]:
        # A scale from the lowest score of a task to its highest would mark a best model even if all are tied.
        return score_text(cell.estimate, column.is_share), cell.estimate.value if column.is_share else None

    headings, rows, shades, tips = _grid(matrix, matrix.columns, show)
    chances = [percent(column.baseline) for column in matrix.columns]
    if any(column.baseline is not None for column in matrix.columns):
        if len(matrix.columns) > len(matrix.models):
            headings = (*headings, _CHANCE)
            rows = [(*row, chance) for row, chance in zip(rows, chances, strict=True)]
            shades, tips = [(*row, None) for row in shades], [(*row, "") for row in tips]
        else:
            rows.append((_CHANCE, *chances))
            shades.append((None,) * len(chances))
            tips.append(("",) * len(chances))
    others = [column.title for column in matrix.columns if not column.is_share and column.metric != NONE]
    notes = [f"Not in percent: {', '.join(others)}."] if others else []
    section = Section(
        "Scores in %, ± standard error", headings, tuple(rows), (*notes, *_splits(matrix), *_failed_notes(matrix))
    )
    legend = "Shade: the score itself, from 0 (dark) to 100 % (bright); a score that is not a share has none."
    return HeatTable(section, tuple(shades), tuple(tips), legend=legend)


def _splits(matrix: Matrix) -> Iterator[str]:
    """Tasks that have several columns, and why."""
    for name in dict.fromkeys(column.name for column in matrix.columns if column.is_split):
        first, *others = [column.title for column in matrix.columns if column.name == name]
        note = f"{name} has several columns, because its models have different metrics: {', '.join((first, *others))}"
        yield f"{note}. – marks a model without the metric; averages count {first} only."


def _failed_notes(matrix: Matrix) -> Iterator[str]:
    """A line per cell with failed documents: how many, and the score with all of them wrong or right."""
    columns = {column.key: column for column in matrix.columns}
    for cell in matrix.cells:
        if cell.bounds is None:
            continue
        shown: Callable[[float | None], str] = percent if columns[cell.key].is_share else format_number
        total = cell.estimate.n + cell.bounds.failed
        name = f"{cell.model}, {columns[cell.key].label}"
        note = f"{name}: {cell.bounds.failed:,} of {total:,} documents failed and are not in the score"
        yield f"{note}; all wrong … all right with them: {bounds_text(cell.bounds, shown)}"


_FORMULAS = {
    "relative": ("Improvement over picking at random, (score − b) / b", "A score of b gives 0, of 2b gives 1."),
    "bounded": ("The same as a share of what there is to gain, (score − b) / (1 − b)", "A perfect score gives 1."),
}


def _improvements(matrix: Matrix, form: str) -> HeatTable:
    columns = [column for column in matrix.columns if column.baseline is not None]
    known = [abs(value) for cell in matrix.cells if (value := getattr(cell, form)) is not None]
    reach = 1.0 if form == "bounded" else max([1.0, *known])

    def show(cell: MatrixCell, column: MatrixColumn) -> tuple[str, float | None]:
        value = getattr(cell, form)
        return _improvement(cell, form), None if value is None else (max(-1.0, min(1.0, value / reach)) + 1) / 2

    title, note = _FORMULAS[form]
    if not columns:
        return HeatTable(Section(title, (), ()))
    headings, rows, shades, tips = _grid(matrix, columns, show)
    section = Section(title, headings, tuple(rows), (f"b is the share of right choices, document by document. {note}",))
    legend = f"Shade: from −{reach:.1f} (blue) over 0 (white) to {reach:.1f} (orange)."
    return HeatTable(section, tuple(shades), tuple(tips), True, legend)


def _improvement(cell: MatrixCell, form: str) -> str:
    value = getattr(cell, form)
    if value is None or cell.baseline is None:
        return NONE
    scale = cell.baseline if form == "relative" else 1 - cell.baseline
    error = cell.estimate.stderr
    return f"{value:.2f}" + (f" ± {error / scale:.2f}" if error is not None else "")


# Correlations


def _correlations(what: str, names: Sequence[str], links: Sequence[CorrelationPair]) -> Iterator[HeatTable]:
    known = {name for link in links if link.spearman.n for name in (link.first, link.second)}
    order = [name for name in names if name in known]
    for title, kind in (("Spearman's ρ", "spearman"), ("Kendall's τ-b", "kendall")):
        found: dict[tuple[str, str], tuple[Correlation, float | None]] = {}
        for link in links:
            pair = getattr(link, kind), getattr(link, f"{kind}_adjusted")
            found[link.first, link.second] = found[link.second, link.first] = pair
        # Below three pairs there is no correlation, and a table of dashes is useless.
        if all(item.value is None for item, _ in found.values()):
            continue
        grid = [[found.get((one, other)) for other in order] for one in order]
        yield _correlation_table(f"{title} between {what}", order, grid)


def _correlation_table(
    title: str, names: Sequence[str], grid: Sequence[Sequence[tuple[Correlation, float | None] | None]]
) -> HeatTable:
    texts, shades, tips = [], [], []
    for name, line in zip(names, grid, strict=True):
        texts.append((name, *(_coefficient(item) for item in line)))
        shades.append(tuple(None if item is None else _coefficient_shade(item[0]) for item in line))
        tips.append(tuple("" if item is None else _correlation_tip(*item) for item in line))
    section = Section(title, ("", *names), tuple(texts), (_correlation_note(grid),))
    legend = "Shade: from −1 (blue) over 0 (white) to 1 (orange); none where n is too small to tell."
    return HeatTable(section, tuple(shades), tuple(tips), True, legend)


def _correlation_note(grid: Sequence[Sequence[tuple[Correlation, float | None] | None]]) -> str:
    found = [item[0] for line in grid for item in line if item is not None]
    counts = sorted({item.n for item in found})
    note = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    few = max((item.n for item in found if item.has_too_few_pairs and item.value is not None), default=0)
    if few:
        least = p_value(2 / math.factorial(few))
        note += f". In parentheses: n < {MIN_PAIRS_FOR_SIGNIFICANCE}, too few to tell, "
        note += f"since even a perfect order of {few} has p {least}"
    return f"{note}. * p < {ALPHA} after Holm's correction over the table. Positive: the same order of good and bad."


def _coefficient(item: tuple[Correlation, float | None] | None) -> str:
    if item is None:
        return ""
    found, adjusted = item
    if found.value is None:
        return NONE
    if found.has_too_few_pairs:
        return f"({found.value:.2f})"
    return f"{found.value:.2f}" + ("*" if adjusted is not None and adjusted < ALPHA else "")


def _coefficient_shade(found: Correlation) -> float | None:
    return None if found.value is None or found.has_too_few_pairs else (found.value + 1) / 2


def _correlation_tip(found: Correlation, adjusted: float | None) -> str:
    return f"n = {found.n}, p {p_value(found.p)}, after correction {p_value(adjusted)} ({found.method})"


def _gaps(matrix: Matrix) -> Section:
    tasks: dict[tuple[str, str], list[str]] = {}
    for gap in matrix.gaps:
        tasks.setdefault((gap.model, gap.reason), []).append(gap.task)
    rows = tuple((model, ", ".join(names), reason) for (model, reason), names in tasks.items())
    return Section("Cells that could not be filled", ("Model", "Tasks", "Reason"), rows)


# Files


def markdown(matrix: Matrix) -> str:
    """The whole matrix as Markdown."""
    tables = [section_markdown(section) for section in sections(matrix)]
    return "\n\n".join([*tables, *(f"Note: {notice}" for notice in matrix.notices)]) + "\n"


COUNTS = ("total", "scored", "failed", "truncated")
BOUNDS = ("low_with_failed", "high_with_failed")
CSV_HEADINGS = (
    "model",
    "task",
    "metric",
    "filter",
    "higher_is_better",
    "value",
    "stderr",
    "low",
    "high",
    "n",
    "clusters",
    *COUNTS,
    "unparsed",
    *BOUNDS,
    "baseline",
    "relative",
    "bounded",
    "rank_first",
    "rank_last",
    "letters",
    "reason",
)


def csv_text(matrix: Matrix) -> str:
    """One line per cell with all digits; unknown values are empty."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_HEADINGS, lineterminator="\n", restval="")
    writer.writeheader()
    rankings = {ranking.task: ranking for ranking in matrix.rankings}
    for model in matrix.models:
        for column in matrix.columns:
            cell = matrix.at(model, column)
            if cell is not None:
                writer.writerow({**_cell_data(cell), **_rank_data(rankings.get(column.label), model)})
        writer.writerows(asdict(gap) for gap in matrix.gaps if gap.model == model)
    return stream.getvalue()


def _cell_data(cell: MatrixCell) -> dict[str, Any]:
    estimate = cell.estimate
    return {
        **{name: getattr(cell, name) for name in ("model", "task", "metric", "filter", "higher_is_better")},
        **{name: getattr(estimate, name) for name in ("value", "stderr", "low", "high", "n", "clusters")},
        **_counts(cell),
        **({} if cell.bounds is None else dict(zip(BOUNDS, (cell.bounds.low, cell.bounds.high), strict=True))),
        **{name: getattr(cell, name) for name in ("baseline", "relative", "bounded")},
    }


def _counts(cell: MatrixCell) -> dict[str, int]:
    """The document counts of a cell; unparsed answers are those of its own pipeline."""
    known = cell.denominators
    if known is None:
        return {}
    return {**{name: getattr(known, name) for name in COUNTS}, "unparsed": known.unparsed.get(cell.filter, 0)}


def _rank_data(ranking: Ranking | None, model: str) -> dict[str, Any]:
    if ranking is None or model not in ranking.ranks:
        return {}
    ranks = ranking.ranks[model]
    return {"rank_first": ranks.first, "rank_last": ranks.last, "letters": ranking.letters[model]}


_LATEX = {
    "\\": r"\textbackslash{}",
    **{mark: "\\" + mark for mark in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "ρ": r"$\rho$",
    "τ": r"$\tau$",
    "…": r"\dots{}",
}
_SPECIAL = re.compile("[" + re.escape("".join(_LATEX)) + "]")


def latex_escaped(text: str) -> str:
    """A text escaped for LaTeX."""
    return _SPECIAL.sub(lambda found: _LATEX[found.group()], printable(text).replace("\n", " "))


def latex(matrix: Matrix) -> str:
    """Every table as a LaTeX table; no package is needed."""
    return "\n\n".join(_latex(section) for section in sections(matrix)) + "\n"


def _latex(section: Section) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(latex_escaped, cells)) + r" \\"

    caption = " ".join((section.title.rstrip(".") + ".", *section.notes))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{l{'r' * (len(section.headings) - 1)}}}",
            r"\hline",
            line(section.headings),
            r"\hline",
            *map(line, section.rows),
            r"\hline",
            r"\end{tabular}",
            rf"\caption{{{latex_escaped(caption)}}}",
            r"\end{table}",
        ]
    )


def matrix_data(matrix: Matrix) -> dict[str, Any]:
    """The whole matrix as JSON data: every number, and the values of every document."""
    return {
        "models": list(matrix.models),
        "columns": [{"label": column.label, **asdict(column)} for column in matrix.columns],
        "cells": [
            {
                **_cell_data(cell),
                "part": list(cell.part),
                "interval": {"method": cell.estimate.method, "level": cell.estimate.level},
                "documents": dict(zip(cell.documents, cell.values, strict=True)),
            }
            for cell in matrix.cells
        ],
        "gaps": [asdict(gap) for gap in matrix.gaps],
        "standings": [_standing_data(item) for item in matrix.standings],
        "common_tasks": list(matrix.common),
        "rankings": [_ranking_data(item) for item in matrix.rankings],
        "task_correlations": [asdict(link) for link in matrix.task_correlations],
        "model_correlations": [asdict(link) for link in matrix.model_correlations],
        "runs": [asdict(item) for item in matrix.runs],
        "steps": {model: asdict(step) for model, step in matrix.steps.items()},
        "notices": list(matrix.notices),
    }


def _standing_data(item: Standing) -> dict[str, Any]:
    """A model's averages, each with the number of its tasks and their labels."""
    return {
        "model": item.model,
        "score": asdict(item.score),
        "score_columns": len(item.score_tasks),
        "score_tasks": list(item.score_tasks),
        "common": asdict(item.common),
        "relative": item.relative.value,
        "relative_tasks": list(item.relative.tasks),
        "bounded": item.bounded.value,
        "bounded_tasks": list(item.bounded.tasks),
        "baseline_columns": len(item.bounded.tasks),
        "win_rate": {
            "value": item.win_rate.value,
            "columns": len(item.win_rate.tasks),
            "tasks": list(item.win_rate.tasks),
        },
    }


def _ranking_data(item: Ranking) -> dict[str, Any]:
    return {
        "task": _ALL if item.task is None else item.task,
        "over_all_tasks": item.task is None,
        "ranks": {model: asdict(ranks) for model, ranks in item.ranks.items()},
        "letters": dict(item.letters),
        "comparisons": [asdict(comparison) for comparison in item.comparisons],
    }
