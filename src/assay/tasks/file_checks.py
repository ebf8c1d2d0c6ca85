"""Checks task files without their data: every fault of every file at once.

Takes files or folders, gives the number of checked files and all their faults, each with file, line and key. If
code may run, every task and group is also built, code included.

A check is stricter than a run. A run rejects what cannot work. A check also reports mistakes that lm-eval accepts and
its own tree contains, such as a key given twice or `high_is_better` among a metric's settings.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, TaskFileError, UserError
from assay.core.specs import TaskOptions
from assay.data.readers import ReadOptions, read
from assay.tasks.catalog import Catalog, task_files
from assay.tasks.catalog_entries import TaskEntry
from assay.tasks.lm_eval.file.card import open_facts, primary_faults
from assay.tasks.lm_eval.file.code_outline import missing_code_faults, registered_filters
from assay.tasks.lm_eval.file.configurations import configuration_faults, defined_files, is_configured
from assay.tasks.lm_eval.file.groups import (
    GroupDefinition,
    Member,
    MemberOverrides,
    define_group,
    split_member,
    unknown_member,
    unknown_part,
)
from assay.tasks.lm_eval.file.python_code import CodeLoader
from assay.tasks.lm_eval.file.schema import KnownNames, base_faults, column_faults, group_faults, task_faults
from assay.tasks.lm_eval.file.value_checks import GENERATION_KEYS, gold_faults
from assay.tasks.lm_eval.file.yaml_reader import TaskFile, read_task_file
from assay.tasks.lm_eval.variants.prompt_variants import templates_path
from assay.tasks.promptsource import read_templates
from assay.tasks.selection import select_tasks

# Keys that the reader itself understands, and what happens to every other key.
_METRIC_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate"), "goes to the metric as it is"
_GENERATION_KEYS = tuple(GENERATION_KEYS), "goes to the model as it is"
_PIPELINE_KEYS = ("name", "filter"), "is ignored"
# Minimum similarity of a misspelled key to one of these: `average` is not `aggregation`.
_ALIKE = 0.75


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A task or group that cannot be built, and why."""

    name: str
    kind: str
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """How many tasks and groups there are, those that cannot be built, and whether their data was read too."""

    tasks: int
    groups: int
    failures: tuple[Unbuilt, ...]
    has_data: bool = False

    def failed(self, kind: str) -> int:
        """Number of tasks or groups that cannot be built."""
        return sum(failure.kind == kind for failure in self.failures)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Result of a check.

    Attributes:
        files: number of checked files.
        tasks: number of files that define a task.
        groups: number of files that define a group.
        faults: every fault, with file, line and key.
        loading: which tasks and groups can be built with their code and data; None if neither was requested.
        open_facts: facts of cards that are still to be written; they are no faults.
    """

    files: int
    tasks: int
    groups: int
    faults: tuple[Fault, ...]
    loading: LoadReport | None = None
    open_facts: tuple[Fault, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether there are no faults, and everything could be built if code was run."""
        return not self.faults and (self.loading is None or not self.loading.failures)


def folders_of(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The folders whose tasks the checked files may refer to."""
    return tuple(dict.fromkeys(path if path.is_dir() else path.parent for path in paths))


def columns_of(path: str | Path) -> list[str]:
    """The columns of the first row of a data file."""
    rows = read(Path(path).expanduser(), ReadOptions(), "--doc")
    if not rows:
        raise UserError(Fault(f"--doc {path}", "holds no document", "a JSON, JSONL or CSV file with one or more"))
    return list(rows[0])


def check_paths(
    paths: Sequence[Path],
    names: KnownNames,
    columns: Collection[str] | None = None,
    catalog: Catalog | None = None,
) -> CheckReport:
    """Checks files and folders.

    Args:
        paths: task files, or folders of them.
        names: known metrics, filters and aggregations.
        columns: columns of a sample document, to find names in templates that it lacks; None to skip this check.
        catalog: the index over their folders; created here if None.
    """
    files = [file for path in paths for file in _expanded(path)]
    catalog = Catalog(folders_of(paths)) if catalog is None else catalog
    faults: dict[Fault, None] = {}
    unwritten: list[Fault] = []
    kinds: Counter[str] = Counter()
    lone: dict[Path, Fault] = {}
    included: set[Path] = set()
    for path in files:
        try:
            file = read_task_file(path)
        except TaskFileError as error:
            faults.update(dict.fromkeys(error.faults))
            continue
        kinds.update(_kinds(file))
        unwritten += open_facts(file)
        included |= {place.file for place in file.places.values()} - {path}
        if _kind(file) == "base" and not path.name.startswith("_"):
            lone[path.resolve()] = _nameless(file)
        faults.update(dict.fromkeys(sorted(_file_faults(file, names, columns, catalog), key=_line)))
    known = {path.resolve() for path in included} if lone else set()
    faults.update((fault, None) for path, fault in lone.items() if path not in known)
    return CheckReport(len(files), kinds["task"], kinds["group"], tuple(faults), open_facts=tuple(unwritten))


def _line(fault: Fault) -> tuple[str, int]:
    """File and line of a fault. Faults without a line come last in their file."""
    match = re.match(r"(.*?):(\d+)(  |$)", fault.where)
    return (match[1], int(match[2])) if match else (fault.where.partition("  ")[0], sys.maxsize)


def _nameless(file: TaskFile) -> Fault:
    found = "the file names neither a task nor a group, and no checked file includes it"
    return Fault(str(file.path), found, "task: some_name", "A file that is only included begins with _ in its name")


def _file_faults(file: TaskFile, names: KnownNames, columns: Collection[str] | None, catalog: Catalog) -> list[Fault]:
    kind = _kind(file)
    if kind == "group":
        return [*_group_faults(file, catalog), *file.repeated]
    if kind == "templates":
        return _template_faults(file.path)
    if kind == "configurations":
        faults = list(configuration_faults(file))
        own = [] if faults else defined_files(file).values()
        return list(
            dict.fromkeys([*faults, *(fault for f in own for fault in _file_faults(f, names, columns, catalog))])
        )
    names = replace(names, filters=names.filters | registered_filters(file))
    found = task_faults(file, names) if kind == "task" else base_faults(file, names)
    found = [
        *found,
        *missing_code_faults(file),
        *_misspelt_keys(file),
        *_unreachable_golds(file),
        *_named_template_faults(file),
    ]
    found += file.repeated
    found += [] if found else primary_faults(file)
    return found if columns is None else [*found, *column_faults(file, columns)]


def _template_faults(path: Path) -> list[Fault]:
    """Faults of a file of PromptSource's templates."""
    try:
        read_templates(path)
    except UserError as error:
        return list(error.faults)
    return []


def _named_template_faults(file: TaskFile) -> list[Fault]:
    """Faults of the template file that a task names."""
    if not isinstance(file.data.get("prompts"), str):
        return []
    try:
        return _template_faults(templates_path(file))
    except UserError as error:
        return list(error.faults)


def _misspelt_keys(file: TaskFile) -> Iterator[Fault]:
    """Keys that would be passed on, but are almost certainly misspelled keys of the dialect."""
    generation = file.data.get("generation_kwargs")
    places: list[tuple[tuple[Any, ...], Any, tuple[tuple[str, ...], str]]] = [
        (("generation_kwargs",), generation, _GENERATION_KEYS)
    ]
    for listing, rule in (("metric_list", _METRIC_KEYS), ("filter_list", _PIPELINE_KEYS)):
        listed = file.data.get(listing)
        for number, entry in enumerate(listed if isinstance(listed, list) else ()):
            places.append(((listing, number), entry, rule))
    for path, data, (own, fate) in places:
        for key in data if isinstance(data, dict) else ():
            near = difflib.get_close_matches(key, own, 1, _ALIKE) if isinstance(key, str) and key not in own else []
            if near:
                yield Fault(file.where(*path, key), f'unknown key "{key}" {fate} (did you mean "{near[0]}"?)')


def _unreachable_golds(file: TaskFile) -> list[Fault]:
    """Right answers that cannot be one of the choices, of documents and of examples."""
    inner = file.data.get("fewshot_config")
    own = list(gold_faults(file, file.data, ()))
    return own + (list(gold_faults(file, inner, ("fewshot_config",))) if isinstance(inner, dict) else [])


def _expanded(path: Path) -> list[Path]:
    if path.is_dir():
        found = [Path(file) for file in sorted(task_files(str(path)))]
        if not found:
            others = sorted(other.name for other in path.rglob("*.yml"))
            advice = f"Rename {others[0]} to {others[0].removesuffix('.yml')}.yaml" if others else ""
            raise UserError(Fault(str(path), "holds no task files", "files that end in .yaml", advice))
        return found
    if not path.exists():
        raise UserError(Fault(str(path), "no such file or folder", "a task file or a folder of them"))
    return [path]


def _kinds(file: TaskFile) -> list[str]:
    """What a file defines, as words."""
    if _kind(file) != "configurations" or any(configuration_faults(file)):
        return [_kind(file)]
    return [_kind(each) for each in defined_files(file).values()]


def _kind(file: TaskFile) -> str:
    if is_configured(file.data):
        return "configurations"
    if "group" in file.data and "class" not in file.data:
        return "group"
    if "task" in file.data:
        return "task"
    return "templates" if isinstance(file.data.get("templates"), dict) else "base"


def _group_faults(file: TaskFile, catalog: Catalog) -> list[Fault]:
    faults = group_faults(file)
    if faults:
        return [*faults, *_unknown_names(file, catalog)]
    try:
        group = define_group(file, file.data, str(file.data["group"]))
    except TaskFileError as error:
        return list(error.faults)
    faults = [
        unknown_member(file, member, catalog.entries)
        for member in group.members
        if split_member(member.name, catalog.entries)[0] not in catalog.entries and not _is_inline(group, member)
    ]
    for member in group.members:
        chain = _member_path(member.name, group.name, catalog.entries)
        if chain:
            found = f"group cycle: {' → '.join((group.name, *chain))}"
            faults.append(Fault(file.where(*member.place), found, next="Remove one of these members"))
    return [*faults, *_unknown_parts(group, catalog.entries)]


def _unknown_parts(group: GroupDefinition, entries: Mapping[str, TaskEntry]) -> Iterator[Fault]:
    """Parts of a score that name neither a member of the group nor a task or group below one."""
    parts = [part for score in group.scores for part in score.parts or ()]
    known = {member.name for member in group.members}
    waiting = list(known) if parts else []
    while waiting:
        entry = entries.get(split_member(waiting.pop(), entries)[0])
        new = {entry.name, *entry.members} - known if entry is not None else set()
        known |= new
        waiting += new
    while parts:
        part = parts.pop(0)
        parts = [*part.parts, *parts]
        yield from (unknown_part(group, part, name) for name in part.of if name not in known)


def _unknown_names(file: TaskFile, catalog: Catalog) -> list[Fault]:
    """Members that are unknown names, of a group that is too faulty to be defined."""
    listed = file.data.get("task")
    members = [
        Member(name, False, MemberOverrides(), ("task", number))
        for number, name in enumerate(listed if isinstance(listed, list) else ())
        if isinstance(name, str) and split_member(name, catalog.entries)[0] not in catalog.entries
    ]
    return [unknown_member(file, member, catalog.entries) for member in members]


def _member_path(start: str, goal: str, entries: Mapping[str, TaskEntry]) -> tuple[str, ...]:
    """Names from one group down to another through its members; empty if there is no path."""
    waiting: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while waiting:
        names = waiting.pop()
        own = split_member(names[-1], entries)[0]
        if own == goal:
            return names
        entry = entries.get(own)
        if own not in seen and entry is not None and entry.kind == "group":
            seen.add(own)
            waiting += [(*names, member) for member in entry.members]
    return ()


def _is_inline(group: GroupDefinition, member: Member) -> bool:
    """Whether a member is defined inline, including by the keys that the group gives all its members."""
    if member.is_group:
        return "task" in member.changes.data
    return "dataset_path" in member.changes.data or "dataset_path" in group.changes.data


def load_everything(
    paths: Sequence[Path], catalog: Catalog, names: KnownNames, code: CodeLoader, data: str | None = None
) -> LoadReport:
    """Builds the tasks and groups that the files below some paths define.

    Args:
        paths: files and folders.
        catalog: the index that holds them.
        names: known metrics, filters and aggregations.
        code: imports the code that they name.
        data: folder of datasets, to read the data of every task and build its first document; None not to.
    """
    roots = [path.resolve() for path in paths]
    counts: Counter[str] = Counter()
    failures = []
    for entry in catalog.entries.values():
        if entry.path is None or not any(entry.path.resolve().is_relative_to(root) for root in roots):
            continue
        counts[entry.kind] += 1
        try:
            found = select_tasks([entry.name], catalog, TaskOptions(data=data), names, code)
            for task in found.tasks if data is not None and entry.kind == "task" else ():
                task.build(task.documents()[0])
        except UserError as error:
            failures.append(Unbuilt(entry.name, entry.kind, error.faults))
    return LoadReport(counts["task"], counts["group"], tuple(failures), data is not None)
