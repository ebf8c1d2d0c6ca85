"""`assay check`: validates task files; with their code when that may run, and with their data if a folder is named."""

from __future__ import annotations

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
    options = line.options
    columns = _columns(options.doc) if options.doc is not None else None
    paths = [Path(path).expanduser() for path in options.paths]
    folders = [str(folder) for folder in folders_of(paths)]
    names, catalog = known_names(), open_catalog(folders)
    report = check_paths(paths, names, columns, catalog)
    loaded: LoadReport | None = None
    allowed, data = line.settings.get("allow_code", False), line.settings.get("data")
    if allowed or data is not None:
        spec = make_spec("none", (), include_path=folders, allow_code=allowed, data=data)
        loaded = load_everything(paths, catalog, names, code_loader(spec), None if data is None else spec.options.data)
    show_file_checks(report, loaded, options.format)
    return 2 if report.faults or (loaded is not None and loaded.failures) else 0


def _columns(path: str) -> list[str]:
    rows = read(Path(path).expanduser(), ReadOptions(), "--doc")
    if not rows:
        raise UserError(Fault(f"--doc {path}", "holds no document", "a JSON, JSONL or CSV file with one or more"))
    return list(rows[0])
