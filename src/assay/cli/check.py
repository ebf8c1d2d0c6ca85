"""`assay check`: validates task files without their data."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from assay.cli.options import make_parser
from assay.core.errors import Fault, UserError
from assay.run.resolve import known_names
from assay.tasks.checking import CheckReport, check_paths
from assay.tasks.files import ReadOptions, read


def main(arguments: list[str]) -> int:
    """Runs the command; 2 when there are faults."""
    options = _parser().parse_args(arguments)
    columns = _columns(options.doc) if options.doc is not None else None
    report = check_paths([Path(path).expanduser() for path in options.paths], known_names(), columns)
    if options.json:
        print(json.dumps(asdict(report), indent=2, ensure_ascii=False))
    else:
        _show(report)
    return 2 if report.faults else 0


def _columns(path: str) -> list[str]:
    rows = read(Path(path).expanduser(), ReadOptions(), "--doc")
    if not rows:
        raise UserError(Fault(f"--doc {path}", "holds no document", "a JSON, JSONL or CSV file with one or more"))
    return list(rows[0])


def _show(report: CheckReport) -> None:
    for fault in report.faults:
        sys.stderr.write(f"error: {fault}\n")
    faults = f"{len(report.faults):,} faults" if report.faults else "no faults"
    print(f"{report.files:,} files, {report.tasks:,} tasks, {report.groups:,} groups: {faults}")


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("check", "Validates task files without their data: every fault at once.")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="task files, or folders of them")
    parser.add_argument(
        "--doc", metavar="FILE", help="a data file: names in templates must be columns of its first row"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser
