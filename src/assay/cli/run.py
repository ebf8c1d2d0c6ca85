"""`assay run`: evaluate a model on tasks."""

from __future__ import annotations

import argparse
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from assay.api import evaluate_row
from assay.cli.config_file import with_config
from assay.cli.deliver import CommandOutput
from assay.cli.options import (
    add_fit_options,
    add_run_options,
    add_stopping_options,
    add_store_option,
    fit_settings,
    ignored,
    interpreted_model_lines,
    make_parser,
    run_settings,
    split_names,
    stopping_settings,
    with_default_model,
)
from assay.cli.progress_events import TerminalListener
from assay.cli.show import print_document
from assay.core.errors import AssayError, Fault, StoreError, UserError
from assay.core.packages import RequiredPackage
from assay.core.results import RunResult
from assay.report.figures.sheet import check_figure
from assay.report.result_files import check_output_path, different_names, sample_notices, write_each, written_results
from assay.report.safe_names import printable
from assay.report.terminal import ProgressView, make_console, show_notices, show_result
from assay.run.many import SharedTasks
from assay.run.resolve import open_catalog, resolve_tasks
from assay.settings import ModelRow, make_spec, model_rows
from assay.studies.variance.prompt_figure import write_prompt_figure

# The options that make axes of a run; prompts may also stand in task files.
_AXES = ("seeds", "orders", "draws", "prompts")
_FIGURES = ("prompt_figure", "axes_figure", "reliability_figure")


def main(arguments: list[str]) -> int:
    """Runs the command; 3 when some requests failed, or a task could not be scored."""
    parser = make_run_parser()
    configured = with_config(parser, arguments)
    options = parser.parse_args(with_default_model(configured.arguments))
    lines = ignored(options)
    if (options.log_samples or options.predict_only) and not options.output_path:
        flag = "--log_samples" if options.log_samples else "--predict_only"
        raise UserError(Fault(flag, "needs a place to write to", next="Add --output_path DIR"))
    needs = [check_figure(path, f"--{name}") for name in _FIGURES if (path := getattr(options, name))]
    if options.audit is not None:
        _most(options.audit)
    # A run makes few cycles and many long-lived values; looking through all of them for garbage takes a tenth of
    # the time of a run without a model.
    gc.set_threshold(5_000_000, 20, 20)
    show_notices([*configured.notices, *lines, *interpreted_model_lines(options.model)], make_console(stderr=True))
    settings = run_settings(options)
    settings["predict_only"] = options.predict_only
    settings["bootstrap_iters"] = options.bootstrap_iters
    settings["finetune"] = fit_settings(options)
    settings["finetune_together"] = options.together
    settings.update(stopping_settings(options))
    if options.output_path:
        check_output_path(options.output_path)
    rows = [item for row in model_rows(options.model, settings) for item in _per_training(options, row)]
    if options.axes_figure and not any(getattr(options, name) for name in _AXES):
        _check_prompts(rows, "--axes_figure", 2)
    if options.prompt_figure and not options.prompts:
        _check_prompts(rows, "--prompt_figure", 1)
    if len(rows) == 1:
        return _finish(options, _evaluated(options, *rows[0], needs, SharedTasks()))
    marks = different_names(_marks(rows))
    shared = SharedTasks()
    codes = [_one_of_several(options, *row, needs, mark, shared) for row, mark in zip(rows, marks, strict=True)]
    if AssayError.exit_code in codes:
        return AssayError.exit_code
    return UserError.exit_code if all(code == UserError.exit_code for code in codes) else 3 if any(codes) else 0


def _check_prompts(rows: Sequence[tuple[ModelRow, list[str]]], flag: str, least: int) -> None:
    """A figure needs a task in so many prompts where the run varies nothing: said before anything is asked."""
    for row, names in rows:
        spec = make_spec(row.name, names, **row.settings)
        tasks = resolve_tasks(spec, names, open_catalog(spec.include_path)).tasks
        variants = [task.card.variant for task in tasks]
        counts = Counter(variant.task for variant in variants if variant is not None and variant.prompt is not None)
        if max(counts.values(), default=0) < least:
            found = "no task of the run is asked in several ways"
            varied = "--seeds, --orders, --draws or --prompts"
            raise UserError(Fault(flag, found, varied if least > 1 else "--prompts, or a task file with prompts"))


def _per_training(options: argparse.Namespace, row: ModelRow) -> list[tuple[ModelRow, list[str]]]:
    """A model with the tasks of its run; one that is trained for every task by itself has a run for each."""
    names = split_names(options.tasks)
    is_alone = row.fit is None or options.together
    return [(row, names)] if is_alone else [(row, [name]) for name in names]


def _marks(rows: Sequence[tuple[ModelRow, list[str]]]) -> list[str]:
    """What tells the files of several runs apart: the model, and its tasks where it has a run for each."""
    labels = [row.label for row, _ in rows]
    return ["_".join((row.label, *tasks)) if labels.count(row.label) > 1 else row.label for row, tasks in rows]


def _evaluated(
    options: argparse.Namespace,
    row: ModelRow,
    tasks: list[str],
    needs: Sequence[RequiredPackage],
    shared: SharedTasks,
) -> RunResult:
    with ProgressView(make_console(stderr=True)) as view:
        listener = TerminalListener(view)
        return evaluate_row(row, tasks, shared, options.store, needs, listener)


def _one_of_several(
    options: argparse.Namespace,
    row: ModelRow,
    tasks: list[str],
    needs: Sequence[RequiredPackage],
    mark: str,
    shared: SharedTasks,
) -> int:
    """Runs one model. One that cannot be asked leaves the others their turn; a broken store is everyone's."""
    make_console(stderr=True).print(printable(f"model {row.label}"), style="bold", markup=False)
    try:
        result = _evaluated(options, row, tasks, needs, shared)
        make_console().print(printable(f"model {row.label}"), style="bold", markup=False)
        return _finish(options, result, _NamedModel(row.label, mark))
    except StoreError:
        raise
    except UserError as error:
        for fault in error.faults:
            make_console(stderr=True).print(printable(f"error: {row.label}: {fault}"), style="red", markup=False)
        return error.exit_code
    except AssayError as error:
        make_console(stderr=True).print(printable(f"bug: {row.label}: {error}"), style="red", markup=False)
        return error.exit_code


@dataclass(frozen=True, slots=True)
class _NamedModel:
    """One of several models: what it is called, and what marks its files."""

    label: str
    mark: str


def _finish(options: argparse.Namespace, result: RunResult, model: _NamedModel | None = None) -> int:
    console, command_output, audit = make_console(), CommandOutput(), {}
    if options.write_out:
        command_output.show("--write_out", lambda: _show_documents(result, console))
    # Shown before files are written: a full disk must not hide the numbers.
    command_output.show("the table", lambda: show_result(_with_names(result, model), console))
    if options.reliability_figure:
        from assay.studies.calibration.reliability import with_reliability  # most runs have no use for it

        held = [result]
        command_output.show("--reliability_figure", lambda: held.append(with_reliability(result)))
        result = held[-1]
    if options.audit is not None:
        command_output.show("--audit", lambda: audit.update(_audited(result, options.audit, console)))
    if options.output_path:
        log_samples = options.log_samples or options.predict_only
        show_notices(sample_notices(result) if log_samples else [], make_console(stderr=True))
        command_output.take(written_results(result, options.output_path, log_samples, audit or None), console)
    # Last: a figure for which the run has nothing to show must not cost the files.
    command_output.take(write_each(_figures(options, result, model)), console)
    return command_output.code(result.problems, result.is_whole)


def _show_documents(result: RunResult, console: Console) -> None:
    for task in result.tasks:
        for first in task.answered[:1]:
            print_document(console, first.document, first.instance)


def _with_names(result: RunResult, model: _NamedModel | None) -> RunResult:
    """The run with notices that name its model, where there are several."""
    if model is None:
        return result
    return replace(result, notices=tuple(f"{model.label}: {notice}" for notice in result.notices))


def _figures(
    options: argparse.Namespace, result: RunResult, model: _NamedModel | None
) -> Iterator[tuple[Path, Callable[[Path], object]]]:
    """The figures that were asked for; of several models each has files of its own."""

    def own(path: str) -> Path:
        target = Path(path)
        return target if model is None else target.with_name(f"{target.stem}_{model.mark}{target.suffix}")

    if options.prompt_figure:
        yield own(options.prompt_figure), lambda path: write_prompt_figure(result.prompts, path)
    if options.axes_figure:
        from assay.studies.variance.variance_figure import write_axes_figure  # most runs have no use for it

        yield own(options.axes_figure), lambda path: write_axes_figure(result.variance, path)
    if options.reliability_figure:
        from assay.studies.calibration.reliability_figure import write_reliability_figure

        yield (
            own(options.reliability_figure),
            lambda path: write_reliability_figure(result.tasks, path),
        )


def _audited(result: RunResult, wanted: str, console: Console) -> dict[str, Any]:
    """Shows the audit; gives it as data."""
    from assay.studies.audit.audit_report import audit_data, audit_lines
    from assay.studies.audit.extraction_audit import audit_run

    audits = audit_run(result.tasks)
    for line in audit_lines(audits, _most(wanted)):
        console.print(line, markup=False, soft_wrap=True)
    return audit_data(audits)


def _most(text: str) -> int | None:
    """How many documents an audit shows; None for all."""
    if text == "all":
        return None
    if not text.isdecimal():
        raise UserError(Fault("--audit", f'is "{text}"', "a number of documents, or all"))
    return int(text)


def make_run_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = make_parser(
        "run", "Evaluates one or more models on tasks. Repeating the command continues an interrupted run."
    )
    parser.add_argument("--config", "-C", metavar="FILE", help="YAML file with options; the command line wins over it")
    add_run_options(parser, several=True)
    add_stopping_options(parser)
    add_fit_options(parser, is_lap=True)
    output = parser.add_argument_group(
        "output", "Figures of several models are a file each, with the model in its name."
    )
    output.add_argument("--output_path", "-o", metavar="DIR", help="folder for result files")
    output.add_argument("--log_samples", "-s", action="store_true", help="also write every document's answers")
    output.add_argument("--predict_only", "-x", action="store_true", help="record answers, compute no metric")
    output.add_argument("--write_out", "-w", action="store_true", help="print the first document of each task")
    output.add_argument(
        "--audit",
        nargs="?",
        const="20",
        metavar="N",
        help="tell how answers were read from generated text, and where rules disagree (N documents, or all; 20)",
    )
    output.add_argument(
        "--prompt_figure",
        metavar="FILE",
        help="draw the scores of all prompts of each task (.svg or .png)",
    )
    output.add_argument(
        "--axes_figure", metavar="FILE", help="draw the scores of all levels and the sources of variance (.svg or .png)"
    )
    output.add_argument(
        "--reliability_figure", metavar="FILE", help="draw confidence against accuracy of each task (.svg or .png)"
    )
    output.add_argument("--bootstrap_iters", type=int, default=100_000, metavar="N", help="0: no lm-eval errors")
    add_store_option(parser)
    return parser
