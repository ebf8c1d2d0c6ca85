"""`assay check`: validates task files, with code and data if allowed; with --contract, tasks without a model."""

from __future__ import annotations

import sys
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.data.readers import ReadOptions, read
from assay.options.parser import CommandLine
from assay.options.specification import make_spec
from assay.report.file_check_report import show_file_checks
from assay.run.resolve import code_loader, known_names, open_catalog
from assay.tasks.file_checks import LoadReport, check_paths, folders_of, load_everything


def main(line: CommandLine) -> int:
    """Runs the command; 2 when there are faults."""
    return _check_contract(line) if line.options.contract else _check_files(line)


def _check_files(line: CommandLine) -> int:
    options = line.options
    columns = _columns(options.doc) if options.doc is not None else None
    paths = [Path(path).expanduser() for path in options.paths]
    folders = [str(folder) for folder in folders_of(paths)]
    names, catalog = known_names(), open_catalog([*folders, *(options.include_path or ())])
    report = check_paths(paths, names, columns, catalog)
    loaded: LoadReport | None = None
    allowed, data = line.settings.get("allow_code", False), line.settings.get("data")
    if allowed or data is not None:
        spec = make_spec("none", (), include_path=folders, allow_code=allowed, data=data)
        loaded = load_everything(paths, catalog, names, code_loader(spec), None if data is None else spec.options.data)
    show_file_checks(report, loaded, options.format)
    return 2 if report.faults or (loaded is not None and loaded.failures) else 0


def _check_contract(line: CommandLine) -> int:
    from assay.testing.benchmark_table import show_checked_tasks  # not needed to check files
    from assay.testing.benchmarks import check_benchmarks

    options, settings = line.options, line.settings
    show = sys.stderr.isatty() and options.format == "text"
    names = [name for path in options.paths for name in path.split(",")]
    checked = check_benchmarks(
        names,
        variants=not options.own_only,
        progress=_show_name if show else None,
        **{**settings, "limit": options.rows},
    )
    show_checked_tasks(checked, options.format)
    return 2 if any(finding.is_fault for task in checked for finding in task.findings) else 0


def _show_name(name: str) -> None:
    sys.stderr.write(f"\r\033[K{name}\r")


def _columns(path: str) -> list[str]:
    rows = read(Path(path).expanduser(), ReadOptions(), "--doc")
    if not rows:
        raise UserError(Fault(f"--doc {path}", "holds no document", "a JSON, JSONL or CSV file with one or more"))
    return list(rows[0])
