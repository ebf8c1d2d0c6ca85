"""`assay store check`: whether every answer and run of a store can be read, and what to do where not."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.text import Text

from assay.cli.options import add_store_option, make_parser
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


def main(arguments: list[str]) -> int:
    """Runs the command; 2 when something cannot be read and was not repaired."""
    options = _parser().parse_args(arguments)
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


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("store", "Checks that every answer and run of a store can be read.")
    parser.add_argument("what", choices=["check"], help="check: read everything and compare checksums")
    parser.add_argument(
        "--repair", action="store_true", help="drop what cannot be read, so that it is asked again; keeps the old file"
    )
    add_store_option(parser)
    return parser
