"""The report of `assay check --contract`: a table of tasks and checks, then every finding; or all of it as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from assay.core.benchmark_checks import CHECKS
from assay.core.plural import plural
from assay.report.terminal import make_console, show_listing
from assay.testing.benchmark_values import CheckedTask

_MARKS = {"ok": "✓", "fault": "✗", "allowed": "a", "remark": "r", "": "·"}
_LEGEND = "✓ holds   ✗ fault   a allowed by the card   r in few documents only   · does not apply"
_SHORT_LEGEND = "✗ fault   a allowed by the card   r in few documents only   the others hold"
# Between two columns of a listing.
_GAP = 3


def _show_table(checked: Sequence[CheckedTask]) -> None:
    """A column for each check; in a window that is too narrow for that, the names of those that do not hold."""
    console = make_console()
    rows = [(task.name, str(task.documents), *(_MARKS[task.mark(check)] for check in CHECKS)) for task in checked]
    headings = ("Task", "Docs", *CHECKS)
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    if sum(widths) + _GAP * len(widths) <= console.width:
        show_listing(console, headings, rows)
        print(_LEGEND)
        return
    short = [
        (row[0], row[1], _named(task, "fault", "allowed", "remark"), _named(task, ""))
        for row, task in zip(rows, checked, strict=True)
    ]
    show_listing(console, ("Task", "Docs", "Does not hold", "Does not apply"), short)
    print(_SHORT_LEGEND)


def _named(task: CheckedTask, *outcomes: str) -> str:
    """The checks with these outcomes, with their marks."""
    found = [(check, outcome) for check in CHECKS if (outcome := task.mark(check)) in outcomes]
    return ", ".join(f"{check} {_MARKS[outcome]}" if outcome else check for check, outcome in found) or "–"


def show_checked_tasks(checked: Sequence[CheckedTask], form: str) -> None:
    """Prints what the contract found.

    Args:
        checked: the tasks, their styles and heads.
        form: `text` or `json`.
    """
    faults = [finding for task in checked for finding in task.findings if finding.is_fault]
    if form == "json":
        data = {"tasks": [task.to_json() for task in checked], "faults": len(faults)}
        print(json.dumps(data, indent=2, ensure_ascii=False, default=str))
        return
    _show_table(checked)
    for task in checked:
        for finding in task.findings:
            if finding.is_fault:
                sys.stderr.write(f"error: {finding}\n")
            else:
                print(f"note: {finding}")
        if task.skipped:
            print(f"note: {task.name}: not checked: {task.skipped}")
    print(f"{plural(len(checked), 'task, style or head', 'tasks, styles and heads')}: {plural(len(faults), 'fault')}")
