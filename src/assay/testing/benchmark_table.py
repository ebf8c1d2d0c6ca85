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
    rows = [(task.name, str(task.documents), *(_MARKS[task.mark(check)] for check in CHECKS)) for task in checked]
    show_listing(make_console(), ("Task", "Docs", *CHECKS), rows)
    print(_LEGEND)
    for task in checked:
        for finding in task.findings:
            if finding.is_fault:
                sys.stderr.write(f"error: {finding}\n")
            else:
                print(f"note: {finding}")
        if task.skipped:
            print(f"note: {task.name}: not checked: {task.skipped}")
    print(f"{plural(len(checked), 'task, style or head', 'tasks, styles and heads')}: {plural(len(faults), 'fault')}")
