"""`assay check`: validates task files without their data; with their code when that may run."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.core.plural import plural
from assay.data.readers import ReadOptions, read
from assay.options.parser import CommandLine
from assay.options.specification import make_spec
from assay.run.resolve import code_loader, known_names, open_catalog
from assay.tasks.file_checks import CheckReport, LoadReport, check_paths, folders_of, load_everything


def main(line: CommandLine) -> int:
    """Runs the command; 2 when there are faults."""
    options = line.options
    columns = _columns(options.doc) if options.doc is not None else None
    paths = [Path(path).expanduser() for path in options.paths]
    folders = [str(folder) for folder in folders_of(paths)]
    names, catalog = known_names(), open_catalog(folders)
    report = check_paths(paths, names, columns, catalog)
    loaded: LoadReport | None = None
    allowed = line.settings.get("allow_code")
    if allowed:
        spec = make_spec("none", (), include_path=folders, allow_code=allowed)
        loaded = load_everything(paths, catalog, names, code_loader(spec))
    if options.format == "json":
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
    faults = plural(len(report.faults), "fault") if report.faults else "no faults"
    counts = ((report.files, "file"), (report.tasks, "task"), (report.groups, "group"))
    print(f"{', '.join(plural(count, noun) for count, noun in counts)}: {faults}")
