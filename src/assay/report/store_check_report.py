"""Report of `assay store check`: a table of the store's parts, unreadable rows, and rows that a repair dropped."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from assay.report.terminal import show_listing
from assay.store.integrity import CheckedTable, StoreCheck
from assay.store.repair import RepairReport

_MOST_SHOWN = 10
_NAMES = {
    "responses": "answers",
    "models": "models",
    "runs": "runs",
    "document_values": "documents' values",
    "failures": "failed requests",
    "fitted": "trained models",
}


def show_store_check(found: StoreCheck, console: Console) -> None:
    """Prints the checked parts and whether everything can be read."""
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
    if found.is_sound:
        console.print(Text(f"{found.path}: everything can be read"))


def show_repair_advice(found: StoreCheck, console: Console) -> None:
    """Prints the command that repairs a damaged store."""
    advice = f"assay store check --repair --store {found.path}"
    console.print(
        Text(f"{found.path}: something cannot be read. To drop that, so that it is requested again: {advice}")
    )


def show_repair(found: StoreCheck, done: RepairReport, console: Console) -> None:
    """Prints the rows that a repair dropped, and the location of the original file."""
    for table, count in done.dropped.items():
        console.print(Text(f"dropped: {count:,} {_NAMES[table]}"))
    what = "saved what can be read in a new file" if done.is_rebuilt else "repaired"
    console.print(Text(f"{found.path}: {what}; the file as it was: {done.backup}"))


def _row(table: CheckedTable) -> tuple[str, ...]:
    unchecked = f"{table.unchecked:,}" if table.name == "responses" else ""
    return _NAMES[table.name], f"{table.rows:,}", unchecked, f"{len(table.broken):,}"
