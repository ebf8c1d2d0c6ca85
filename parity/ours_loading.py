"""Our side of `loading`: builds every task and group below a folder with their code, without data.

    python -m parity.ours_loading OUT.json TASKS_FOLDER

Out: kind → name → faults, or None for what was built.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from assay.options.specification import make_spec
from assay.run.resolve import code_loader, known_names
from assay.tasks.catalog import open_catalog
from assay.tasks.file_checks import load_everything


def main() -> None:
    out, folder = sys.argv[1:]
    spec = make_spec("none", (), include_path=[folder], allow_code=True)
    catalog = open_catalog([folder])
    report = load_everything([Path(folder)], catalog, known_names(), code_loader(spec))
    inside = [entry for entry in catalog.entries.values() if entry.path and entry.path.is_relative_to(folder)]
    found: dict[str, dict[str, str | None]] = {
        kind: {entry.name: None for entry in inside if entry.kind == kind} for kind in ("task", "group")
    }
    for failure in report.failures:
        found[failure.kind][failure.name] = "; ".join(map(str, failure.faults))
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
