"""Report of `assay check`: faults on standard error, counts on standard output, or both as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from assay.core.plural import plural
from assay.tasks.file_checks import CheckReport, LoadReport


def show_file_checks(report: CheckReport, form: str) -> None:
    """Prints the faults of task files.

    Args:
        report: the result of the check.
        form: `text` or `json`.
    """
    if form == "json":
        data = asdict(report)
        if report.loading is None:
            del data["loading"]
        if not report.open_facts:
            del data["open_facts"]
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    _show_checks(report)
    if report.loading is not None:
        _show_loaded(report.loading)


def _show_checks(report: CheckReport) -> None:
    for fault in report.faults:
        sys.stderr.write(f"error: {fault}\n")
    for fact in report.open_facts:
        print(f"note: {fact}")
    faults = plural(len(report.faults), "fault") if report.faults else "no faults"
    counts = ((report.files, "file"), (report.tasks, "task"), (report.groups, "group"))
    print(f"{', '.join(plural(count, noun) for count, noun in counts)}: {faults}")


def _show_loaded(report: LoadReport) -> None:
    for failure in report.failures:
        for fault in failure.faults:
            sys.stderr.write(f"error: {failure.kind} {failure.name}: {fault}\n")
    for noun, count in (("task", report.tasks), ("group", report.groups)):
        what = "their code and data" if report.has_data and noun == "task" else "their code"
        print(f"{count - report.failed(noun):,} of {count:,} {noun}s can be built with {what}")
