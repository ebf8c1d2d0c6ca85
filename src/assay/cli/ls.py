"""`assay ls`: tasks, models, metrics, runs and more."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from assay.core.errors import Fault, UserError
from assay.core.plural import plural
from assay.data.data_folder import data_folder
from assay.options.parser import CommandLine
from assay.report.listings import Row, Sources, listing, rows_with, show_profiles
from assay.report.safe_names import printable
from assay.report.task_listing import NARROW, narrow_lines, table_of
from assay.report.terminal import make_console, show_listing, show_notices
from assay.tasks.catalog import Catalog, open_catalog
from assay.tasks.catalog_entries import TaskEntry
from assay.tasks.lm_eval_package import PREFIX, package_catalog, prefixed_entries

_MOST_NAMED = 8


def main(line: CommandLine) -> int:
    """Runs the command."""
    options = line.options
    catalog = open_catalog(options.include_path or ())
    headings, everything = listing(
        options.what,
        Sources(lambda: _entries(options, catalog), _notify, options.store, options.tag, options.output_type),
    )
    rows = rows_with(options.text or (), headings, everything)
    advice = _advice(options.text, catalog) if options.what == "tasks" and options.text and not rows else ""
    rows, place = _with_data(rows, options)
    if options.format == "json":
        keys = [heading.lower() for heading in headings]
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2, ensure_ascii=False))
    elif options.format == "names":
        print("".join(f"{row[0]}\n" for row in rows), end="")
    else:
        _show(options, headings, rows, everything)
        make_console().print(f"{plural(len(rows), options.what.removesuffix('s'))}{place}", soft_wrap=True)
    if advice:
        _notify([advice])
    return 0


def _advice(text: Sequence[str], catalog: Catalog) -> str:
    from assay.tasks.unknown_names import search_advice  # loads the parser of task files, to know their variants

    return search_advice(text, catalog)


def _notify(notices: Sequence[str]) -> None:
    show_notices(notices, make_console(stderr=True))


def _entries(options: argparse.Namespace, catalog: Catalog) -> Mapping[str, TaskEntry]:
    wanted = [word for word in options.text or () if word.startswith(PREFIX)]
    if wanted:
        return prefixed_entries(package_catalog(catalog.cache_folder, wanted[0]))
    _notify(catalog.notices)
    return catalog.entries


def _with_data(rows: Sequence[Row], options: argparse.Namespace) -> tuple[Sequence[Row], str]:
    """The rows of tasks that can be run with the datasets of a folder, and a remark; all rows if none is named."""
    if options.what != "tasks":
        if options.data is not None:
            raise UserError(Fault("--data", f"given for {options.what}", "assay ls tasks --data DIR"))
        return rows, ""
    folder = data_folder(options.data)
    if folder is None:
        return rows, ""
    from assay.api_data import runnable_tasks  # most listings read no datasets
    from assay.options.specification import make_spec

    spec = make_spec("dummy", (), data=folder, include_path=options.include_path)
    found = runnable_tasks(spec, [row[0] for row in rows])
    _notify(list(found.notices()))
    if rows and not found.names and not found.left_out:
        named = " ".join(row[0] for row in rows) if len(rows) <= _MOST_NAMED else "TASK"
        _notify([f"To fetch their data, on a machine with network: assay data get --tasks {named} --to {folder}"])
    return [row for row in rows if row[0] in found.names], f" of {len(rows):,}, with their data in {folder}"


def _show(
    options: argparse.Namespace, headings: tuple[str, ...], rows: Sequence[Row], everything: Sequence[Row]
) -> None:
    """The table of a listing."""
    console = make_console()
    shown = (headings, rows)
    if options.what in ("tasks", "groups") and not options.long:
        shown = table_of(options.what, headings, rows, everything)
        if console.width < NARROW or not rows:
            for text in narrow_lines(*shown, console.width):
                console.print(printable(text), markup=False, soft_wrap=True)
            if rows:
                console.print()
            return
    (show_profiles if options.what == "profiles" else show_listing)(console, *shown)
