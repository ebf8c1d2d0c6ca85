"""A matrix as tables of text, Markdown, CSV, LaTeX and JSON data. Shares are in percent."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from assay.core.matrices import Column, Correlation, Link, Matrix, MatrixCell, Ranking, Standing
from assay.core.scores import Estimate, FailureBounds
from assay.core.studies import ALPHA
from assay.report.names import printable
from assay.report.sections import Section, p_value, percent, section_markdown
from assay.report.tables import bounds_text, format_number

NONE = "–"
_CHANCE = "picking at random"
_ALL = "all"


@dataclass(frozen=True, slots=True)
class HeatTable:
    """A table with a shade behind each of its numbers.

    Attributes:
        section: the table.
        shades: per row and column after the first, from 0 to 1; None for no shade. Empty for a plain table.
        tips: per shade, what a pointer over it tells.
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
        HeatTable(_standings(matrix)),
        HeatTable(_ranks(matrix)),
        *_correlations("tasks, over models", [column.name for column in matrix.columns], matrix.task_links),
        *_correlations("models, over tasks", matrix.models, matrix.model_links),
        HeatTable(_gaps(matrix)),
    ]
    return [table for table in found if table.section.rows]


# Scores and improvements


def score_text(estimate: Estimate, is_share: bool) -> str:
    """A score with its standard error, in percent where it is a share."""
    shown: Callable[[float | None], str] = percent if is_share else format_number
    return shown(estimate.value) + (f" ± {shown(estimate.stderr)}" if estimate.stderr is not None else "")


def _grid(
    matrix: Matrix, columns: Sequence[Column], show: Callable[[MatrixCell, Column], tuple[str, float | None]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]], list[tuple[float | None, ...]], list[tuple[str, ...]]]:
    """Headings, rows, shades and tips of models against columns; the longer side goes downwards."""
    cells = {(cell.model, cell.task): cell for cell in matrix.cells}

    def one(model: str, column: Column) -> tuple[str, float | None, str]:
        cell = cells.get((model, column.name))
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


def _tip(cell: MatrixCell, column: Column) -> str:
    shown: Callable[[float | None], str] = percent if column.is_share else format_number
    estimate = cell.estimate
    n = f"n = {estimate.n}" if cell.bounds is None else f"n = {estimate.n} of {estimate.n + cell.bounds.failed}"
    if estimate.low is None or estimate.high is None:
        return f"{shown(estimate.value)}, {n}"
    return f"{shown(estimate.value)} [{shown(estimate.low)}, {shown(estimate.high)}], {n}"


def _scores(matrix: Matrix) -> HeatTable:
    def show(cell: MatrixCell, column: Column) -> tuple[str, float | None]:
        # A scale from the lowest score of a task to its highest would mark a best one where models are tied.
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
    notes = (*((f"Not in percent: {', '.join(others)}",) if others else ()), *_failed_notes(matrix))
    section = Section("Scores in %, ± standard error", headings, tuple(rows), notes)
    legend = "Shade: the score itself, from 0 (dark) to 100 % (bright); a score that is no share has none."
    return HeatTable(section, tuple(shades), tuple(tips), legend=legend)


def _failed_notes(matrix: Matrix) -> Iterator[str]:
    """A line per cell with failed documents: how many, and the score with all of them wrong and right."""
    columns = {column.name: column for column in matrix.columns}
    for cell in matrix.cells:
        if cell.bounds is None:
            continue
        shown: Callable[[float | None], str] = percent if columns[cell.task].is_share else format_number
        total = cell.estimate.n + cell.bounds.failed
        told = (
            f"{cell.model}, {cell.task}: {cell.bounds.failed:,} of {total:,} documents failed and are not in the score"
        )
        yield f"{told}; all wrong … all right with them: {bounds_text(cell.bounds, shown)}"


_FORMULAS = {
    "relative": ("Improvement over picking at random, (score − b) / b", "A score of b gives 0, of 2b gives 1."),
    "bounded": ("The same as a share of what there is to gain, (score − b) / (1 − b)", "A perfect score gives 1."),
}


def _improvements(matrix: Matrix, form: str) -> HeatTable:
    columns = [column for column in matrix.columns if column.baseline is not None]
    known = [abs(value) for cell in matrix.cells if (value := getattr(cell, form)) is not None]
    reach = 1.0 if form == "bounded" else max([1.0, *known])

    def show(cell: MatrixCell, column: Column) -> tuple[str, float | None]:
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


# Standings and ranks


def _standings(matrix: Matrix) -> Section:
    overall = next((ranking for ranking in matrix.rankings if ranking.task is None), None)
    rows = tuple(_standing(item, overall) for item in matrix.standings)
    headings = ("Model", "Mean score", "of tasks", "Relative", "Bounded", "of tasks", "Win rate", "of tasks", "Rank")
    notes = list(_failed_means(matrix))
    if len({(item.score_columns, item.baseline_columns, item.win_rate.columns) for item in matrix.standings}) > 1:
        notes.append("Means of models with different numbers of tasks are not comparable.")
    left_out = [column.title for column in matrix.columns if not column.is_share]
    if left_out:
        notes.append(f"Mean score and rank leave out what is no share: {', '.join(left_out)}.")
    aimless = [column.title for column in matrix.columns if column.higher_is_better is None and column.metric != NONE]
    if aimless:
        notes.append(f"Win rates leave out metrics that do not say which way is better: {', '.join(aimless)}.")
    if any(item.win_rate.columns for item in matrix.standings):
        told = "Win rate: the share of the other models that do worse, beyond chance or not"
        notes.append(f"{told}; ranks tell which differences are more than chance.")
    if overall is not None:
        notes += [f"Rank: {_RANK_NOTE}", *_letterless([overall])]
    return Section("Over all tasks, each counted once", headings, rows, tuple(notes))


def _failed_means(matrix: Matrix) -> Iterator[str]:
    """A line per model with failed documents: its mean score with all of them wrong and right."""
    shares = [column.name for column in matrix.columns if column.is_share]
    for model in matrix.models:
        own = [cell for cell in matrix.cells if cell.model == model and cell.task in shares]
        failed = sum(cell.bounds.failed for cell in own if cell.bounds is not None)
        if not failed:
            continue
        bounds = [cell.bounds or FailureBounds(0, cell.estimate.value, cell.estimate.value) for cell in own]
        lows = [item.low for item in bounds if item.low is not None]
        highs = [item.high for item in bounds if item.high is not None]
        is_known = len(lows) == len(highs) == len(own)
        means = (sum(lows) / len(own), sum(highs) / len(own)) if is_known else (None, None)
        told = bounds_text(FailureBounds(failed, *means), percent)
        yield f"{model}: mean score with its {failed:,} failed documents all wrong … right: {told}"


_RANK_NOTE = (
    "from 1 + how many models are better beyond chance, to all models less those that are worse (paired tests on the "
    f"same documents, p < {ALPHA} after Holm's correction). Models that share a letter cannot be told apart, and their "
    "ranks overlap."
)


def _standing(item: Standing, overall: Ranking | None) -> tuple[str, ...]:
    relative, bounded = (NONE if value is None else f"{value:.2f}" for value in (item.relative, item.bounded))
    return (
        item.model,
        score_text(item.score, True),
        str(item.score_columns),
        relative,
        bounded,
        str(item.baseline_columns),
        NONE if item.win_rate.value is None else f"{item.win_rate.value:.2f}",
        str(item.win_rate.columns),
        rank_text(overall, item.model),
    )


def rank_text(ranking: Ranking | None, model: str) -> str:
    """`2–3 bc`: the ranks that the data allows, and letters."""
    if ranking is None or model not in ranking.ranks:
        return NONE
    return f"{ranking.ranks[model].text} {ranking.letters[model]}".strip()


def _letterless(rankings: Sequence[Ranking]) -> Iterator[str]:
    if any(not any(ranking.letters.values()) for ranking in rankings):
        yield "Ranks without letters: so many would be needed that they would tell nothing."


def _ranks(matrix: Matrix) -> Section:
    own = [ranking for ranking in matrix.rankings if ranking.task is not None]
    if len(own) > len(matrix.models):
        headings = ("Task", *matrix.models)
        rows = [(str(ranking.task), *(rank_text(ranking, model) for model in matrix.models)) for ranking in own]
    else:
        headings = ("Model", *(str(ranking.task) for ranking in own))
        rows = [(model, *(rank_text(ranking, model) for ranking in own)) for model in matrix.models]
    untested = [column.name for column in matrix.columns if column.name not in {ranking.task for ranking in own}]
    notes = [_RANK_NOTE[0].upper() + _RANK_NOTE[1:], *_letterless(own)]
    if untested:
        why = "no mean over the same documents, or too few models"
        notes.append(f"Without ranks ({why}): {', '.join(untested)}.")
    return Section("Ranks per task", headings, tuple(rows) if own else (), tuple(notes))


# Correlations


def _correlations(what: str, names: Sequence[str], links: Sequence[Link]) -> Iterator[HeatTable]:
    known = {name for link in links if link.spearman.n for name in (link.first, link.second)}
    order = [name for name in names if name in known]
    for title, kind in (("Spearman's ρ", "spearman"), ("Kendall's τ-b", "kendall")):
        found: dict[tuple[str, str], tuple[Correlation, float | None]] = {}
        for link in links:
            pair = getattr(link, kind), getattr(link, f"{kind}_adjusted")
            found[link.first, link.second] = found[link.second, link.first] = pair
        # Below three pairs nothing is known, and a table of dashes tells no one anything.
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
        shades.append(
            tuple(None if item is None or item[0].value is None else (item[0].value + 1) / 2 for item in line)
        )
        tips.append(tuple("" if item is None else _correlation_tip(*item) for item in line))
    counts = sorted({item[0].n for line in grid for item in line if item is not None})
    told = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    notes = (
        f"n = {told}. * p < {ALPHA} after Holm's correction over the table. Positive: the same order of good and bad.",
    )
    section = Section(title, ("", *names), tuple(texts), notes)
    legend = "Shade: from −1 (blue) over 0 (white) to 1 (orange)."
    return HeatTable(section, tuple(shades), tuple(tips), True, legend)


def _coefficient(item: tuple[Correlation, float | None] | None) -> str:
    if item is None:
        return ""
    found, adjusted = item
    if found.value is None:
        return NONE
    return f"{found.value:.2f}" + ("*" if adjusted is not None and adjusted < ALPHA else "")


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
    """One line per cell, full digits; nothing stands for what is not known."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_HEADINGS, lineterminator="\n", restval="")
    writer.writeheader()
    rankings = {ranking.task: ranking for ranking in matrix.rankings}
    for model in matrix.models:
        for column in matrix.columns:
            cell = matrix.cell(model, column.name)
            if cell is not None:
                writer.writerow({**_cell_data(cell), **_rank_data(rankings.get(column.name), model)})
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
    """What became of the cell's documents; answers not found are those of its own pipeline."""
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
    """A text that LaTeX sets as it is."""
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
        "columns": [asdict(column) for column in matrix.columns],
        "cells": [
            {
                **_cell_data(cell),
                "interval": {"method": cell.estimate.method, "level": cell.estimate.level},
                "documents": dict(zip(cell.documents, cell.values, strict=True)),
            }
            for cell in matrix.cells
        ],
        "gaps": [asdict(gap) for gap in matrix.gaps],
        "standings": [asdict(item) for item in matrix.standings],
        "rankings": [_ranking_data(item) for item in matrix.rankings],
        "task_correlations": [asdict(link) for link in matrix.task_links],
        "model_correlations": [asdict(link) for link in matrix.model_links],
        "runs": [asdict(item) for item in matrix.runs],
        "steps": {model: asdict(step) for model, step in matrix.steps.items()},
        "notices": list(matrix.notices),
    }


def _ranking_data(item: Ranking) -> dict[str, Any]:
    return {
        "task": _ALL if item.task is None else item.task,
        "over_all_tasks": item.task is None,
        "ranks": {model: asdict(ranks) for model, ranks in item.ranks.items()},
        "letters": dict(item.letters),
        "comparisons": [asdict(comparison) for comparison in item.comparisons],
    }
