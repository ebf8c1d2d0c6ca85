"""`assay methods`: every way of picking an answer, side by side."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from assay.api import study_methods
from assay.cli.deliver import CommandOutput
from assay.cli.options import (
    add_model_options,
    add_store_option,
    add_task_options,
    make_parser,
    run_settings,
    split_names,
)
from assay.cli.progress_events import TerminalListener
from assay.core.errors import Fault, UserError
from assay.report.figures.sheet import figure_need
from assay.report.result_files import check_output_path, write_each, write_text
from assay.report.safe_names import printable
from assay.report.terminal import ProgressView, make_console, show_notices, show_sections
from assay.studies.methods.methods_report import markdown, sections, study_data, summary
from assay.studies.methods.methods_values import MethodsStudy

_FORMATS = ("table", "markdown", "json")
_FIGURES = ("svg", "png", "none")


def main(arguments: list[str]) -> int:
    """Runs the command; 3 when some requests failed, or a task could not be scored."""
    options = _parser().parse_args(arguments)
    needs = []
    if options.output_path:
        check_output_path(options.output_path)
        needs = [figure_need("figures (or: --figures none)")] if options.figures != "none" else []
    with ProgressView(make_console(stderr=True)) as view:
        study = study_methods(
            options.model,
            split_names(options.tasks),
            styles=split_names(options.styles or []),
            methods=split_names(options.methods),
            phrase=options.phrase,
            store=options.store,
            needs=needs,
            listener=TerminalListener(view),
            **run_settings(options),
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

        panels = split_names(options.panels)
        command_output.show(
            "figures", lambda: command_output.take(written_figures(study, folder, panels, options.figures), console)
        )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise UserError(Fault("--changes", f'is "{text}"', "a whole number, 0 or more"))
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = make_parser(
        "methods",
        "Compares every way of picking an answer on the same answers of a model: what it scores, how far that moves, "
        "which documents change, whether models change places, and what bias each way brings.",
    )
    parser.add_argument(
        "--tasks", "--task", "-t", nargs="+", required=True, help="multiple-choice tasks and groups", metavar="TASK"
    )
    compared = parser.add_argument_group("what is compared")
    compared.add_argument("--styles", nargs="+", metavar="NAME", help="prompt styles; own (default), cloze, letters, …")
    compared.add_argument("--methods", nargs="+", default=["all"], metavar="NAME", help="methods; all by default")
    compared.add_argument("--phrase", default="Answer:", metavar="TEXT", help='of mutual-phrase; "Answer:" by default')
    add_model_options(parser, required=True, several=True)
    add_task_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--output_path", "-o", metavar="DIR", help="folder for study.json, study.md and figures")
    output.add_argument("--format", choices=_FORMATS, default="table", help="of what is printed")
    output.add_argument("--figures", choices=_FIGURES, default="svg", help="kind of figures below --output_path")
    output.add_argument(
        "--panels", nargs="+", default=["raw", "byte"], metavar="METHOD", help="methods in the figures of lengths"
    )
    output.add_argument("--details", action="store_true", help="print all tables: documents, bias of length and place")
    output.add_argument("--changes", type=_count, default=10, metavar="N", help="changed documents to list; 10")
    output.add_argument("--all_changes", action="store_true", help="list every changed document")
    add_store_option(parser)
    return parser
