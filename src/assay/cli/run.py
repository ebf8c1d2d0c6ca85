"""`assay run`: evaluate one or more models on tasks."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from assay.api import evaluate_row
from assay.cli.progress_events import TerminalListener
from assay.core.errors import AssayError, Fault, StoreError, UserError
from assay.core.packages import RequiredPackage
from assay.core.results import RunResult
from assay.options.model_rows import ModelRun, interpreted_model_lines, model_runs
from assay.options.parser import CommandLine
from assay.options.specification import make_spec
from assay.report.deliver import CommandOutput
from assay.report.document_view import print_document
from assay.report.figures.sheet import check_figure
from assay.report.result_files import check_output_path, sample_notices, write_each, written_results
from assay.report.safe_names import printable
from assay.report.terminal import ProgressView, make_console, show_notices, show_result
from assay.run.many import SharedTasks
from assay.studies.calibration.reliability import with_reliability

# Option → the figure that it names a file for. `assay plot` draws the same from the record.
_FIGURES = {"prompt_figure": "prompts", "axes_figure": "axes", "reliability_figure": "reliability"}
# Settings that vary a run.
_VARIED = ("fewshot_seeds", "orders", "draws", "prompts")


def main(line: CommandLine) -> int:
    """Runs the command; 3 when some requests failed, or a task could not be scored."""
    options, settings = line.options, line.settings
    if (options.log_samples or settings.get("predict_only")) and not options.output_path:
        flag = "--log_samples" if options.log_samples else "--predict_only"
        raise UserError(Fault(flag, "needs a place to write to", next="Add --output_path DIR"))
    needs = [check_figure(path, f"--{name}") for name in _FIGURES if (path := getattr(options, name))]
    # A run makes few cycles and many long-lived values; looking through all of them for garbage takes a tenth of
    # the time of a run without a model.
    gc.set_threshold(5_000_000, 20, 20)
    show_notices([*line.notices, *interpreted_model_lines(options.model)], make_console(stderr=True))
    if options.output_path:
        check_output_path(options.output_path)
    runs = model_runs(options.model, options.tasks, settings)
    _check_figures(line, runs)
    if len(runs) == 1:
        return _finish(line, _evaluated(options, runs[0], needs, SharedTasks()))
    shared = SharedTasks()
    codes = [_one_of_several(line, run, needs, shared) for run in runs]
    if AssayError.exit_code in codes:
        return AssayError.exit_code
    return UserError.exit_code if all(code == UserError.exit_code for code in codes) else 3 if any(codes) else 0


def _check_figures(line: CommandLine, runs: Sequence[ModelRun]) -> None:
    """Refuses figures of prompts before anything runs, where no task has several."""
    least = {
        "--axes_figure": 0 if any(line.settings.get(name) for name in _VARIED) or not line.options.axes_figure else 2,
        "--prompt_figure": 0 if line.settings.get("prompts") or not line.options.prompt_figure else 1,
    }
    for flag, count in least.items():
        if count:
            from assay.studies.figures import check_prompts

            for run in runs:
                check_prompts(make_spec(run.row.name, run.tasks, **run.row.settings), flag, count)


def _evaluated(
    options: argparse.Namespace, run: ModelRun, needs: Sequence[RequiredPackage], shared: SharedTasks
) -> RunResult:
    with ProgressView(make_console(stderr=True)) as view:
        listener = TerminalListener(view)
        return evaluate_row(run.row, run.tasks, shared, options.store, needs, listener)


def _one_of_several(line: CommandLine, run: ModelRun, needs: Sequence[RequiredPackage], shared: SharedTasks) -> int:
    """Runs one model. A model that fails does not stop the others; a broken store does."""
    label, errors = run.row.label, make_console(stderr=True)
    errors.print(printable(f"model {label}"), style="bold", markup=False)
    try:
        result = _evaluated(line.options, run, needs, shared)
        make_console().print(printable(f"model {label}"), style="bold", markup=False)
        return _finish(line, result, run)
    except StoreError:
        raise
    except UserError as error:
        for fault in error.faults:
            errors.print(printable(f"error: {label}: {fault}"), style="red", markup=False)
        return error.exit_code
    except AssayError as error:
        errors.print(printable(f"bug: {label}: {error}"), style="red", markup=False)
        return error.exit_code


def _finish(line: CommandLine, result: RunResult, run: ModelRun | None = None) -> int:
    """Prints and writes what a run found. The table comes first: a full disk must not hide the numbers."""
    options, console, output, audit = line.options, make_console(), CommandOutput(), {}
    if options.write_out:
        output.show("--write_out", lambda: _show_documents(result, console))
    output.show("the table", lambda: show_result(_with_label(result, run), console))
    if options.reliability_figure:  # the result file shows the table that the figure is drawn from
        held = [result]
        output.show("--reliability_figure", lambda: held.append(with_reliability(result)))
        result = held[-1]
    if options.audit is not None:
        output.show("--audit", lambda: audit.update(_audited(result, options.audit, console)))
    if options.output_path:
        log_samples = options.log_samples or line.settings.get("predict_only", False)
        show_notices(sample_notices(result) if log_samples else [], make_console(stderr=True))
        output.take(written_results(result, options.output_path, log_samples, audit or None), console)
    # Last: a figure for which the run has nothing to show must not cost the files.
    if figures := list(_figures(options, result, run)):
        output.take(write_each(figures), console)
    return output.code(result.problems, result.is_whole)


def _show_documents(result: RunResult, console: Console) -> None:
    for task in result.tasks:
        for first in task.answered[:1]:
            print_document(console, first.document, first.instance)


def _with_label(result: RunResult, run: ModelRun | None) -> RunResult:
    """The run with notices that name its model, where there are several."""
    if run is None:
        return result
    return replace(result, notices=tuple(f"{run.row.label}: {notice}" for notice in result.notices))


def _figures(
    options: argparse.Namespace, result: RunResult, run: ModelRun | None
) -> Iterator[tuple[Path, Callable[[Path], object]]]:
    """The requested figures; several models have a file each."""

    def maker(kind: str) -> Callable[[Path], object]:
        from assay.studies.figures import draw, figures_of  # most runs have no use for it

        return lambda path: draw(kind, figures_of(result), path)

    for name, kind in _FIGURES.items():
        if getattr(options, name):
            path = Path(getattr(options, name))
            own = path if run is None else path.with_name(f"{path.stem}_{run.mark}{path.suffix}")
            yield own, maker(kind)


def _audited(result: RunResult, most: int, console: Console) -> dict[str, Any]:
    """Prints the audit of answer extraction; gives it as data."""
    from assay.studies.audit.audit_report import audit_data, audit_lines
    from assay.studies.audit.extraction_audit import audit_run

    audits = audit_run(result.tasks)
    for text in audit_lines(audits, None if most < 0 else most):
        console.print(text, markup=False, soft_wrap=True)
    return audit_data(audits)
