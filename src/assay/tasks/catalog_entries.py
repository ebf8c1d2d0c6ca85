"""What a task file defines, for the catalog: a name, and the facts that listings show and search.

Takes the merged mapping of a file, gives an entry for each task and group. Faults are ignored: a run reports them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A name that can be run.

    Attributes:
        name: the name.
        kind: `task`, `group`, `tag` or `plugin`.
        file: the defining file; None for tags and plugins.
        output_type: the request shape of a task.
        tags: the tags of a task.
        members: task names of a tag; member names of a group.
        description: what a document asks, in one line.
        family: benchmarks of the same kind, such as reasoning: the folder in the library.
        primary: the metric to quote, or the first that the file lists.
        shots: few-shot examples of a task; None for a group.
        languages: languages of the documents, such as en.
        whole: the group over all tasks of the file, if it has configurations.
    """

    name: str
    kind: str
    file: str | None = None
    output_type: str = ""
    tags: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    description: str = ""
    family: str = ""
    primary: str = ""
    shots: int | None = None
    languages: tuple[str, ...] = ()
    whole: str = ""

    @property
    def path(self) -> Path | None:
        """The defining file as a path; created on access, as there may be many thousand entries."""
        return None if self.file is None else Path(self.file)


def entries_of(data: Mapping[str, Any]) -> Iterator[TaskEntry]:
    """The tasks and groups that a file defines; none for a file that only serves as an include."""
    # The index of a large folder is cached: then no file is read, and the rules of task files are not needed.
    from assay.tasks.lm_eval.file.configurations import configured_groups, configured_tasks, is_configured

    if is_configured(data):
        for task, _ in configured_tasks(data).values():
            yield from _whole(data, {**task, "task": str(task["task"])})
        for name, group in configured_groups(data).items():
            described = group if name == str(data["task"]) else _as_part(group, data)
            yield from _whole(data, described)
    elif "group" in data and "class" not in data:
        members = data.get("task")
        names = tuple(map(_member_name, members if isinstance(members, list) else ()))
        yield replace(_described(str(data["group"]), "group", data), members=names)
    elif isinstance(data.get("task"), str):
        tags = data.get("tag") or []
        tags = [tags] if isinstance(tags, str) else tags
        kept = tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
        shots = data.get("num_fewshot")
        yield replace(
            _described(data["task"], "task", data),
            output_type=str(data.get("output_type", "generate_until")),
            tags=kept,
            shots=shots if isinstance(shots, int) else 0,
        )


def _whole(file: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[TaskEntry]:
    for entry in entries_of(data):
        yield replace(entry, whole=str(file["task"]))


def _as_part(group: Mapping[str, Any], file: Mapping[str, Any]) -> dict[str, Any]:
    """A subgroup, described as a part of its group."""
    card = group.get("card")
    if not isinstance(card, dict):
        return dict(group)
    return {**group, "card": {**card, "description": f"{len(group['task'])} of the tasks of {file['task']}."}}


def _described(name: str, kind: str, data: Mapping[str, Any]) -> TaskEntry:
    card = data.get("card")
    card = card if isinstance(card, dict) else {}
    languages = card.get("languages")
    return TaskEntry(
        name,
        kind,
        description=_text(card.get("description")),
        family=_text(card.get("family")),
        primary=_text(card.get("primary")) or _first_metric(data),
        languages=tuple(map(str, languages)) if isinstance(languages, list) else (),
    )


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _first_metric(data: Mapping[str, Any]) -> str:
    listed = data.get("metric_list") or data.get("aggregate_metric_list")
    first = listed[0] if isinstance(listed, list) and listed else listed
    return _text(first.get("metric")) if isinstance(first, dict) else ""


def _member_name(member: Any) -> str:
    if isinstance(member, dict):
        return str(member.get("group") or member.get("task"))
    return str(member)
