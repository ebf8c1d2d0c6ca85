"""Outputs of a finished run: the table on the terminal, result files, the extraction audit, and figures.

In: the result of a run, and the outputs that were requested. Out: files, printed text, and the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, StoreError, UserError
from assay.core.packages import RequiredPackage
from assay.core.results import RunResult
from assay.core.specs import RunSpec, VariationAxes
from assay.report.deliver import CommandOutput, overall_code
from assay.report.result_files import check_output_path, sample_notices, write_each, written_results
from assay.report.safe_names import printable
from assay.report.terminal import make_console, show_notices, show_result

RELIABILITY = "reliability"
# Figure → the option that names its file, and the number of prompts that it needs if nothing else is varied.
_FIGURES = {RELIABILITY: ("--reliability_figure", 0), "axes": ("--axes_figure", 2), "prompts": ("--prompt_figure", 1)}


@dataclass(frozen=True, slots=True)
class RunOutputs:
    """The outputs of a run besides its table.

    Attributes:
        output_path: a folder for result files, or a `.json` file to which the time is added; None for no files.
        log_samples: whether to write every document with its answers too.
        audit: number of documents to list in the extraction audit, -1 for all; None for no audit.
        reliability: whether multiple-choice tasks report confidences even without a metric that needs them.
        figures: kind of figure → file that ends in .svg or .png.
        shows_documents: whether to print the first document of each task.
    """

    output_path: str | Path | None = None
    log_samples: bool = False
    audit: int | None = None
    reliability: bool = False
    figures: Mapping[str, str | Path] = field(default_factory=dict)
    shows_documents: bool = False

    def checked_needs(self) -> list[RequiredPackage]:
        """The packages that the outputs need; raises early if a file could not be written."""
        if self.output_path is not None:
            check_output_path(self.output_path)
        if not self.figures:
            return []
        from assay.report.figures.sheet import check_figure  # most runs do not need it

        return [check_figure(path, _flag(kind)) for kind, path in self.figures.items()]

    def check_variants(self, spec: RunSpec) -> None:
        """Rejects figures of several prompts before a run in which no task has several."""
        options = spec.options
        is_varied = {"axes": options.axes != VariationAxes() or options.prompts, "prompts": options.prompts}
        for kind in self.figures:
            if kind in is_varied and not is_varied[kind]:
                from assay.studies.figures import check_prompts

                check_prompts(spec, *_FIGURES[kind])

    @property
    def has_reliability(self) -> bool:
        """Whether the result has confidences; a figure is drawn from the table that the result file shows."""
        return self.reliability or RELIABILITY in self.figures

    def for_model(self, mark: str) -> RunOutputs:
        """The outputs of one of several models: each model has its own figures."""
        named = {kind: Path(path) for kind, path in self.figures.items()}
        own = {kind: path.with_name(f"{path.stem}_{mark}{path.suffix}") for kind, path in named.items()}
        return replace(self, figures=own)


def _flag(kind: str) -> str:
    return _FIGURES[kind][0] if kind in _FIGURES else f"figures, {kind}"


def write_outputs(result: RunResult, wanted: RunOutputs) -> RunResult:
    """Writes the files of a run; raises any failure after everything else is written. Returns the result of the run."""
    found = _with_reliability(result) if wanted.has_reliability else result
    audit = None if wanted.audit is None else _audit(found, wanted.audit)[0]
    figures = write_each(_figure_files(found, wanted))
    if wanted.output_path is None:
        figures.checked()
    else:
        (written_results(found, wanted.output_path, wanted.log_samples, audit) + figures).checked()
    return found


@dataclass(frozen=True, slots=True)
class ModelOutcome:
    """The run of one of several models, or why it failed.

    Attributes:
        label: short name of the model; empty if it is the only one.
        mark: part of a file name that distinguishes its files from those of the others.
        result: the run; None if it failed.
        error: the exception that ended it.
    """

    label: str = ""
    mark: str = ""
    result: RunResult | None = None
    error: AssayError | None = None


def show_outcomes(outcomes: Iterable[ModelOutcome], wanted: RunOutputs, pause: Callable[[], object]) -> int:
    """Prints and writes the results of every run, as the runs finish; returns the exit code.

    Args:
        outcomes: the runs. A model that fails does not stop the others; a broken store does.
        wanted: the outputs.
        pause: called before anything is printed, to clear the progress display.
    """
    codes = []
    for outcome in outcomes:
        pause()
        if outcome.result is not None and not outcome.label:
            return _show_run(outcome.result, wanted)
        codes.append(_outcome_code(outcome, wanted))
    return overall_code(codes)


def _outcome_code(outcome: ModelOutcome, wanted: RunOutputs) -> int:
    label, errors = outcome.label, make_console(stderr=True)
    try:
        if outcome.result is None:
            raise outcome.error or AssayError("no result")
        make_console().print(printable(f"model {label}"), style="bold", markup=False)
        notices = tuple(f"{label}: {notice}" for notice in outcome.result.notices)
        return _show_run(outcome.result, wanted.for_model(outcome.mark), notices)
    except StoreError:
        raise
    except UserError as error:
        for fault in error.faults:
            errors.print(printable(f"error: {label}: {fault}"), style="red", markup=False)
        return error.exit_code
    except AssayError as error:
        errors.print(printable(f"bug: {label}: {error}"), style="red", markup=False)
        return error.exit_code


def _show_run(result: RunResult, wanted: RunOutputs, notices: tuple[str, ...] | None = None) -> int:
    """Prints and writes the results of a run. The table comes first: a full disk must not hide the numbers."""
    console, output, audit = make_console(), CommandOutput(), {}
    if wanted.shows_documents:
        output.show("--write_out", lambda: _show_documents(result))
    shown = result if notices is None else replace(result, notices=notices)
    output.show("the table", lambda: show_result(shown, console))
    if wanted.has_reliability:
        held = [result]
        output.show(_flag(RELIABILITY), lambda: held.append(_with_reliability(result)))
        result = held[-1]
    if wanted.audit is not None:
        output.show("--audit", lambda: audit.update(_show_audit(result, wanted.audit or 0)))
    if wanted.output_path is not None:
        show_notices(sample_notices(result) if wanted.log_samples else [], make_console(stderr=True))
        output.take(written_results(result, wanted.output_path, wanted.log_samples, audit or None), console)
    # Last: a figure without data must not prevent writing the files.
    if wanted.figures:
        output.take(write_each(_figure_files(result, wanted)), console)
    return output.code(result.problems, result.is_whole)


def _show_documents(result: RunResult) -> None:
    from assay.report.document_view import print_document

    for task in result.tasks:
        for first in task.answered[:1]:
            print_document(make_console(), first.document, first.instance)


def _with_reliability(result: RunResult) -> RunResult:
    from assay.studies.calibration.reliability import with_reliability

    return with_reliability(result)


def _audit(result: RunResult, most: int) -> tuple[dict[str, Any], list[str]]:
    """The extraction audit as data and as lines."""
    from assay.studies.audit.audit_report import audit_data, audit_lines
    from assay.studies.audit.extraction_audit import audit_run

    audits = audit_run(result.tasks)
    return audit_data(audits), list(audit_lines(audits, None if most < 0 else most))


def _show_audit(result: RunResult, most: int) -> dict[str, Any]:
    data, lines = _audit(result, most)
    console = make_console()
    for text in lines:
        console.print(text, markup=False, soft_wrap=True)
    return data


def _figure_files(result: RunResult, wanted: RunOutputs) -> Iterator[tuple[Path, Callable[[Path], object]]]:
    def maker(kind: str) -> Callable[[Path], object]:
        from assay.studies.figures import draw, figures_of  # most runs do not need it

        return lambda path: draw(kind, figures_of(result), path)

    for kind, path in wanted.figures.items():
        yield Path(path), maker(kind)
