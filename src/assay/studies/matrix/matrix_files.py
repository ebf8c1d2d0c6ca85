"""Files and terminal report of `assay matrix`: the tables in five formats, and the curves of checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from assay.report.deliver import CommandOutput
from assay.report.result_files import Maker, ReportFormats, WrittenFiles, names_file, write_each, write_text
from assay.report.safe_names import file_name, printable
from assay.report.terminal import make_console, show_notices, show_sections
from assay.studies.matrix.checkpoint_curves import curves
from assay.studies.matrix.matrix_page import page
from assay.studies.matrix.matrix_tables import csv_text, latex, markdown, matrix_data, sections
from assay.studies.matrix.matrix_values import Matrix

MATRIX_FORMATS = ReportFormats(
    "matrix",
    {
        "markdown": (".md", markdown),
        "csv": (".csv", csv_text),
        "latex": (".tex", latex),
        "json": (".json", lambda matrix: json.dumps(matrix_data(matrix), indent=1, ensure_ascii=False)),
        "html": (".html", page),
    },
)


def show_matrix(matrix: Matrix, form: str, output_path: str | None) -> int:
    """Prints a matrix and writes its files; returns the exit code, 3 if requests failed or cells are empty.

    Args:
        matrix: the matrix.
        form: `text`, or a format of `MATRIX_FORMATS`.
        output_path: a file, or a folder for all files; None for no files.
    """
    output, errors = CommandOutput(), make_console(stderr=True)
    if form == "text":
        output.show("the tables", lambda: _print_tables(matrix))
    else:
        output.show_text(MATRIX_FORMATS, form, matrix)
        show_notices(matrix.notices, errors)
    if output_path:
        output.take(MATRIX_FORMATS.write(matrix, output_path), errors)
        output.show("the curves", lambda: output.take(_written_curves(matrix, output_path), errors))
    return output.code((), not matrix.failed and not matrix.gaps)


def _written_curves(matrix: Matrix, output_path: str | Path) -> WrittenFiles:
    """Writes curves into a folder; none if the path names a single file."""
    if names_file(output_path, MATRIX_FORMATS.suffixes):
        return WrittenFiles()
    return write_each(_curve_files(matrix, Path(output_path).expanduser()))


def _curve_files(matrix: Matrix, folder: Path) -> Iterator[tuple[Path, Maker]]:
    def maker(figure: str) -> Maker:
        return lambda path: write_text(path, figure + "\n")

    return ((folder / f"curve_{file_name(task)}.svg", maker(figure)) for task, figure in curves(matrix).items())


def _print_tables(matrix: Matrix) -> None:
    console = make_console()
    show_sections(sections(matrix), console)
    show_notices(matrix.notices, console)
    for run in matrix.runs:
        counts = f"{run.counts.known:,} answers known, {run.counts.asked:,} executed, {run.counts.failed:,} failed"
        console.print(printable(f"record: {run.model}, run {run.run_id} in {run.store}: {counts}"), markup=False)
