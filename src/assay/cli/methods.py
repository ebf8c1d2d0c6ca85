"""`assay methods`: the methods of scoring multiple-choice answers, side by side."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from assay.api import study_methods
from assay.cli.progress_events import TerminalListener
from assay.options.parser import CommandLine
from assay.report.deliver import CommandOutput
from assay.report.figures.sheet import figure_need
from assay.report.result_files import check_output_path, write_each, write_text
from assay.report.safe_names import printable
from assay.report.terminal import ProgressView, make_console, show_notices, show_sections
from assay.studies.methods.methods_report import markdown, sections, study_data, summary
from assay.studies.methods.methods_values import MethodsStudy


def main(line: CommandLine) -> int:
    """Runs the command; 3 when some requests failed, or a task could not be scored."""
    options = line.options
    needs = []
    if options.output_path:
        check_output_path(options.output_path)
        needs = [figure_need("figures (or: --figures none)")] if options.figures != "none" else []
    with ProgressView(make_console(stderr=True)) as view:
        study = study_methods(
            options.model,
            options.tasks,
            styles=options.styles or [],
            methods=options.methods,
            phrase=options.phrase,
            store=options.store,
            needs=needs,
            listener=TerminalListener(view),
            **line.settings,
        )
    command_output = CommandOutput()
    command_output.show("the tables", lambda: _show(study, options))
    if options.output_path:
        _write(study, Path(options.output_path).expanduser(), options, command_output)
    problems = [problem for result in study.runs.values() for problem in result.problems]
    return command_output.code(problems, all(result.is_whole for result in study.runs.values()))


def _show(study: MethodsStudy, options: argparse.Namespace) -> None:
    if options.format == "json":
        print(json.dumps(study_data(study), indent=2))
        return
    most = None if options.all_changes else options.changes
    if options.format == "markdown":
        print(markdown(study, most), end="")
        return
    console = make_console()
    is_whole = options.details or options.all_changes
    show_sections(sections(study, most) if is_whole else summary(study), console)
    show_notices(study.notices, console)
    for label, result in study.runs.items():
        console.print(printable(f"record: {label}, run {result.run_id} in {result.store}"), markup=False)


def _write(study: MethodsStudy, folder: Path, options: argparse.Namespace, command_output: CommandOutput) -> None:
    texts: list[tuple[Path, Callable[[Path], object]]] = [
        (folder / "study.json", lambda path: write_text(path, json.dumps(study_data(study), indent=1))),
        (folder / "study.md", lambda path: write_text(path, markdown(study, options.changes))),
    ]
    console = make_console(stderr=True)
    command_output.take(write_each(texts), console)
    if options.figures != "none":
        from assay.studies.methods.methods_figures import written_figures

        command_output.show(
            "figures",
            lambda: command_output.take(written_figures(study, folder, options.panels, options.figures), console),
        )
