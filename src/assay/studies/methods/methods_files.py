"""Files and terminal report of `assay methods`: tables, JSON data and figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.core.packages import RequiredPackage
from assay.report.deliver import CommandOutput
from assay.report.figures.sheet import figure_need
from assay.report.result_files import ReportFormats, WrittenFiles, check_output_path, names_file
from assay.report.safe_names import printable
from assay.report.terminal import make_console, show_notices, show_sections
from assay.studies.methods.methods_report import markdown, sections, study_data, summary
from assay.studies.methods.methods_values import MethodsStudy

NO_FIGURES = "none"
_SUFFIXES = (".json", ".md")


@dataclass(frozen=True, slots=True)
class MethodsOutput:
    """Output options of a methods study.

    Attributes:
        output_path: a `.json` or `.md` file, or a folder for both and the figures; None for no files.
        figures: `svg`, `png`, or `none` for no figures.
        panels: methods in the figures of lengths and positions.
        form: the printed format: `text`, `markdown` or `json`.
        details: whether `text` has all tables.
        changes: number of changed documents to list.
        all_changes: whether to print every changed document.
    """

    output_path: str | Path | None = None
    figures: str = "svg"
    panels: Sequence[str] = ("raw", "byte")
    form: str = "text"
    details: bool = False
    changes: int = 10
    all_changes: bool = False

    @property
    def printed_changes(self) -> int | None:
        """Number of changed documents to print; None for all."""
        return None if self.all_changes else self.changes

    @property
    def draws(self) -> bool:
        """Whether figures are drawn: into a folder only."""
        return (
            self.output_path is not None and self.figures != NO_FIGURES and not names_file(self.output_path, _SUFFIXES)
        )

    def checked_needs(self) -> list[RequiredPackage]:
        """The packages that the files need; raises early if the path cannot be written."""
        if self.output_path is not None:
            check_output_path(self.output_path, _SUFFIXES)
        return [figure_need("figures (or: --figures none)")] if self.draws else []


def show_methods(study: MethodsStudy, wanted: MethodsOutput) -> int:
    """Prints a study and writes its files; returns the exit code, 3 if requests failed or tasks are not scored."""
    output, errors = CommandOutput(), make_console(stderr=True)
    if wanted.form == "text":
        output.show("the tables", lambda: _print_tables(study, wanted))
    else:
        output.show_text(_formats(wanted.printed_changes, indent=2), wanted.form, study)
    if wanted.output_path is not None:
        output.take(_formats(wanted.changes, indent=1).write(study, wanted.output_path), errors)
    if wanted.draws:
        output.show("figures", lambda: output.take(_written_figures(study, wanted), errors))
    problems = [problem for result in study.runs.values() for problem in result.problems]
    return output.code(problems, all(result.is_whole for result in study.runs.values()))


def _formats(changes: int | None, indent: int) -> ReportFormats:
    return ReportFormats(
        "study",
        {
            "json": (".json", lambda study: json.dumps(study_data(study), indent=indent)),
            "markdown": (".md", lambda study: markdown(study, changes)),
        },
    )


def _written_figures(study: MethodsStudy, wanted: MethodsOutput) -> WrittenFiles:
    from assay.studies.methods.methods_figures import written_figures

    return written_figures(study, Path(wanted.output_path or ".").expanduser(), wanted.panels, wanted.figures)


def _print_tables(study: MethodsStudy, wanted: MethodsOutput) -> None:
    console = make_console()
    has_all_tables = wanted.details or wanted.all_changes
    show_sections(sections(study, wanted.printed_changes) if has_all_tables else summary(study), console)
    show_notices(study.notices, console)
    for label, result in study.runs.items():
        console.print(printable(f"record: {label}, run {result.run_id} in {result.store}"), markup=False)
