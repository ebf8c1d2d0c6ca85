"""Everything that the files of tasks and groups say about them, as plain data: their cards and their definitions.

Takes names and the catalog, gives a mapping per task or group. No data is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.specs import TaskOptions
from assay.tasks.catalog import Catalog
from assay.tasks.lm_eval.file.card import card_of, reported_metrics
from assay.tasks.lm_eval.file.definition import DEFAULT_METRICS
from assay.tasks.lm_eval.file.format_key import usual_output_type
from assay.tasks.lm_eval.file.yaml_reader import TaskFile
from assay.tasks.task_tree import ErrorNode, FileNode, GroupNode, Node, ReadyNode, TaskFinder, walk
from assay.tasks.unknown_names import unknown_wording

# What a group shows of each of its tasks.
SUMMARY = ("name", "description", "primary", "chance", "shots", "rows")
# Facts of a card that are not those of a group: it has the sum of its tasks, or none.
_OF_TASKS = ("rows", "majority")

Facts = dict[str, Any]


def cards(wanted: Sequence[str], catalog: Catalog) -> list[Facts]:
    """The facts of every task and group that is named; raises the first error of a name or file.

    Args:
        wanted: names, patterns or paths.
        catalog: index of the known names.
    """
    finder = TaskFinder(catalog, TaskOptions())
    nodes = [node for item in wanted for node in finder.find(item)]
    for node in walk(nodes):
        if isinstance(node, ErrorNode):
            raise node.error
        if isinstance(node, FileNode) and node.wording.prompt is not None and node.file.data.get("prompts") is None:
            raise unknown_wording(str(node.file.data.get("task")), node.wording.prompt)
    return [facts for node in nodes for facts in _facts(node, catalog)]


def _facts(node: Node, catalog: Catalog) -> Iterator[Facts]:
    if isinstance(node, FileNode):
        yield _task_facts(node.file.changed(node.overrides.data, node.overrides.places), catalog)
    elif isinstance(node, GroupNode):
        yield _group_facts(node, catalog)
    elif isinstance(node, ReadyNode):
        for task in node.tasks:
            metrics = [metric.name for metric in task.scoring.metrics]
            yield {"name": task.card.name, "kind": "task", "metrics": metrics, **task.card.facts}


def _task_facts(file: TaskFile, catalog: Catalog) -> Facts:
    data = {key: value for key, value in file.data.items() if value is not None}
    name = str(data.get("task"))
    shots = data.get("num_fewshot", 0)
    facts = {
        "name": name,
        "kind": "task",
        "family": _family(name, file, catalog),
        "output_type": data.get("output_type", usual_output_type(data)),
        "metrics": _metrics(data),
        "shots": shots,
        "dataset": _dataset(data),
        "evaluated": data.get("test_split") or data.get("validation_split"),
        "file": str(file.path),
    }
    return {**{key: value for key, value in facts.items() if value not in (None, "")}, **card_of(data)}


def _metrics(data: Mapping[str, Any]) -> list[str]:
    is_known = data.get("metric_list") or data.get("output_type", usual_output_type(data)) in DEFAULT_METRICS
    return reported_metrics(data) if is_known and "class" not in data else []


def _dataset(data: Mapping[str, Any]) -> str:
    """The dataset's id and configuration, or its files."""
    path, options = data.get("dataset_path"), data.get("dataset_kwargs")
    files = options.get("data_files") if isinstance(options, Mapping) else None
    if files:
        listed = [files] if isinstance(files, str) else files.values() if isinstance(files, Mapping) else files
        return ", ".join(map(str, listed))
    return " ".join(str(part) for part in (path, data.get("dataset_name")) if part)


def _group_facts(node: GroupNode, catalog: Catalog) -> Facts:
    group = node.definition
    is_own = group.file.data.get("group") == group.name
    card = card_of(group.file.data) if is_own else {}
    below = [found for found in walk([node]) if isinstance(found, FileNode)]
    tasks = {str(found.file.data.get("task")): _task_facts(found.file, catalog) for found in below}
    rows: Counter[str] = Counter()
    for facts in tasks.values():
        rows.update(facts.get("rows", {}))
    return {
        "name": group.name,
        "kind": "group",
        **_filled("family", _family(group.name, group.file, catalog)),
        **_filled("metrics", [metric.metric for metric in group.metrics]),
        "members": [member.name for member in group.members],
        "tasks": [{key: facts[key] for key in SUMMARY if key in facts} for facts in tasks.values()],
        "file": str(group.file.path),
        **{key: value for key, value in card.items() if key not in _OF_TASKS},
        **(_filled("rows", dict(rows)) if all("rows" in facts for facts in tasks.values()) else {}),
    }


def _filled(key: str, value: Any) -> Facts:
    return {key: value} if value else {}


def _family(name: str, file: TaskFile, catalog: Catalog) -> str:
    entry = catalog.entries.get(name)
    is_it = entry is not None and entry.file is not None and Path(entry.file).resolve() == file.path.resolve()
    return entry.family if entry is not None and is_it else ""
