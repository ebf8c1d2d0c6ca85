"""From names to ready tasks and groups: expands wildcards, tags and groups, and builds every leaf once.

Takes what the user named, gives the tasks of a run in order, its groups bottom-up, or all faults at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Union

from assay.core.errors import Fault, TaskFileError, UnknownName, UserError
from assay.core.protocols import Task
from assay.core.specs import LM_EVAL, GroupSpec, TaskOptions, VariationAxes
from assay.core.variance_axes import is_variant
from assay.data import readers as files
from assay.tasks.catalog import PLUGINS, Catalog
from assay.tasks.catalog_index import TaskEntry
from assay.tasks.corpora import MARK, TextTask, open_corpus
from assay.tasks.lm_eval.file.definition import TaskDefinition, define
from assay.tasks.lm_eval.file.groups import GroupDefinition, Member, MemberOverrides, define_group, unknown_member
from assay.tasks.lm_eval.file.python_code import CodeLoader, Consent, Shim, bind, refusals
from assay.tasks.lm_eval.file.schema import KnownNames, group_faults, task_faults
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, KeyPath, TaskFile, read_task_file, references
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.lm_eval.variants.axes import by_variant, varied
from assay.tasks.lm_eval.variants.prompt import ALL_PROMPTS, PromptOptions, in_prompts
from assay.tasks.profiles.apply import ProfileOverrides
from assay.tasks.profiles.expand import BestOfVariants, ProfileApplier
from assay.tasks.profiles.parse import find_profile
from assay.tasks.styles import OWN, Style, find_style, is_style
from assay.tasks.unknown_names import empty_folder, unknown_task

Wanted = Union[str, Task]


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a run in order, its groups bottom-up, what to combine of them, and what users must know."""

    tasks: tuple[Task, ...]
    groups: tuple[GroupSpec, ...]
    combined: tuple[BestOfVariants, ...] = ()
    notices: tuple[str, ...] = ()


def select_tasks(
    wanted: Sequence[Wanted],
    catalog: Catalog,
    options: TaskOptions,
    names: KnownNames,
    code: CodeLoader | None = None,
) -> Selection:
    """Builds everything that was named; raises once, with every fault.

    Args:
        wanted: names, patterns, paths or tasks.
        catalog: what the names mean.
        options: what the run changes about tasks.
        names: metrics, filters and aggregations that there are.
        code: imports the Python code that task files name; None to run none.
    """
    builder = _Builder(catalog, options, names, code or CodeLoader(Consent(), Shim()))
    for item in wanted:
        builder.collect(item)
    builder.faults.update(dict.fromkeys(refusals(builder.refused, catalog.include_path)))
    if builder.unknown and len(builder.unknown) == len(builder.faults):
        raise UnknownName(*builder.faults)
    if builder.faults:
        raise TaskFileError(*builder.faults)
    if not builder.tasks:
        raise UserError(Fault("--tasks", "names no task", "a task, group or tag", "See: assay ls tasks"))
    profile_applier = builder.profile_applier
    notices = (*profile_applier.notices(), *builder.notices)
    # The best of a profile's variants would have to be told for every combination.
    combined = profile_applier.combined() if not any(map(is_variant, builder.tasks)) else ()
    return Selection(tuple(builder.tasks.values()), tuple(builder.groups.values()), combined, notices)


# Unknown names that are compared with all known ones, for the nearest.
_MOST_SUGGESTIONS = 20
# What a group says about itself; a member that is a registered group says it in its own file.
_GROUP_WORDS = ("task", "group_alias", "aggregate_metric_list")


class _Builder:
    """Collects tasks, groups and faults while walking down from the names."""

    def __init__(self, catalog: Catalog, options: TaskOptions, names: KnownNames, code: CodeLoader) -> None:
        self._catalog = catalog
        self._options = options
        self._names = names
        self._code = code
        self.refused: list[tuple[TaskFile, KeyPath, FunctionReference]] = []
        self._changed: dict[str, Mapping[str, Any]] = {}
        self._open: list[str] = []
        self._made: dict[str, list[str]] = {}
        self._files: dict[tuple[str, Style | None, bool, str | None], tuple[Mapping[str, Any], list[str]]] = {}
        self._suggestions = _MOST_SUGGESTIONS
        self._style: Style | None = None
        self._is_styled = False
        self._prompt: str | None = None
        self.profile_applier = ProfileApplier(
            names.metrics, find_profile(options.like) if options.like is not None else None
        )
        self.tasks: dict[str, Task] = {}
        self.groups: dict[str, GroupSpec] = {}
        self.faults: dict[Fault, None] = {}  # in order, each once
        self.unknown: list[str] = []
        self.notices: list[str] = []

    def collect(self, item: Wanted) -> None:
        """Adds what one item of the user's list means."""
        if isinstance(item, str) and item.startswith(MARK):
            self._try(partial(self._add_texts, item))
            return
        name, style = self._split_style(item) if isinstance(item, str) else (item, self._options.style)
        # What is no style may be one of a task's prompts, which only the task knows.
        self._prompt = style if isinstance(item, str) and self._may_be_prompt(name, style) else None
        style = None if self._prompt is not None else style
        self._is_styled = isinstance(item, str) and style is not None
        try:
            self._style = find_style(style) if style is not None and style != OWN else None
        except UserError as error:
            self.faults.update(dict.fromkeys(error.faults))
            return
        if isinstance(name, str):
            self._collect_name(name)
        else:
            self._try(partial(self._add_object, name))

    def _add_object(self, task: Task) -> None:
        known = self.tasks.get(task.card.name)
        if known is not None and known is not task:
            raise _two_of_a_name(known, task)
        self._add_task(task, {})

    def _add_texts(self, name: str) -> None:
        """The user's own texts. Styles are ways to put a question, so they do not touch them."""
        self._style, self._is_styled = None, False
        corpus = open_corpus(name, self._options)
        for task in corpus.tasks:
            self._add_task(task, {})
        if corpus.group is not None:
            self.groups[corpus.group.name] = corpus.group
        self.notices.extend(notice for notice in corpus.notices if notice not in self.notices)

    def _collect_name(self, item: str) -> None:
        if item.endswith((".yaml", ".yml")):
            path = Path(item).expanduser()
            for match in files.matching(path, "--tasks") or [path]:
                self._try(partial(self._add_path, match))
        elif not self._catalog_has(item) and Path(item).expanduser().is_dir():
            self._try(partial(self._add_folder, Path(item).expanduser()))
        else:
            self._try(partial(self._add_pattern, item))

    def _may_be_prompt(self, name: Wanted, style: str | None) -> bool:
        return isinstance(name, str) and style not in (None, self._options.style) and not is_style(str(style))

    def _split_style(self, item: str) -> tuple[str, str | None]:
        """An item and the prompt style behind an @; the run's style for an item without one."""
        ways = [(item[:place], item[place + 1 :]) for place, sign in enumerate(item) if sign == "@" and place]
        if not ways or item in self._catalog.entries or files.matching(Path(item).expanduser(), "--tasks"):
            return item, self._options.style
        # A path may have an @ of its own, before the style or in it.
        known = [way for way in ways if is_style(way[1])]
        return (known or ways)[-1]

    def _try(self, add: Callable[[], object]) -> None:
        """Keeps the faults of one item, so that those of the others are found too."""
        self._open.clear()
        try:
            add()
        except UserError as error:
            self.faults.update(dict.fromkeys(error.faults))
            if isinstance(error, UnknownName):
                self.unknown.extend(fault.found for fault in error.faults)

    def _catalog_has(self, pattern: str) -> bool:
        found: list[str] = []
        self._try(lambda: found.extend(self._catalog.select(pattern)))
        return bool(found)

    def _add_folder(self, folder: Path) -> None:
        """Every task and group that stands directly in a folder. Files that are there to be included are not run."""
        paths = sorted(folder.glob("*.yaml"))
        if not paths:
            raise empty_folder(folder)
        for path in paths:
            self._try(partial(self._add_path, path, is_named=False))

    def _add_pattern(self, pattern: str) -> None:
        names = self._catalog.select(pattern)
        if not names:
            raise unknown_task(pattern, self._catalog, self._near_names())
        for name in names:
            self._add_name(name, MemberOverrides())

    def _near_names(self) -> list[str]:
        """What an unknown name may have meant; nothing after the first few, as comparing with all names takes long."""
        self._suggestions -= 1
        return list(self._catalog.entries) if self._suggestions >= 0 else []

    def _add_path(self, path: Path, is_named: bool = True) -> None:
        file = read_task_file(path)
        if "group" in file.data:
            self._add_group(self._define_group(file), MemberOverrides())
        elif "task" in file.data:
            self._add_file(file, MemberOverrides())
        elif is_named:
            raise TaskFileError(Fault(str(path), "defines neither a task nor a group", "a key task: or group:"))

    def _add_name(self, name: str, changes: MemberOverrides) -> list[str]:
        """Adds a registered name; gives the names of its direct results."""
        entry = self._catalog.entries[name]
        if entry.kind == "tag":
            return [leaf for member in entry.members for leaf in self._add_name(member, changes)]
        if entry.kind == "plugin":
            return self._add_plugin(name, PLUGINS.create(name, Task), changes.data)
        assert entry.path is not None, "files define tasks and groups"
        if entry.kind == "group":
            return self._add_group(self._define_group(read_task_file(entry.path)), changes)
        # Groups and tags lead to a task several times; it is read and built once, unless they change it differently.
        way = (name, self._style, self._is_styled, self._prompt)
        known = self._files.get(way)
        if known is None or known[0] != changes.data:
            self._files[way] = known = (changes.data, self._add_file(read_task_file(entry.path), changes))
        return list(known[1])

    def _add_plugin(self, name: str, task: Task, changes: Mapping[str, Any]) -> list[str]:
        """Adds a task of an installed package; what a group changes about it, or another name, is said."""
        lines = []
        if task.card.name != name:
            lines.append(f'the task "{name}" calls itself "{task.card.name}" and is recorded under that name')
        if changes:
            keys = ", ".join(sorted(map(str, changes)))
            lines.append(f"{task.card.name}: what its group says ({keys}) has no effect: it is written in Python")
        self.notices.extend(line for line in lines if line not in self.notices)
        return self._add_task(task, {})

    def _define_group(self, file: TaskFile) -> GroupDefinition:
        faults = group_faults(file)
        if faults:
            raise TaskFileError(*faults)
        return define_group(file, file.data, file.data["group"])

    def _add_group(self, group: GroupDefinition, changes: MemberOverrides) -> list[str]:
        if group.name in self._open:
            chain = " → ".join((*self._open, group.name))
            raise TaskFileError(Fault(str(group.file.path), f"group cycle: {chain}", next="Break the cycle"))
        name = self._styled_name(group.name)
        if name in self._made:
            self._check_same("group", name, changes.data, str(group.file.path))
            return self._made[name]
        self._open.append(group.name)
        inherited = changes.over(group.changes)
        members: list[str] = []
        for member in group.members:
            members += self._add_member(group, member, inherited)
        self._open.pop()
        # Bottom-up: the members' own groups were added on the way down, so this one comes after them.
        spec = GroupSpec(
            name, self._styled_name(group.alias), tuple(dict.fromkeys(members)), group.metrics, group.version
        )
        create = self._per_variant(spec, group)
        self.groups.update({spec.name: spec for spec in create})
        self._made[name] = [spec.name for spec in create]
        self._changed[f"group {name}"] = changes.data
        return self._made[name]

    def _per_variant(self, spec: GroupSpec, group: GroupDefinition) -> list[GroupSpec]:
        """A group for every combination of what is varied, and for every variant of a profile."""
        create = []
        for mark, members in by_variant(spec.members).items():
            alike = self.profile_applier.groups(replace(spec, members=tuple(members)), group.name, group.alias)
            create += [_marked(item, mark) for item in alike]
        return create or [spec]

    def _styled_name(self, name: str) -> str:
        way = self._style.name if self._style is not None else self._prompt
        return name if way is None else f"{name}@{way}"

    def _add_member(self, group: GroupDefinition, member: Member, inherited: MemberOverrides) -> list[str]:
        # What stands at the member itself is nearer to it than what the group says to all of them.
        changes = member.changes.over(inherited)
        where = group.file.where(*member.place)
        if member.name in self._catalog.entries:
            words = [word for word in _GROUP_WORDS if word in member.changes.data] if member.is_group else []
            if words:
                raise TaskFileError(
                    Fault(where, f'"{member.name}" is a registered group, but {words[0]} is given', "another name")
                )
            if self._options.like == LM_EVAL and not member.is_group and self._collapses(member):
                return self._add_collapsed(member, changes)
            return self._add_name(member.name, changes)
        inline_name = f"{group.name}::{member.name}"
        if member.is_group and "task" in member.changes.data:
            inner = define_group(group.file, member.changes.data, inline_name, member.place)
            return self._add_group(inner, inherited)
        if not member.is_group and ("dataset_path" in changes.data or "include" in changes.data):
            return self._add_file(_inline_file(group.file, inline_name, changes), MemberOverrides())
        raise UnknownName(unknown_member(group.file, member, self._near_names()))

    def _collapses(self, member: Member) -> bool:
        """Whether lm-eval would give all tasks below a member one name, so that only the last is evaluated."""
        return member.is_mapping and self._catalog.entries[member.name].kind in ("group", "tag")

    def _add_collapsed(self, member: Member, changes: MemberOverrides) -> list[str]:
        inner = _Builder(self._catalog, self._options, self._names, self._code)
        inner._style, inner._is_styled, inner._prompt = self._style, self._is_styled, self._prompt
        inner._add_name(member.name, changes)
        self.faults.update(inner.faults)
        self.refused.extend(inner.refused)
        last = list(inner.tasks)[-1:]
        renamed = MemberOverrides({"task": member.name}).over(changes)
        entries = self._catalog.entries
        return [name for leaf in last for name in self._add_file(read_task_file(_path(entries[leaf])), renamed)]

    def _add_file(self, file: TaskFile, changes: MemberOverrides) -> list[str]:
        merged = file.changed(changes.data, changes.places)
        try:
            tasks = self._built(merged)
        except TaskFileError as error:
            self.faults.update(dict.fromkeys(error.faults))
            return []
        return [name for task in tasks for name in self._add_task(task, changes.data)]

    def _built(self, file: TaskFile) -> list[Task]:
        """The task of a file, in as many variants as it is asked; none when it names code that may not run."""
        if self._options.prompts == ALL_PROMPTS:
            self._check_prompts(file)
        elif self._options.prompts is not None:
            file = file.changed({"prompts": self._options.prompts}, {})
        named = [(file, keys, reference) for keys, reference in references(file.data)]
        refused = [item for item in named if not self._code.consent.covers(item[2].folder)]
        self.refused.extend(refused)
        bound = bind(file, self._code) if named and not refused else file.data
        shim = self._code.shim
        faults = task_faults(file, replace(self._names, filters=self._names.filters | set(shim.filters)))
        if faults:
            raise TaskFileError(*faults)
        if refused:
            return []
        if file.data.get("class") is not None and shim.make_task is not None:
            return [shim.make_task(bound["class"], file, self._options)]

        def defined(task: TaskFile) -> TaskDefinition:
            changed = {key: value for key, value in task.data.items() if file.data.get(key) is not value}
            named = {key: value for key, value in bound.items() if key in task.data}
            return define(task, _with_table_names({**named, **changed}, shim), self._code.may_draw())

        overrides = ProfileOverrides(self._options, self._is_styled, self._style)
        definitions = in_prompts(file, PromptOptions.of(self._options, self._prompt), defined)
        if definitions is not None:
            self._check_one_way(file)
        elif self._prompt is not None:
            find_style(self._prompt)  # raises: it is neither
        found = [
            LmEvalTask(variant, self._options)
            for definition in definitions or [defined(file)]
            for styled in self.profile_applier.variants(definition, overrides)
            for variant in varied(styled, self._options)
        ]
        return [task.share_rows_with(found[0]) for task in found]

    def _check_prompts(self, file: TaskFile) -> None:
        """Refuses a task without prompts of its own where all of these are wanted."""
        if file.data.get("prompts") is None:
            found = f'the task "{file.data.get("task")}" names no prompts (a key prompts: in its file)'
            raise UserError(
                Fault("--prompts all", found, "prompts of its own", "Name a templates.yaml: --prompts PATH")
            )

    def _check_one_way(self, file: TaskFile) -> None:
        """Refuses prompts together with something else that says how a question is put."""
        way = "a prompt style" if self._style is not None else "a profile" if self.profile_applier.has_rules else ""
        if way:
            found = f"its prompts and {way} both say how a question is put"
            raise UserError(Fault(f"task {file.data['task']}", found, "one of the two", f"Leave {way} or prompts out"))

    def _add_task(self, task: Task, changes: Mapping[str, Any]) -> list[str]:
        name = task.card.name
        is_styled = task.card.variant is not None and task.card.variant.style is not None
        if self._style is not None and not is_styled:
            found = f'is written in Python, so the style "{self._style.name}" cannot be put over its questions'
            raise UserError(Fault(f"task {name}", found, "a task file", "Leave the style out"))
        if not isinstance(task, (LmEvalTask, TextTask)):
            if self._prompt is not None:
                find_style(self._prompt)  # raises: nothing behind the name of such a task is a prompt
            if self._options.prompts is not None:
                found = "is written in Python, so no other prompts can be put over its questions"
                raise UserError(Fault(f"task {name}", found, "a task file", "Leave the prompts out"))
            self.profile_applier.note_unprofiled(name)
        if not isinstance(task, LmEvalTask) and self._options.axes != VariationAxes():
            found = f'the task "{name}" is no task file, so neither seeds nor orders nor draws of it can be varied'
            raise UserError(Fault("--seeds, --orders, --draws", found, "task files", "Leave the task out"))
        if name in self.tasks:
            if Path(self.tasks[name].card.source).resolve() != Path(task.card.source).resolve():
                raise _two_of_a_name(self.tasks[name], task)
            self._check_same("task", name, changes, task.card.source)
            return [name]
        self.tasks[name] = task
        self._changed[f"task {name}"] = changes
        return [name]

    def _check_same(self, noun: str, name: str, changes: Mapping[str, Any], where: str) -> None:
        earlier = self._changed[f"{noun} {name}"]
        if earlier == changes:
            return
        keys = sorted(key for key in {*earlier, *changes} if earlier.get(key) != changes.get(key))
        raise TaskFileError(
            Fault(
                where, f'the {noun} "{name}" is wanted twice with different settings: {", ".join(keys)}', "one of them"
            )
        )


def _two_of_a_name(known: Task, task: Task) -> UserError:
    """The error for another task of a known name: only one of the two would be asked."""
    sources = " and ".join(dict.fromkeys((known.card.source, task.card.source)))
    found = f'two different tasks are called "{task.card.name}" ({sources})'
    return UserError(Fault("--tasks", found, "a name for each", "Rename one of them, or leave it out"))


def _marked(spec: GroupSpec, mark: str) -> GroupSpec:
    members = tuple(member + mark for member in spec.members)
    return replace(spec, name=spec.name + mark, alias=spec.alias + mark, members=members)


def _path(entry: TaskEntry) -> Path:
    assert entry.path is not None, "leaves of registered groups are files"
    return entry.path


def _inline_file(group: TaskFile, name: str, changes: MemberOverrides) -> TaskFile:
    """A task that is defined inside a group file, with what it includes."""
    file = TaskFile(group.path, {}, {})
    named = changes.data.get("include", [])
    for include in [named] if isinstance(named, str) else named:
        base = read_task_file(group.path.parent / str(include))
        file = file.changed(base.data, base.places)
    own = {key: value for key, value in changes.data.items() if key != "include"}
    places = {keys: place for keys, place in changes.places.items() if keys[0] != "include"}
    return file.changed({**own, "task": name}, places)


def _with_table_names(data: Mapping[str, Any], shim: Shim) -> Mapping[str, Any]:
    """A task file's mapping in which filters that code has registered are themselves, and our aggregations names."""
    changed = dict(data)
    if shim.filters and isinstance(data.get("filter_list"), list):
        changed["filter_list"] = [
            {**pipeline, "filter": [_replaced(step, "function", shim.filters) for step in pipeline["filter"]]}
            for pipeline in data["filter_list"]
        ]
    if isinstance(data.get("metric_list"), list):
        changed["metric_list"] = [_replaced(entry, "aggregation", shim.aggregations) for entry in data["metric_list"]]
    return changed


def _replaced(entry: Mapping[str, Any], key: str, table: Mapping[Any, Any]) -> dict[str, Any]:
    value = entry.get(key)
    is_in_table = isinstance(value, Hashable) and value in table
    return {**entry, key: table[value]} if is_in_table else dict(entry)
