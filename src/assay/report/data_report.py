"""Reports of `assay data`: what was fetched, what a folder of datasets holds, and what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from assay.core.errors import Fault
from assay.core.plural import plural
from assay.data.fetched import CopyState, DataReport, DatasetOutcome, shown_rows, unrecorded
from assay.report.terminal import make_console, show_listing

_MB = 1e6


def show_data_report(report: DataReport, format: str) -> None:
    """Prints what was fetched: a table, then the datasets that could not be."""
    if format == "json":
        _print_json({"folder": str(report.folder), "datasets": [_outcome_json(item) for item in report.datasets]})
        return
    console = make_console()
    rows = [_outcome_row(outcome) for outcome in report.datasets]
    if rows:
        show_listing(console, ("Dataset", "Rows", "Size", "Commit", "State"), rows)
    if report.without:
        console.print(Text(f"nothing to fetch for {', '.join(report.without)}: rows are local or made by code"))
    by_reason: dict[tuple[Fault, ...], list[str]] = {}
    for outcome in report.failed:
        by_reason.setdefault(outcome.faults, []).extend(outcome.tasks)
    for faults, tasks in by_reason.items():
        _show_faults(faults, console)
        console.print(Text(f"  needed by: {', '.join(dict.fromkeys(tasks))}"))
    done = len(report.datasets) - len(report.failed)
    size = sum(outcome.fetched.size for outcome in report.datasets if outcome.fetched is not None)
    if done:
        console.print(Text(f"{report.folder}: {plural(done, 'dataset')}, {shown_size(size)}; use it with --data"))
    if report.failed:
        console.print(Text(f"{plural(len(report.failed), 'dataset')} could not be fetched"))


def _outcome_row(outcome: DatasetOutcome) -> tuple[str, ...]:
    fetched = outcome.fetched
    if fetched is None:
        return outcome.title, "", "", "", "failed"
    state = "fetched" if fetched.is_new else "was there"
    return outcome.title, shown_rows(fetched.files), shown_size(fetched.size), fetched.commit[:12], state


def _outcome_json(outcome: DatasetOutcome) -> dict[str, Any]:
    fetched = outcome.fetched
    own: dict[str, Any] = {"title": outcome.title, "tasks": list(outcome.tasks)}
    if fetched is None:
        return {**own, "state": "failed", "problems": [str(fault) for fault in outcome.faults]}
    files = {name: {"rows": file.rows, "size": file.size} for name, file in fetched.files.items()}
    state = "fetched" if fetched.is_new else "present"
    return {**own, "state": state, "folder": str(fetched.folder), "commit": fetched.commit, "files": files}


def show_copies(folder: Path, copies: Sequence[CopyState], is_checked: bool, format: str) -> None:
    """Prints the datasets of a folder; with what is wrong with them if they were checked."""
    if format == "json":
        _print_json({"folder": str(folder), "datasets": [_copy_json(copy) for copy in copies]})
        return
    console = make_console()
    if copies:
        headings = ("Dataset", "Rows", "Size", "Commit", "State")
        show_listing(console, headings, [_copy_row(copy, is_checked) for copy in copies])
    others = unrecorded(folder)
    if others or not copies:
        text = f"{folder}: {plural(len(others), 'dataset')} without a record of assay data get, read as found"
        console.print(Text(f"{text}: {', '.join(others[:3])}{', …' if len(others) > 3 else ''}" if others else text))
    for copy in copies:
        _show_faults(copy.faults, console)
    if is_checked and copies and not any(copy.faults for copy in copies):
        console.print(Text(f"{folder}: every file is there and unchanged"))


def _copy_row(copy: CopyState, is_checked: bool) -> tuple[str, ...]:
    state = "damaged" if copy.faults else "partial" if copy.missing else "unchanged" if is_checked else "complete"
    return copy.title, copy.shown_rows(), shown_size(copy.size), copy.record.commit[:12], state


def _copy_json(copy: CopyState) -> dict[str, Any]:
    record = copy.record
    files = {
        name: {"rows": file.rows, "official": file.official, "size": file.size} for name, file in record.files.items()
    }
    return {
        "dataset": record.dataset,
        "config": record.config,
        "commit": record.commit,
        "date": record.date,
        "folder": str(copy.folder),
        "files": files,
        "missing": copy.missing,
        "problems": [str(fault) for fault in copy.faults],
    }


def _show_faults(faults: Sequence[Fault], console: Console) -> None:
    for fault in faults:
        console.print(Text(f"problem: {fault}", style="red"), soft_wrap=True)


def shown_size(size: float) -> str:
    """A size in kB, MB or GB."""
    if size >= 1000 * _MB:
        return f"{size / 1000 / _MB:.1f} GB"
    return f"{size / _MB:.1f} MB" if size >= _MB else f"{max(1, round(size / 1000))} kB"


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
