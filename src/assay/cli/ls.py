"""`assay ls`: what there is."""

from __future__ import annotations

import argparse
import inspect
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from assay.cli.hints import LISTINGS
from assay.cli.options import add_store_option, make_parser
from assay.report.safe_names import model_name
from assay.report.terminal import make_console, show_listing, show_notices
from assay.run.resolve import open_catalog
from assay.store.run_records import RunRecord
from assay.tasks.catalog import Catalog

Listing = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]


def main(arguments: list[str]) -> int:
    """Runs the command."""
    options = _parser().parse_args(arguments)
    headings, rows = _LISTINGS[options.what](options)
    if options.text:
        rows = [row for row in rows if any(options.text.lower() in cell.lower() for cell in row)]
    if options.json:
        keys = [heading.lower() for heading in headings]
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2, ensure_ascii=False))
        return 0
    console = make_console()
    (_show_profiles if options.what == "profiles" else show_listing)(console, headings, rows)
    console.print(f"{len(rows):,} {options.what}")
    return 0


def _tasks(options: argparse.Namespace) -> Listing:
    catalog = _catalog(options)
    rows = [
        (entry.name, entry.output_type or entry.kind, ", ".join(entry.tags), str(entry.path or ""))
        for entry in sorted(catalog.entries.values(), key=lambda entry: entry.name)
        if entry.kind in ("task", "plugin")
        and (options.tag is None or options.tag in entry.tags)
        and (options.output_type is None or options.output_type == entry.output_type)
    ]
    return ("Name", "Type", "Tags", "File"), rows


def _collections(kind: str) -> Callable[[argparse.Namespace], Listing]:
    def listing(options: argparse.Namespace) -> Listing:
        found = [entry for entry in _catalog(options).entries.values() if entry.kind == kind]
        rows = [(entry.name, ", ".join(entry.members), str(entry.path or "")) for entry in found]
        return ("Name", "Members", "File"), sorted(rows)

    return listing


def _catalog(options: argparse.Namespace) -> Catalog:
    catalog = open_catalog(options.include_path or ())
    show_notices(catalog.notices, make_console(stderr=True))
    return catalog


def _models(options: argparse.Namespace) -> Listing:
    from assay.models.registry import model_rows
    from assay.store.store import Store, default_path

    path = Path(options.store or default_path())
    trained = []
    if path.exists():  # looking makes no store
        with Store(path, may_be_read_only=True) as store:
            trained = [
                (model.name, "trained", f"{model.settings['method']} on {', '.join(model.tasks)}; {model.folder}")
                for model in store.fitted.all()
            ]
    return ("Name", "Kind", "What"), [*(tuple(map(str, row)) for row in model_rows()), *trained]


def _metrics(options: argparse.Namespace) -> Listing:
    from assay.scoring.registry import METRICS, metric_definition

    rows = []
    for name in METRICS.names():
        metric = metric_definition(name)
        direction = {True: "higher", False: "lower", None: ""}[metric.higher_is_better]
        rows.append((name, direction, metric.aggregation, ", ".join(metric.values), metric.description))
    return ("Name", "Better", "Aggregation", "For", "What"), rows


def _filters(options: argparse.Namespace) -> Listing:
    from assay.scoring.registry import FILTERS

    rows = []
    for name in FILTERS.names():
        factory = FILTERS.get(name)
        settings = ", ".join(inspect.signature(factory).parameters)
        rows.append((name, settings, (inspect.getdoc(factory) or "").split("\n")[0]))
    return ("Name", "Settings", "What"), rows


def _styles(options: argparse.Namespace) -> Listing:
    from assay.tasks.styles import OWN, STYLES

    own = (OWN, "as the task's file has it", "")
    rows = [(style.name, style.description, style.prompt + style.delimiter + style.answer) for style in STYLES.values()]
    return ("Name", "What", "Prompt and answer"), [own, *rows]


def _methods(options: argparse.Namespace) -> Listing:
    from assay.scoring.scorers.choice_methods import METHODS

    rows = [(method.name, method.metric, method.description) for method in METHODS.values()]
    return ("Name", "Metric", "Score of a choice"), rows


def _profiles(options: argparse.Namespace) -> Listing:
    from assay.tasks.profiles.parse import find_profile, profile_names

    rows = []
    for name in profile_names():
        profile = find_profile(name)
        source = "\n".join(f"{key}: {value}" for key, value in profile.source.items())
        rows.append((name, source, profile.description, "\n".join(profile.lines()), "\n".join(profile.all_deviations)))
    return ("Name", "Source", "Description", "Rules", "Deviations"), rows


def _show_profiles(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A block for each: the cells are texts of many lines, for which a table has no room."""
    for name, *cells in rows:
        console.print(Text(name, style="bold"))
        for heading, cell in zip(headings[1:], cells, strict=True):
            lines = cell.splitlines()
            if lines:
                console.print(Text(f"  {heading.lower()}"))
            for line in lines:
                console.print(Padding(Text(line), (0, 0, 0, 4)))
        console.print()


def _runs(options: argparse.Namespace) -> Listing:
    from assay.store.store import Store, default_path

    with Store(options.store or default_path(), may_be_read_only=True) as store:
        records = store.runs.all()
        show_notices(store.notices, make_console(stderr=True))
    rows = [
        (
            record.id,
            record.status,
            time.strftime("%Y-%m-%d %H:%M", time.localtime(record.created)),
            model_name(record.spec.get("model", record.model), record.spec.get("model_args", {})),
            _task_list(record),
            record.parent or "",
        )
        for record in records
    ]
    return ("Run", "Status", "Started", "Model", "Tasks", "Rescored from"), rows


def _task_list(record: RunRecord) -> str:
    """The tasks of a run, and those that it could not score."""
    numbers = (record.summary or {}).get("tasks", {})
    lost = [name for name, own in numbers.items() if "problem" in own]
    return ", ".join(record.spec.get("tasks", [])) + (f" (not scored: {', '.join(lost)})" if lost else "")


_LISTINGS: dict[str, Callable[[argparse.Namespace], Listing]] = {
    "tasks": _tasks,
    "groups": _collections("group"),
    "tags": _collections("tag"),
    "models": _models,
    "metrics": _metrics,
    "filters": _filters,
    "styles": _styles,
    "methods": _methods,
    "profiles": _profiles,
    "runs": _runs,
}


def _parser() -> argparse.ArgumentParser:
    parser = make_parser("ls", "Lists what there is.")
    parser.add_argument("what", choices=list(_LISTINGS), type=lambda name: LISTINGS.get(name, name))
    parser.add_argument("text", nargs="?", help="only rows that hold this text")
    parser.add_argument(
        "--include_path", action="append", metavar="DIR", help="folder with more task files; may repeat"
    )
    parser.add_argument("--tag", metavar="TAG", help="only tasks with this tag")
    parser.add_argument("--output_type", metavar="TYPE", help="only tasks of this type, such as multiple_choice")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_store_option(parser)
    return parser
