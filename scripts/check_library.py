"""Check the contract of the library on real rows, and record the outcome for docs/benchmarks.md.

Takes a folder of datasets (`assay data get`); gives docs/studies/library_contract.json: for every task whose data is in
the folder, the documents, the styles and heads that were checked, and what was found. Exits with 2 if there is a fault.

    python scripts/check_library.py DATA [--rows N] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.api_data import runnable_tasks
from assay.core.plural import plural
from assay.options.specification import make_spec
from assay.tasks.catalog import LIBRARY, Catalog
from assay.testing import CheckedTask, check_benchmarks

RECORD = Path(__file__).parents[1] / "docs" / "studies" / "library_contract.json"
# Tasks that are checked together: their names are resolved once, and their documents are freed after them.
AT_ONCE = 20


def main() -> int:
    """Checks every task and writes the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder of datasets")
    parser.add_argument("--rows", type=int, default=200, help="documents per task, a random sample (%(default)s)")
    parser.add_argument("--out", type=Path, default=RECORD, help="the record (%(default)s)")
    asked = parser.parse_args()
    names = [
        entry.name
        for entry in Catalog().entries.values()
        if entry.kind == "task" and entry.path and LIBRARY in entry.path.parents
    ]
    found = runnable_tasks(make_spec("none", (), data=str(asked.data)), names)
    for notice in found.notices():
        print(f"note: {notice}", file=sys.stderr)
    record: dict[str, Any] = {"rows": asked.rows, "tasks": {}}
    for start in range(0, len(found.names), AT_ONCE):
        some = found.names[start : start + AT_ONCE]
        checked = check_benchmarks(list(some), data=str(asked.data), sample=asked.rows)
        record["tasks"] |= {name: entry_of(_forms(name, checked)) for name in some}
        print(f"{start + len(some)} of {plural(len(found.names), 'task')}", file=sys.stderr)
    asked.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    faults = sum(len(entry["faults"]) for entry in record["tasks"].values())
    print(f"{plural(len(record['tasks']), 'task')}, {plural(faults, 'fault')}: {asked.out}")
    return 2 if faults else 0


def _forms(name: str, checked: Sequence[CheckedTask]) -> Iterator[CheckedTask]:
    """The task, its styles and its heads."""
    return (item for item in checked if item.name == name or item.name.startswith((f"{name}@", f"{name} (")))


def entry_of(forms: Iterator[CheckedTask]) -> Mapping[str, Any]:
    """The record of a task: what was checked, and each kind of finding once, with the reason if it is allowed."""
    own, *others = forms
    findings = [finding for form in (own, *others) for finding in form.findings]
    return {
        "documents": own.documents,
        "styles": [form.name.partition("@")[2] for form in others if "@" in form.name and not form.skipped],
        "heads": [form.name.partition(" (")[2].partition(" ")[0] for form in others if form.name.endswith(" head)")],
        "skipped": sorted({form.skipped for form in others if form.skipped}),
        "allowed": {finding.check: finding.allowed for finding in findings if finding.allowed},
        "remarks": sorted({finding.check for finding in findings if finding.is_remark}),
        "faults": [str(finding) for finding in findings if finding.is_fault],
    }


if __name__ == "__main__":
    sys.exit(main())
