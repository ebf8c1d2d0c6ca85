"""The figures of a methods study: the numbers that each one shows, and its file name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.report.figures.plots import LengthPanel, PositionRow, SpreadBar, length_figure, position_chart, spread_chart
from assay.report.result_files import Maker, WrittenFiles, write_each
from assay.report.safe_names import file_name
from assay.studies.methods.methods_values import MethodsCell, MethodsStudy

Files = Iterator[tuple[Path, Maker]]


def write_figures(study: MethodsStudy, folder: Path, panels: Sequence[str], suffix: str) -> list[Path]:
    """Writes what `written_figures` does. Raises any failure after everything else is written."""
    return written_figures(study, folder, panels, suffix).checked()


def written_figures(study: MethodsStudy, folder: Path, panels: Sequence[str], suffix: str) -> WrittenFiles:
    """Writes all figures: spreads overall and per style, and lengths and positions per task and model.

    Args:
        study: the study.
        folder: the output folder; created if necessary.
        panels: methods, or `method@style`, shown in the figures of lengths and positions.
        suffix: `svg` or `png`.
    """
    chosen = _chosen(study, panels)
    files = list(_spreads(study, folder, suffix))
    for task in study.tasks:
        for model in study.models:
            cells = [cell for cell in chosen if (cell.task, cell.model) == (task, model)]
            if cells:
                files += _of_cells(study, cells, folder, suffix)
    return write_each(files)


def _of_cells(study: MethodsStudy, cells: Sequence[MethodsCell], folder: Path, suffix: str) -> Files:
    task, model = cells[0].task, cells[0].model
    name = file_name(f"{task}_{model}")
    lengths, places = folder / f"lengths_{name}.{suffix}", folder / f"places_{name}.{suffix}"
    title = f"{task}, {model}: does the method err where the right choice is long or short?"
    yield lengths, lambda path: length_figure([_panel(cell, study) for cell in cells], path, title)
    picked = f"{task}, {model}: which places are picked"
    yield places, lambda path: position_chart(_rows(study, cells), path, picked)


def _chosen(study: MethodsStudy, panels: Sequence[str]) -> list[MethodsCell]:
    names = {name for cell in study.cells for name in (cell.name, cell.method)}
    unknown = [panel for panel in panels if panel not in names]
    if unknown:
        expected = "one of " + ", ".join(dict.fromkeys(cell.name for cell in study.cells))
        raise UserError(Fault("--panels", f"the methods study has no {', '.join(unknown)}", expected))
    return [cell for cell in study.cells if {cell.name, cell.method} & set(panels)]


def _spreads(study: MethodsStudy, folder: Path, suffix: str) -> Files:
    title, whole = "How far the accuracy moves with the way an answer is picked", folder / f"spread.{suffix}"
    if len(study.styles) == 1:
        yield whole, _spread(_bars(study, study.styles[0]), title)
        return
    yield whole, _spread(_bars(study, None), "How far the accuracy moves with prompt style and method")
    for style in study.styles:
        bars = _bars(study, style)
        if bars:
            yield folder / f"spread_{file_name(style)}.{suffix}", _spread(bars, f"{title} ({style})")


def _spread(bars: Sequence[SpreadBar], title: str) -> Maker:
    return lambda path: spread_chart(bars, path, title)


def _bars(study: MethodsStudy, style: str | None) -> list[SpreadBar]:
    """One bar per task and model over the methods of a style; over all styles, only its two ends are marked."""
    bars = []
    spreads = {(item.task, item.model, item.style): item.chance for item in study.spreads}
    for task in study.tasks:
        for model in study.models:
            cells = [cell for cell in study.cells if (cell.task, cell.model) == (task, model)]
            cells = [cell for cell in cells if style in (None, cell.style)]
            scores = {cell.name if style is None else cell.method: cell.estimate.value or 0.0 for cell in cells}
            if scores:
                ends = {"lowest": min(scores.values()), "highest": max(scores.values())}
                n, chance = max(cell.estimate.n for cell in cells), spreads.get((task, model, style))
                reach = None if chance is None else chance.reach
                shown = ends if style is None else scores
                bars.append(SpreadBar(task, model, shown, study.chances.get(task), n, reach))
    return bars


def _panel(cell: MethodsCell, study: MethodsStudy) -> LengthPanel:
    rows = [
        (*found, hit < 1)
        for document, hit in zip(cell.documents, cell.hits, strict=True)
        if (found := study.questions[document].compared_lengths) is not None
    ]
    correct, wrong, missed = zip(*rows, strict=True) if rows else ((), (), ())
    return LengthPanel(cell.name, correct, wrong, missed, "characters")


def _rows(study: MethodsStudy, cells: Sequence[MethodsCell]) -> list[PositionRow]:
    wanted = {(cell.task, cell.model, cell.name) for cell in cells}
    return [
        PositionRow(item.cell, _shares(item.picked), _shares(item.right), sum(item.picked))
        for item in study.places
        if (item.task, item.model, item.cell) in wanted
    ]


def _shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts)
    return [count / total if total else 0.0 for count in counts]
