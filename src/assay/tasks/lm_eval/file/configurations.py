"""The key `configurations` of a task file: languages, subjects or subsets of a benchmark, each a task of its own.

Takes a task file, gives one task file per configuration, one group file over all of them and one per subgroup, so
that later stages need not know about the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from assay.core.errors import Fault, TaskFileError, did_you_mean
from assay.data.sources import FILE_BUILDERS
from assay.tasks.lm_eval.file.value_checks import key_fault, show
from assay.tasks.lm_eval.file.yaml_reader import CARD, KeyPath, SourceLocation, TaskFile, merged_card

CONFIGURATIONS, SUBGROUPS = "configurations", "subgroups"
# Keys of a file with configurations that its tasks do not have.
KEYS = (CONFIGURATIONS, SUBGROUPS, "group_alias", "aggregate_metric_list")
# Keys that a group has in common with its tasks.
_SHARED = ("metadata", CARD)
_NAME = re.compile(r"\w[\w.-]*")
_NAME_RULE = "letters, digits, underscores, hyphens and dots, such as high_school_physics"

_Data = Mapping[Any, Any]
_Places = dict[KeyPath, SourceLocation]


def is_configured(data: _Data) -> bool:
    """Whether a file defines a group of tasks by the key `configurations`."""
    return CONFIGURATIONS in data and "task" in data and "group" not in data


def defined_files(file: TaskFile) -> dict[str, TaskFile]:
    """The task and group files that a file stands for, by name: itself if it has no configurations.

    Tasks come first, then subgroups, then the group over everything.
    """
    if not is_configured(file.data):
        is_group = "group" in file.data and "class" not in file.data
        return {str(file.data.get("group" if is_group else "task")): file}
    faults = list(configuration_faults(file))
    if faults:
        raise TaskFileError(*faults)
    places = _grouped_places(file)
    shared = {keys: place for keys, place in file.places.items() if keys[0] not in KEYS}
    found = {}
    for name, (data, entry) in configured_tasks(file.data).items():
        found[name] = TaskFile(file.path, data, _task_places(shared, places, entry, file), file.repeated)
    for name, data in configured_groups(file.data).items():
        found[name] = TaskFile(file.path, data, _group_places(file, name, data), file.repeated)
    return found


# What a file defines, without locations


def configured_tasks(data: _Data) -> dict[str, tuple[dict[str, Any], str]]:
    """Name of a task → its mapping and the name of its configuration. Faulty entries are left out."""
    entries = data.get(CONFIGURATIONS)
    shared = {key: value for key, value in data.items() if key not in KEYS}
    found = {}
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if isinstance(name, str) and isinstance(entry, (dict, type(None))):
            task = _task_data(shared, name, entry or {})
            found[str(task["task"])] = (task, name)
    return found


def _task_data(shared: Mapping[str, Any], name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    data = {**shared, "task": f"{shared.get('task')}_{name}", **entry}
    card = merged_card(shared.get(CARD), entry.get(CARD))
    if card is not None:
        data[CARD] = card
    if "dataset_name" not in data and data.get("dataset_path") not in (None, *FILE_BUILDERS):
        data["dataset_name"] = name
    return data


def configured_groups(data: _Data) -> dict[str, dict[str, Any]]:
    """Name of a group → its mapping: subgroups, then the group over them and over the tasks in none of them."""
    tasks = {configuration: name for name, (_, configuration) in configured_tasks(data).items()}
    given = data.get(SUBGROUPS)
    subgroups = {
        str(name): [tasks[member] for member in members if isinstance(member, str) and member in tasks]
        for name, members in (given.items() if isinstance(given, dict) else ())
        if isinstance(members, list)
    }
    below = {task for members in subgroups.values() for task in members}
    main = [*subgroups, *(task for task in tasks.values() if task not in below)]
    kept = {key: data[key] for key in ("aggregate_metric_list", *_SHARED) if key in data}
    found = {name: {"group": name, "task": members, **kept} for name, members in subgroups.items()}
    alias = {"group_alias": data["group_alias"]} if "group_alias" in data else {}
    return {**found, str(data.get("task")): {"group": str(data.get("task")), **alias, "task": main, **kept}}


# Locations


def _grouped_places(file: TaskFile) -> dict[Any, _Places]:
    """Name of a configuration → locations of its keys, with paths relative to it."""
    found: dict[Any, _Places] = {}
    for keys, place in file.places.items():
        if len(keys) > 1 and keys[0] == CONFIGURATIONS:
            found.setdefault(keys[1], {})[keys[2:]] = place
    return found


def _task_places(shared: _Places, places: Mapping[Any, _Places], name: str, file: TaskFile) -> _Places:
    own = dict(places.get(name, {}))
    itself = own.pop((), None)
    entry = file.data[CONFIGURATIONS][name] or {}
    replaced = {key for key in entry if key != CARD}
    kept = {keys: place for keys, place in shared.items() if keys[0] not in replaced and keys[:2] not in own}
    # The location of a name or dataset_name that follows from the configuration's name is that of the configuration.
    implied = {} if itself is None else dict.fromkeys((("task",), ("dataset_name",)), itself)
    return {**implied, **{keys: place for keys, place in kept.items() if keys != ("task",)}, **own}


def _group_places(file: TaskFile, name: str, data: _Data) -> _Places:
    found = {keys: place for keys, place in file.places.items() if keys[0] in (*_SHARED, "aggregate_metric_list")}
    own = {"group": ("task",) if name == file.data["task"] else (SUBGROUPS, name), "group_alias": ("group_alias",)}
    found.update({(key,): file.places[keys] for key, keys in own.items() if keys in file.places})
    first = file.places.get((SUBGROUPS, name)) or file.places.get((CONFIGURATIONS,))
    if first is not None:
        found.update({("task", number): first for number in range(len(data["task"]))})
        found[("task",)] = first
    return found


# Faults


def configuration_faults(file: TaskFile) -> Iterator[Fault]:
    """Faults of the keys `configurations` and `subgroups`; those of a task or group are found in its own file."""
    if file.data.get("class") is not None:
        yield Fault(file.where("class"), "names a class, which cannot have configurations", "a file without class")
    if not isinstance(file.data.get("task"), str):
        yield Fault(file.where("task"), f"is {show(file.data.get('task'))}", "the name of the group over all tasks")
    entries = file.data[CONFIGURATIONS]
    if not isinstance(entries, dict) or not entries:
        yield Fault(file.where(CONFIGURATIONS), f"is {show(entries)}", "a mapping: {name: {…}, …}")
        return
    for name, entry in entries.items():
        yield from _entry_faults(file, name, entry)
    yield from _subgroup_faults(file, entries)
    yield from _repeated_names(file, entries)


def _entry_faults(file: TaskFile, name: Any, entry: Any) -> Iterator[Fault]:
    where = file.where(CONFIGURATIONS, name)
    if not isinstance(name, str):
        yield key_fault(where, name)
    elif not _NAME.fullmatch(name):
        yield Fault(where, f"{name!r} is not the name of a configuration", _NAME_RULE)
    if entry is not None and not isinstance(entry, dict):
        yield Fault(where, f"is {show(entry)}", "the keys that this configuration changes: {…}, {} for none")
        return
    for key in entry or ():
        if key in (*KEYS, "group"):
            yield Fault(file.where(CONFIGURATIONS, name, key), f"{key} applies to the whole file", "a key of a task")
    named = (entry or {}).get("task")
    if "task" in (entry or {}) and not (isinstance(named, str) and _NAME.fullmatch(named)):
        yield Fault(file.where(CONFIGURATIONS, name, "task"), f"is {show(named)}", _NAME_RULE)


def _subgroup_faults(file: TaskFile, entries: _Data) -> Iterator[Fault]:
    given = file.data.get(SUBGROUPS)
    if given is None:
        return
    if not isinstance(given, dict):
        yield Fault(file.where(SUBGROUPS), f"is {show(given)}", "a mapping: {name: [configuration, …], …}")
        return
    for name, members in given.items():
        where = file.where(SUBGROUPS, name)
        if not isinstance(name, str):
            yield key_fault(where, name)
        elif not _NAME.fullmatch(name):
            yield Fault(where, f"{name!r} is not the name of a group", _NAME_RULE)
        if not isinstance(members, list) or not members:
            yield Fault(where, f"is {show(members)}", "a list of configurations")
            continue
        for number, member in enumerate(members):
            place = file.where(SUBGROUPS, name, number)
            if member not in entries:
                hint = did_you_mean(str(member), [key for key in entries if isinstance(key, str)])
                yield Fault(place, f"{member!r} is not a configuration of this file{hint}", "a key of configurations")
            elif member in members[:number]:
                yield Fault(place, f'"{member}" is listed twice', "each configuration once")


def _repeated_names(file: TaskFile, entries: _Data) -> Iterator[Fault]:
    """Faults of two tasks, or a task and a group, with one name."""
    seen = {file.data.get("task"): "the group"}
    given = file.data.get(SUBGROUPS)
    for name in given if isinstance(given, dict) else ():
        if name in seen:
            yield Fault(file.where(SUBGROUPS, name), f'"{name}" is the name of the group, too', "another name")
        seen[name] = "a subgroup"
    for name, entry in entries.items():
        if not isinstance(entry, (dict, type(None))):
            continue
        task = (entry or {}).get("task", f"{file.data.get('task')}_{name}")
        if isinstance(task, str) and task in seen:
            where = file.where(CONFIGURATIONS, name, "task")
            yield Fault(where, f'"{task}" is the name of {seen[task]}, too', "another name")
        elif isinstance(task, str):
            seen[task] = "another configuration"


def stray_faults(file: TaskFile) -> Iterator[Fault]:
    """Keys that need `configurations`, in a file of a single task."""
    for key in KEYS[1:]:
        if key in file.data and CONFIGURATIONS not in file.data:
            yield Fault(file.where(key), "applies to a file with the key configurations", f"a task file without {key}")
