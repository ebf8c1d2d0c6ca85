"""The rows of `assay ls tasks` and `assay ls groups`, and their tables.

In: the catalog's entries. Out: rows with everything that is known, for searches and JSON; then the columns and rows
that a terminal shows: a benchmark of many configurations is one row.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from assay.core.plural import plural
from assay.tasks.catalog_entries import TaskEntry

TASK_HEADINGS = (
    *("Name", "Description", "Family", "Metric", "Shots", "Languages"),
    *("Type", "Tags", "Group", "File"),
)
GROUP_HEADINGS = ("Name", "Description", "Family", "Metric", "Tasks", "Languages", "Members", "File")
# Columns that a search leaves out: the folders of a path would match every row.
UNSEARCHED = ("File", "Tasks", "Shots")
# A narrower terminal has no room for a column of descriptions.
NARROW = 100
_SHORT = {"tasks": TASK_HEADINGS[:6], "groups": GROUP_HEADINGS[:6]}
_MOST_MEMBERS = 3
_MOST_LANGUAGES = 3

Row = tuple[str, ...]


def task_rows(entries: Mapping[str, TaskEntry], tag: str | None = None, output_type: str | None = None) -> list[Row]:
    """A row per task, in the order of families; only those with a tag or of a type, if one is given."""
    found = [
        entry
        for entry in entries.values()
        if entry.kind in ("task", "plugin")
        and (tag is None or tag in entry.tags)
        and (output_type is None or output_type == entry.output_type)
    ]
    return [
        (
            *(entry.name, entry.description, entry.family, _metric(entry.primary)),
            *("" if entry.shots is None else str(entry.shots), ", ".join(entry.languages)),
            *(entry.output_type or entry.kind, ", ".join(entry.tags), entry.whole, entry.file or ""),
        )
        for entry in sorted(found, key=_order)
    ]


def _metric(primary: str) -> str:
    """The metric to quote, without its filter, for which a listing has no room."""
    return primary.partition(",")[0]


def group_rows(entries: Mapping[str, TaskEntry]) -> list[Row]:
    """A row per group, in the order of families."""
    found = [entry for entry in entries.values() if entry.kind == "group"]
    return [
        (
            *(entry.name, entry.description, entry.family, _metric(entry.primary)),
            *(str(len(_leaves(entry.name, entries))), ", ".join(entry.languages)),
            *(", ".join(entry.members), entry.file or ""),
        )
        for entry in sorted(found, key=_order)
    ]


def _order(entry: TaskEntry) -> tuple[bool, str, str]:
    """By family, then by name; those without a family, which are often the user's own, come last."""
    return not entry.family, entry.family, entry.name


def _leaves(name: str, entries: Mapping[str, TaskEntry], above: tuple[str, ...] = ()) -> set[str]:
    """The tasks below a name. Members that are defined inside a group's file count as one task each."""
    entry = entries.get(name)
    if entry is None or entry.kind not in ("group", "tag") or name in above:
        return {name}
    return {leaf for member in entry.members for leaf in _leaves(member, entries, (*above, name))}


def table_of(
    what: str, headings: Sequence[str], rows: Sequence[Row], everything: Sequence[Row]
) -> tuple[tuple[str, ...], Sequence[Row]]:
    """The columns and rows for a terminal.

    Args:
        what: tasks or groups.
        headings: the headings of the rows.
        rows: the rows that were searched for.
        everything: all rows.
    """
    named = [dict(zip(headings, row, strict=True)) for row in rows]
    if what == "tasks":
        named = _collapsed(named, _sizes(dict(zip(headings, row, strict=True)) for row in everything))
    else:
        named = [
            {**row, "Description": row["Description"] or _shortened(row["Members"], _MOST_MEMBERS)} for row in named
        ]
    named = [{**row, "Languages": _shortened(row["Languages"], _MOST_LANGUAGES)} for row in named]
    filled = tuple(heading for heading in _SHORT[what] if heading == "Name" or any(row[heading] for row in named))
    return filled, [tuple(row[heading] for heading in filled) for row in named]


def narrow_lines(headings: Sequence[str], rows: Sequence[Row], width: int) -> Iterator[str]:
    """The rows of a table for a narrow terminal: families as headings, descriptions below names."""
    named = [dict(zip(headings, row, strict=True)) for row in rows]
    columns = [heading for heading in headings if heading not in ("Family", "Description")]
    widths = {column: max((len(row[column]) for row in named), default=0) for column in columns}
    family = None
    for row in named:
        if row.get("Family", "") != family:
            yield from ([] if family is None else [""])
            family = row.get("Family", "")
            yield family or "others"
        cells = [
            _labelled(column, row[column]).ljust(widths[column] + len(_LABELS.get(column, ""))) for column in columns
        ]
        line = ("  " + "  ".join(cells)).rstrip()
        yield line if len(line) <= width else f"{line[: width - 1].rstrip()}…"  # many languages
        yield from textwrap.wrap(row.get("Description", ""), width, initial_indent="    ", subsequent_indent="    ")


# What follows a number without a heading.
_LABELS = {"Shots": " shots", "Tasks": " tasks"}


def _labelled(column: str, cell: str) -> str:
    return cell + _LABELS.get(column, "") if cell else cell


def _sizes(rows: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """Name of a group of configurations → number of its tasks."""
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row["Group"]] = sizes.get(row["Group"], 0) + 1
    return sizes


def _collapsed(rows: Sequence[dict[str, str]], sizes: Mapping[str, int]) -> list[dict[str, str]]:
    """The rows, with one for all configurations of a benchmark if none of them is missing."""
    found: dict[str, dict[str, str]] = {}
    shown = _sizes(rows)
    languages: dict[str, dict[str, None]] = {}
    for row in rows:
        group = row["Group"]
        if group and shown[group] == sizes[group] > 1:
            languages.setdefault(group, {}).update(dict.fromkeys(filter(None, row["Languages"].split(", "))))
            text = f"{plural(sizes[group], 'task')}: {row['Description']}".removesuffix(": ")
            listed = ", ".join(languages[group])
            found[group] = {**found.get(group, {**row, "Name": group, "Description": text}), "Languages": listed}
        else:
            found[row["Name"]] = row
    return list(found.values())


def _shortened(names: str, most: int) -> str:
    """The first of some names."""
    listed = names.split(", ")
    more = len(listed) - most
    return names if more <= 1 else f"{', '.join(listed[:most])} and {more} more"
