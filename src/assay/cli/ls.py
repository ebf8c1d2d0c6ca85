"""`assay ls`: tasks, models, metrics, runs and more."""

from __future__ import annotations

import json
from collections.abc import Sequence

from assay.core.plural import plural
from assay.options.parser import CommandLine
from assay.report.listings import Sources, listing, rows_with, show_profiles
from assay.report.safe_names import printable
from assay.report.task_listing import NARROW, narrow_lines, table_of
from assay.report.terminal import make_console, show_listing, show_notices
from assay.run.resolve import open_catalog
from assay.tasks.catalog import Catalog


def main(line: CommandLine) -> int:
    """Runs the command."""
    options = line.options

    def notify(notices: Sequence[str]) -> None:
        show_notices(notices, make_console(stderr=True))

    def opened() -> Catalog:
        catalog = open_catalog(options.include_path or ())
        notify(catalog.notices)
        return catalog

    headings, everything = listing(
        options.what, Sources(opened, notify, options.store, options.tag, options.output_type)
    )
    rows = rows_with(options.text or (), headings, everything)
    if options.format == "json":
        keys = [heading.lower() for heading in headings]
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2, ensure_ascii=False))
        return 0
    console, number = make_console(), plural(len(rows), options.what.removesuffix("s"))
    shown = (headings, rows)
    if options.what in ("tasks", "groups") and not options.long:
        shown = table_of(options.what, headings, rows, everything)
        if console.width < NARROW or not rows:
            for text in narrow_lines(*shown, console.width):
                console.print(printable(text), markup=False, soft_wrap=True)
            console.print(f"\n{number}" if rows else number)
            return 0
    (show_profiles if options.what == "profiles" else show_listing)(console, *shown)
    console.print(number)
    return 0
