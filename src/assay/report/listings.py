"""The rows of `assay ls`: tasks, groups, tags, models, metrics, filters, styles, methods, profiles and runs.

In: what to list, and its sources. Out: headings and rows.
"""

from __future__ import annotations

import fnmatch
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from assay.report.safe_names import model_name
from assay.report.task_listing import GROUP_HEADINGS, TASK_HEADINGS, UNSEARCHED, group_rows, task_rows
from assay.store.run_records import RunRecord
from assay.tasks.catalog_entries import TaskEntry

Row = tuple[str, ...]
Listing = tuple[tuple[str, ...], Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of a listing.

    Attributes:
        entries: finds all task files; called for tasks, groups and tags only.
        notify: called with notices about the store.
        store: file of answers and runs; None for the user's own.
        tag: list only tasks with this tag; None for all.
        output_type: list only tasks of this type; None for all.
    """

    entries: Callable[[], Mapping[str, TaskEntry]]
    notify: Callable[[Sequence[str]], object]
    store: str | Path | None = None
    tag: str | None = None
    output_type: str | None = None


def listing(what: str, sources: Sources) -> Listing:
    """Headings and rows of a listing.

    Args:
        what: a key of `LISTINGS`.
        sources: the sources of the listing.
    """
    return LISTINGS[what](sources)


def _tasks(sources: Sources) -> Listing:
    return TASK_HEADINGS, task_rows(sources.entries(), sources.tag, sources.output_type)


def _groups(sources: Sources) -> Listing:
    return GROUP_HEADINGS, group_rows(sources.entries())


def _tags(sources: Sources) -> Listing:
    found = [entry for entry in sources.entries().values() if entry.kind == "tag"]
    return ("Name", "Members", "File"), sorted((entry.name, ", ".join(entry.members), "") for entry in found)


def _models(sources: Sources) -> Listing:
    from assay.models.model_registry import model_rows
    from assay.store.store import Store, default_path

    path = Path(sources.store or default_path())
    trained = []
    if path.exists():  # listing does not create a store
        with Store(path, may_be_read_only=True) as store:
            trained = [
                (model.name, "trained", f"{model.settings['method']} on {', '.join(model.tasks)}; {model.folder}")
                for model in store.fitted.all()
            ]
    return ("Name", "Kind", "What"), [*(tuple(map(str, row)) for row in model_rows()), *trained]


def _metrics(sources: Sources) -> Listing:
    from assay.scoring.registry import METRICS, metric_definition

    rows = []
    for name in METRICS.names():
        metric = metric_definition(name)
        direction = {True: "higher", False: "lower", None: ""}[metric.higher_is_better]
        rows.append((name, direction, metric.aggregation, ", ".join(metric.values), metric.description))
    return ("Name", "Better", "Aggregation", "For", "What"), rows


def _filters(sources: Sources) -> Listing:
    from assay.scoring.registry import FILTERS

    rows = []
    for name in FILTERS.names():
        factory = FILTERS.get(name)
        settings = ", ".join(inspect.signature(factory).parameters)
        rows.append((name, settings, (inspect.getdoc(factory) or "").split("\n")[0]))
    return ("Name", "Settings", "What"), rows


def _styles(sources: Sources) -> Listing:
    from assay.tasks.styles import OWN, STYLES

    own = (OWN, "as the task's file has it", "")
    rows = [(style.name, style.description, style.prompt + style.delimiter + style.answer) for style in STYLES.values()]
    return ("Name", "What", "Prompt and answer"), [own, *rows]


def _methods(sources: Sources) -> Listing:
    from assay.scoring.scorers.multiple_choice import METHODS

    rows = [(method.name, method.metric, method.description) for method in METHODS.values()]
    return ("Name", "Metric", "Score of a choice"), rows


def _profiles(sources: Sources) -> Listing:
    from assay.tasks.profiles.parse import find_profile, profile_names

    rows = []
    for name in profile_names():
        profile = find_profile(name)
        source = "\n".join(f"{key}: {value}" for key, value in profile.source.items())
        rows.append((name, source, profile.description, "\n".join(profile.lines()), "\n".join(profile.all_deviations)))
    return ("Name", "Source", "Description", "Rules", "Deviations"), rows


def _runs(sources: Sources) -> Listing:
    from assay.store.store import Store, default_path

    with Store(sources.store or default_path(), may_be_read_only=True) as store:
        records = store.runs.all()
        sources.notify(store.notices)
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


def rows_with(words: Sequence[str], headings: Sequence[str], rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that contain every word, in any column; upper and lower case are the same. A pattern is of a name."""
    places = [place for place, heading in enumerate(headings) if heading not in UNSEARCHED]
    patterns = [word.lower() for word in words if "*" in word or "?" in word]
    wanted = [word.lower() for word in words if word.lower() not in patterns]
    rows = [row for row in rows if all(fnmatch.fnmatchcase(row[0].lower(), pattern) for pattern in patterns)]
    texts = ["\n".join(row[place] for place in places).lower() for row in rows]
    return [row for row, text in zip(rows, texts, strict=True) if all(word in text for word in wanted)]


LISTINGS: dict[str, Callable[[Sources], Listing]] = {
    "tasks": _tasks,
    "groups": _groups,
    "tags": _tags,
    "models": _models,
    "metrics": _metrics,
    "filters": _filters,
    "styles": _styles,
    "methods": _methods,
    "profiles": _profiles,
    "runs": _runs,
}


def show_profiles(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One block per row: the cells are texts of many lines, for which a table has no room."""
    for name, *cells in rows:
        console.print(Text(name, style="bold"))
        for heading, cell in zip(headings[1:], cells, strict=True):
            lines = cell.splitlines()
            if lines:
                console.print(Text(f"  {heading.lower()}"))
            for line in lines:
                console.print(Padding(Text(line), (0, 0, 0, 4)))
        console.print()
