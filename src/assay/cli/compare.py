"""`assay compare`: two or more runs on the same documents."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from assay.cli.options import add_store_option, make_parser, split_names
from assay.cli.progress_events import TerminalListener
from assay.core.errors import Fault, UserError
from assay.report.terminal import ProgressView, make_console, show_written
from assay.store.store import Store, default_path
from assay.studies.compare.compare_report import (
    FORMATS,
    comparison_data,
    comparison_junit,
    comparison_markdown,
    comparison_text,
    gate_lines,
)
from assay.studies.compare.compare_runs import compare
from assay.studies.compare.compare_values import RunComparison
from assay.studies.paired.paired_values import ALL_FLIPS, AXES, CORRECTIONS, TESTS, CompareOptions

WORSE = 4
# --fail_if_worse without a margin.
_BEYOND_CHANCE = 0.0


def main(arguments: list[str]) -> int:
    """Runs the command; 4 when --fail_if_worse found a run worse than the baseline."""
    options = _parser().parse_args(arguments)
    gate: float | None = options.fail_if_worse
    if options.output_path:
        from assay.report.result_files import check_file

        check_file(options.output_path, "--output_path")
    wanted = CompareOptions(
        tasks=tuple(split_names(options.tasks or [])),
        metrics=tuple(options.metric or []),
        baseline=_baseline(options),
        margin=gate or options.margin,
        alpha=options.alpha,
        correction=options.correction,
        test=options.test,
        detect=options.detect,
        across=tuple(split_names(options.across)),
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
    for line in failures:
        sys.stderr.write(line + "\n")
    if options.output_path:
        from assay.report.result_files import write_text

        # Last: a file that cannot be written must not hide what the gate found
        show_written([write_text(Path(options.output_path).expanduser(), text)], make_console(stderr=True))
    return WORSE if failures else 0


def _baseline(options: argparse.Namespace) -> str | None:
    """Worse than what? A gate needs a baseline: the first run where none is named."""
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


def _flips(text: str) -> int:
    if text == "all":
        return ALL_FLIPS
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'"{text}" is neither a number of documents nor "all"')
    return int(text)


def _margin(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        message = f'"{text}" is no margin: a number above 0, such as 0.02 for 2 points; runs come before the options'
        raise argparse.ArgumentTypeError(message)
    return value


def _parser() -> argparse.ArgumentParser:
    about = "Compares runs document by document. Nothing is asked, and no model is loaded."
    parser = make_parser("compare", about)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="a run's name or its start, last, last~1; RUN@TASK for one task of it"
    )
    what = parser.add_argument_group("what")
    what.add_argument("--tasks", "-t", nargs="+", metavar="NAME", help="only these; demo_* is a pattern")
    what.add_argument("--metric", nargs="+", metavar="NAME", help="NAME or NAME,FILTER; all; default: the first")
    what.add_argument("--baseline", metavar="RUN", help="compare the others with this one; default: every two runs")
    what.add_argument(
        "--across", nargs="+", default=["model"], metavar="AXIS", help=f"what may differ: {', '.join(AXES)}"
    )
    what.add_argument("--force", action="store_true", help="compare what is not comparable; what differs is told")
    how = parser.add_argument_group("how")
    how.add_argument("--test", choices=TESTS, help="default: exact for 0 and 1, permutation for other values")
    how.add_argument("--alpha", type=float, default=0.05, metavar="A", help="level of the tests; default: 0.05")
    how.add_argument("--correction", choices=CORRECTIONS, default="holm", help="over all tests; default: holm")
    how.add_argument("--margin", type=_margin, metavar="M", help="a difference that does not matter: 0.02 is 2 points")
    how.add_argument(
        "--detect", "--effect", type=float, metavar="D", help="difference to find: gives the documents that it needs"
    )
    how.add_argument("--seed", type=int, default=0, metavar="N", help="of sign flips and resamples; default: 0")
    gate = "exit with 4 when a run is worse than the baseline; with M, when not shown to be at most M worse"
    how.add_argument("--fail_if_worse", nargs="?", type=_margin, const=_BEYOND_CHANCE, metavar="M", help=gate)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--flips", type=_flips, default=0, metavar="N", help="list documents that score otherwise, N each way, or all"
    )
    output.add_argument(
        "--picks", action="store_true", help="tell how far the runs pick the same choices; they are reopened for it"
    )
    output.add_argument("--format", choices=FORMATS, default="table", help="default: table")
    output.add_argument("--output_path", "-o", metavar="FILE", help="write there instead of printing")
    add_store_option(parser)
    return parser
