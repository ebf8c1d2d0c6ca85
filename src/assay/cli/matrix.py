"""`assay matrix`: several models on several tasks, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from assay.api import evaluate_matrix
from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.report.deliver import CommandOutput
from assay.report.result_files import Maker, check_output_path, write_each, write_text
from assay.report.safe_names import file_name, printable
from assay.report.terminal import ProgressView, make_console, show_notices, show_sections
from assay.studies.matrix.checkpoint_curves import curves
from assay.studies.matrix.matrix_page import page
from assay.studies.matrix.matrix_tables import csv_text, latex, markdown, matrix_data, sections
from assay.studies.matrix.matrix_values import Matrix


def _json(matrix: Matrix) -> str:
    return json.dumps(matrix_data(matrix), indent=1, ensure_ascii=False) + "\n"


# Name of a format → the file's ending, and what makes its text.
_FORMATS = {
    "markdown": ("md", markdown),
    "csv": ("csv", csv_text),
    "latex": ("tex", latex),
    "json": ("json", _json),
    "html": ("html", page),
}


def main(line: CommandLine) -> int:
    """Runs the command; 3 when some requests failed or cells stayed empty."""
    options = line.options
    if options.output_path:
        check_output_path(options.output_path)
    settings, metrics = line.settings, options.metric or []
    if metrics and metrics[0].startswith("+"):  # reported besides the tasks' own
        settings["metrics"] = metrics
    settings["bootstrap_iters"] = 0  # lm-eval's errors are not shown here
    with ProgressView(make_console(stderr=True)) as view:
        matrix = evaluate_matrix(
            options.model,
            options.tasks,
            metric=[name.removeprefix("+") for name in metrics],
            store=options.store,
            listener=TerminalListener(view),
            **settings,
        )
    command_output = CommandOutput()
    if options.format == "text":
        command_output.show("the tables", lambda: _show(matrix))
    else:
        command_output.show(f"--format {options.format}", lambda: print(_FORMATS[options.format][1](matrix), end=""))
        show_notices(matrix.notices, make_console(stderr=True))
    if options.output_path:
        folder, console = Path(options.output_path).expanduser(), make_console(stderr=True)
        command_output.take(write_each(_files(matrix, folder)), console)
        command_output.show("the curves", lambda: command_output.take(write_each(_curves(matrix, folder)), console))
    return command_output.code((), not matrix.failed and not matrix.gaps)


def _files(matrix: Matrix, folder: Path) -> Iterator[tuple[Path, Maker]]:
    def maker(make: Callable[[Matrix], str]) -> Maker:
        return lambda path: write_text(path, make(matrix))

    return ((folder / f"matrix.{ending}", maker(make)) for ending, make in _FORMATS.values())


def _curves(matrix: Matrix, folder: Path) -> Iterator[tuple[Path, Maker]]:
    def maker(figure: str) -> Maker:
        return lambda path: write_text(path, figure + "\n")

    return ((folder / f"curve_{file_name(task)}.svg", maker(figure)) for task, figure in curves(matrix).items())


def _show(matrix: Matrix) -> None:
    console = make_console()
    show_sections(sections(matrix), console)
    show_notices(matrix.notices, console)
    for run in matrix.runs:
        counts = f"{run.counts.known:,} answers known, {run.counts.asked:,} asked, {run.counts.failed:,} failed"
        console.print(printable(f"record: {run.model}, run {run.run_id} in {run.store}: {counts}"), markup=False)
