"""`assay store check`: whether every answer and run of a store can be read, and what to do where not."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from assay.options.parser import CommandLine
from assay.report.terminal import make_console, show_listing
from assay.store.integrity import CheckedTable, StoreCheck, check_store
from assay.store.repair import repair_store
from assay.store.store import default_path

_MOST_SHOWN = 10
_NAMES = {
    "responses": "answers",
    "models": "models",
    "runs": "runs",
    "document_values": "documents' values",
    "failures": "failed requests",
    "fitted": "trained models",
}


def main(line: CommandLine) -> int:
    """Runs the command; 2 when something cannot be read and was not repaired."""
    options = line.options
    console = make_console()
    found = check_store(options.store or default_path())
    _show(found, console)
    if found.is_sound:
        console.print(Text(f"{found.path}: everything can be read"))
        return 0
    if not options.repair:
        advice = f"assay store check --repair --store {found.path}"
        console.print(
            Text(f"{found.path}: something cannot be read. To drop that, so that it is asked again: {advice}")
        )
        return 2
    done = repair_store(found)
    for table, count in done.dropped.items():
        console.print(Text(f"dropped: {count:,} {_NAMES[table]}"))
    what = "saved what can be read in a new file" if done.is_rebuilt else "repaired"
    console.print(Text(f"{found.path}: {what}; the file as it was: {done.backup}"))
    return 0


def _show(found: StoreCheck, console: Console) -> None:
    headings = ("Part", "Rows", "Without checksum", "Cannot be read")
    show_listing(console, headings, [_row(table) for table in found.tables])
    for line in found.damage:
        console.print(Text(f"SQLite: {line}"))
    if found.orphaned_answers:
        console.print(
            Text(f"{found.orphaned_answers:,} answers are of models that the store does not list; they can be used")
        )
    for table in found.tables:
        for row in table.broken[:_MOST_SHOWN]:
            console.print(Text(f"{_NAMES[table.name]}: {row.name}: {row.fault}"))
        if len(table.broken) > _MOST_SHOWN:
            console.print(Text(f"{_NAMES[table.name]}: and {len(table.broken) - _MOST_SHOWN:,} more"))


def _row(table: CheckedTable) -> tuple[str, ...]:
    unchecked = f"{table.unchecked:,}" if table.name == "responses" else ""
    return _NAMES[table.name], f"{table.rows:,}", unchecked, f"{len(table.broken):,}"
