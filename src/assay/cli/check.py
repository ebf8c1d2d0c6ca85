"""`assay check`: validates task files without their data; with their code when that may run."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from assay.cli.options import add_code_options, allowed_code, make_parser
from assay.core.errors import Fault, UserError
from assay.data.readers import ReadOptions, read
from assay.run.resolve import code_loader, known_names, open_catalog
from assay.settings import make_spec
from assay.tasks.file_checks import CheckReport, check_paths, folders_of
from assay.tasks.load_all import LoadReport, load_everything


def main(arguments: list[str]) -> int:
    """Runs the command; 2 when there are faults."""
    options = _parser().parse_args(arguments)
    columns = _columns(options.doc) if options.doc is not None else None
    paths = [Path(path).expanduser() for path in options.paths]
    folders = [str(folder) for folder in folders_of(paths)]
    names, catalog = known_names(), open_catalog(folders)
    report = check_paths(paths, names, columns, catalog)
    loaded: LoadReport | None = None
    if allowed_code(options):
        spec = make_spec("none", (), include_path=folders, allow_code=allowed_code(options))
        loaded = load_everything(paths, catalog, names, code_loader(spec))
    if options.json:
        data = asdict(report) | ({"loading": asdict(loaded)} if loaded is not None else {})
        print(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        _show(report)
        if loaded is not None:
            _show_loaded(loaded)
    return 2 if report.faults or (loaded is not None and loaded.failures) else 0


def _show_loaded(report: LoadReport) -> None:
    for failure in report.failures:
        for fault in failure.faults:
            sys.stderr.write(f"error: {failure.kind} {failure.name}: {fault}\n")
    for noun, count in (("task", report.tasks), ("group", report.groups)):
        print(f"{count - report.failed(noun):,} of {count:,} {noun}s can be built with their code")


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
    add_code_options(parser.add_argument_group("building every task and group, with its Python code"))
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser
