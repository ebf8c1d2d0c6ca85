"""`assay compare`: recorded runs on the same documents, with paired tests."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from assay.cli.progress_events import TerminalListener
from assay.core.errors import Fault, UserError
from assay.options.parser import CommandLine
from assay.report.terminal import ProgressView, make_console, show_written
from assay.store.store import Store, default_path
from assay.studies.compare.compare_report import (
    comparison_data,
    comparison_junit,
    comparison_markdown,
    comparison_text,
    gate_lines,
)
from assay.studies.compare.compare_runs import compare
from assay.studies.compare.compare_values import RunComparison
from assay.studies.paired.paired_values import CompareOptions

WORSE = 4


def main(line: CommandLine) -> int:
    """Runs the command; 4 when --fail_if_worse found a run worse than the baseline."""
    options = line.options
    gate: float | None = options.fail_if_worse
    if options.output_path:
        from assay.report.result_files import check_file

        check_file(options.output_path, "--output_path")
    wanted = CompareOptions(
        tasks=tuple(options.tasks or []),
        metrics=tuple(options.metrics or []),
        baseline=_baseline(options),
        margin=gate or options.margin,
        alpha=options.alpha,
        correction=options.correction,
        test=options.test,
        detect=options.detect,
        across=tuple(options.across),
        force=options.force,
        flips=options.flips,
        seed=options.seed,
        picks=options.picks,
    )
    place = default_path() if options.store is None else options.store
    with ProgressView(make_console(stderr=True)) as view, Store(place, may_be_read_only=True) as store:
        found = compare(store, options.runs, wanted, TerminalListener(view))
    text = _text(found, options.format, gate, bool(options.output_path))
    if not options.output_path:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    failures = [] if gate is None else gate_lines(found, gate or None)
    for failure in failures:
        sys.stderr.write(failure + "\n")
    if options.output_path:
        from assay.report.result_files import write_text

        # Last: a file that cannot be written must not hide what the gate found
        show_written([write_text(Path(options.output_path).expanduser(), text)], make_console(stderr=True))
    return WORSE if failures else 0


def _baseline(options: argparse.Namespace) -> str | None:
    """The baseline of --fail_if_worse: the first run where none is named."""
    if options.fail_if_worse and options.margin not in (None, options.fail_if_worse):
        found = f"has a margin of {options.fail_if_worse:g}, and --margin is {options.margin:g}"
        raise UserError(Fault("--fail_if_worse", found, "one of the two, or twice the same"))
    named: str | None = options.baseline
    return options.runs[0] if named is None and options.fail_if_worse is not None else named


def _text(found: RunComparison, form: str, gate: float | None, is_file: bool) -> str:
    if form == "json":
        return json.dumps(comparison_data(found), indent=2, ensure_ascii=False)
    if form == "junit":
        return comparison_junit(found, gate is not None, gate or None)
    if form == "markdown":
        return comparison_markdown(found)
    width = make_console().width if not is_file and sys.stdout.isatty() else None
    return comparison_text(found, width)
