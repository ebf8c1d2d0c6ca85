"""Finds and reads the tasks that a run names: task files, groups, plugins, task objects and the user's own texts.

Takes an item of the user's list and the catalog, gives a tree of nodes. Errors are nodes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Union

from assay.core.errors import Fault, TaskFileError, UnknownName, UserError
from assay.core.protocols import Task
from assay.core.specs import LM_EVAL, GroupSpec, TaskOptions
from assay.data import readers as files
from assay.tasks.catalog import PLUGINS, Catalog
from assay.tasks.lm_eval.file.configurations import defined_files, is_configured
from assay.tasks.lm_eval.file.groups import (
    GroupDefinition,
    Member,
    MemberOverrides,
    define_group,
    split_member,
    unknown_member,
)
from assay.tasks.lm_eval.file.schema import group_faults
from assay.tasks.lm_eval.file.yaml_reader import TaskFile, read_task_file
from assay.tasks.lm_eval_package import PREFIX, package_catalog
from assay.tasks.profiles.parse import named_profile
from assay.tasks.styles import OWN, Style, find_style, is_style
from assay.tasks.text_tasks import MARK, open_corpus
from assay.tasks.unknown_names import empty_folder, unknown_package_task, unknown_task

# An item of the user's list: a name, pattern or path, or a task object.
Wanted = Union[str, Task]

# Maximum number of unknown names to suggest others for: a comparison with lm-eval's 14,000 names takes 30 ms.
_MOST_SUGGESTIONS = 20
# Keys of a group; a member that is a registered group has them in its own file.
_GROUP_KEYS = ("task", "group_alias", "aggregate_metric_list")


@dataclass(frozen=True, slots=True)
class Wording:
    """The wording that the user requests for an item.

    Attributes:
        style: prompt style; None for the task's own prompt.
        is_chosen: whether the user names a style, the task's own included.
        prompt: name of one of the task's prompts: the text after the @, if it is neither a style nor a profile.
        profile: name of the profile after the @; None for the run's.
        variant: the only variant of that profile to evaluate; empty for all.
        is_own: whether the wording is written after an @; it then applies to every member of a group.
    """

    style: Style | None = None
    is_chosen: bool = False
    prompt: str | None = None
    profile: str | None = None
    variant: str = ""
    is_own: bool = False

    def named(self, name: str) -> str:
        """The name of a group whose tasks have this wording; a profile names its groups itself."""
        if self.profile is not None:
            return name
        label = self.prompt if self.style is None else self.style.name
        return name if label is None else f"{name}@{label}"


@dataclass(frozen=True, slots=True, eq=False)
class FileNode:
    """A task file, with the overrides of the groups above it."""

    file: TaskFile
    overrides: MemberOverrides
    wording: Wording


@dataclass(frozen=True, slots=True, eq=False)
class ReadyNode:
    """Tasks that are already objects: the user's own, a plugin's, or texts with the group over their domains."""

    tasks: tuple[Task, ...]
    wording: Wording
    group: GroupSpec | None = None
    notices: tuple[str, ...] = ()
    is_given: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class GroupNode:
    """A group, its members, and the overrides of the groups above it.

    Attributes:
        written: member as the group's file names it → its nodes.
    """

    definition: GroupDefinition
    members: tuple[Node, ...]
    overrides: MemberOverrides
    wording: Wording
    written: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The group's name in the run."""
        return self.wording.named(self.definition.name)

    @property
    def key(self) -> tuple[str, str | None, str]:
        """What tells groups of a run apart: the name, and the profile and variant that the item names."""
        return self.name, self.wording.profile, self.wording.variant


@dataclass(frozen=True, slots=True, eq=False)
class ErrorNode:
    """Something that cannot be found or read."""

    error: UserError


Leaf = Union[FileNode, ReadyNode]
Node = Union[Leaf, GroupNode, ErrorNode]


def walk(nodes: Sequence[Node]) -> list[Node]:
    """All nodes of some trees in order, members before their group, each once."""
    found: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in found:
            for member in node.members if isinstance(node, GroupNode) else ():
                visit(member)
            found[node] = None

    for node in nodes:
        visit(node)
    return list(found)


class TaskFinder:
    """Finds and reads tasks; a file or group that several items refer to is read once."""

    def __init__(self, catalog: Catalog, options: TaskOptions) -> None:
        self._catalog = catalog
        self._options = options
        self._read: dict[Hashable, list[Node]] = {}
        self._files: dict[Path, dict[str, TaskFile]] = {}
        self._unknown = count()
        self._package: TaskFinder | None = None
        self._prefixed: dict[Node, Node] = {}

    def find(self, item: Wanted) -> list[Node]:
        """Nodes of an item of the user's list."""
        if isinstance(item, str):
            return _tried(partial(self._find_text, item))
        return _tried(lambda: [ReadyNode((item,), Wording(_style(self._options.style)), is_given=True)])

    def _find_text(self, item: str) -> list[Node]:
        if item.startswith(MARK):
            # A style applies to questions, not to texts.
            corpus = open_corpus(item, self._options)
            return [ReadyNode(corpus.tasks, Wording(), corpus.group, corpus.notices)]
        name, text = self._split_wording(item)
        wording = self._wording(text)
        path = Path(name).expanduser()
        if name.endswith((".yaml", ".yml")):
            paths = files.matching(path, "--tasks") or [path]
            return [node for found in paths for node in _tried(partial(self._in_path, found, wording))]
        if not self._catalog.select(name) and path.is_dir():
            return self._in_folder(path, wording)
        return self._in_package(name, wording) if name.startswith(PREFIX) else self._in_catalog(name, wording)

    def _split_wording(self, item: str) -> tuple[str, str | None]:
        """An item and the text after its @: a style, a profile or a prompt; None for an item without one."""
        splits = [(item[:index], item[index + 1 :]) for index, sign in enumerate(item) if sign == "@" and index]
        if not splits or item in self._catalog.entries or files.matching(Path(item).expanduser(), "--tasks"):
            return item, None
        # A path may contain an @ itself, before the style or in it.
        known = [split for split in splits if is_style(split[1]) or named_profile(split[1])]
        return (known or splits)[-1]

    def _wording(self, text: str | None) -> Wording:
        """The wording that the text after an @ requests; the run's if there is none."""
        style, is_chosen = _style(self._options.style), self._options.style is not None
        if text is None:
            return Wording(style, is_chosen)
        if text == self._options.style or is_style(text):
            return Wording(_style(text), True, is_own=True)
        found = named_profile(text)
        tool, plus, other = text.partition("+")
        if found is None and plus and is_style(other) and (found := named_profile(tool)) is not None:
            style, is_chosen = _style(other), True
        if found is not None:
            profile, variant = found
            return Wording(style, is_chosen, profile=profile, variant=variant, is_own=True)
        # Any other name may be one of the task's prompts, which only its file knows.
        return Wording(prompt=text, is_own=True)

    def _in_folder(self, folder: Path, wording: Wording) -> list[Node]:
        """Every task and group directly in a folder. Files that only serve as includes are not run."""
        paths = sorted(folder.glob("*.yaml"))
        if not paths:
            raise empty_folder(folder)
        return [node for path in paths for node in _tried(partial(self._in_path, path, wording, is_named=False))]

    def _in_path(self, path: Path, wording: Wording, is_named: bool = True) -> list[Node]:
        file = read_task_file(path)
        if is_configured(file.data):
            file = self._defined(path)[str(file.data["task"])]
        if "group" in file.data:
            return [self._group(_defined_group(file), MemberOverrides(), wording)]
        if "task" in file.data:
            return [FileNode(file, MemberOverrides(), wording)]
        if is_named:
            raise TaskFileError(Fault(str(path), "defines neither a task nor a group", "a key task: or group:"))
        return []

    def _in_catalog(self, pattern: str, wording: Wording) -> list[Node]:
        names = self._catalog.select(pattern)
        if not names:
            raise unknown_task(pattern, self._catalog, self._near_names())
        return [node for name in names for node in _tried(partial(self._entry, name, MemberOverrides(), wording))]

    def _in_package(self, name: str, wording: Wording) -> list[Node]:
        """Nodes of a name of lm-eval's own tasks, `lm_eval/…`; what is below a group has such a name, too."""
        if self._package is None:
            catalog = package_catalog(self._catalog.cache_folder, f"--tasks {name}")
            self._package = TaskFinder(catalog, self._options)
        known = self._package._catalog
        if not known.select(name.removeprefix(PREFIX)):
            raise unknown_package_task(name, self._package._near_names())
        return [_prefixed(node, self._prefixed) for node in self._package._in_catalog(name[len(PREFIX) :], wording)]

    def _near_names(self) -> list[str]:
        """Candidates for suggestions; empty after the first few unknown names."""
        return list(self._catalog.entries) if next(self._unknown) < _MOST_SUGGESTIONS else []

    def _entry(
        self, name: str, overrides: MemberOverrides, wording: Wording, above: tuple[str, ...] = ()
    ) -> list[Node]:
        """Nodes of a name in the catalog."""
        entry = self._catalog.entries[name]
        if entry.kind == "tag":
            members = entry.members
            return [node for member in members for node in self._entry(member, overrides, wording, above)]
        if entry.kind == "plugin":
            task = PLUGINS.create(name, Task)
            return [ReadyNode((task,), wording, notices=tuple(_plugin_notices(name, task, overrides)))]
        assert entry.file is not None, "files define tasks and groups"
        key = (name, wording, repr(overrides.data))
        if key not in self._read:
            self._read[key] = [self._node(self._defined(Path(entry.file))[name], overrides, wording, above)]
        return self._read[key]

    def _defined(self, path: Path) -> dict[str, TaskFile]:
        """The task and group files that a file stands for, by name; read once, as there may be a thousand."""
        if path not in self._files:
            self._files[path] = defined_files(read_task_file(path))
        return self._files[path]

    def _node(
        self, file: TaskFile, overrides: MemberOverrides, wording: Wording, above: tuple[str, ...] = ()
    ) -> FileNode | GroupNode:
        if "group" in file.data and "class" not in file.data:
            return self._group(_defined_group(file), overrides, wording, above)
        return FileNode(file, overrides, wording)

    def _group(
        self, group: GroupDefinition, overrides: MemberOverrides, wording: Wording, above: tuple[str, ...] = ()
    ) -> GroupNode:
        if group.name in above:
            chain = " → ".join((*above, group.name))
            raise TaskFileError(Fault(str(group.file.path), f"group cycle: {chain}", next="Break the cycle"))
        inside = partial(self._member, group, overrides.over(group.changes), wording, (*above, group.name))
        members: list[Node] = []
        written: dict[str, tuple[Node, ...]] = {}
        for member in group.members:
            nodes = _tried(partial(inside, member))
            members += nodes
            written[member.name] = (*written.get(member.name, ()), *nodes)
        return GroupNode(group, tuple(members), overrides, wording, written)

    def _member(
        self,
        group: GroupDefinition,
        inherited: MemberOverrides,
        wording: Wording,
        above: tuple[str, ...],
        member: Member,
    ) -> list[Node]:
        # The member's own keys take precedence over those that the group sets for all members.
        overrides = member.changes.over(inherited)
        written, text = split_member(member.name, self._catalog.entries)
        if text is not None:
            member = replace(member, name=written)
            wording = wording if wording.is_own else self._wording(text)
        where = group.file.where(*member.place)
        if self._is_outside(group):
            own = self._defined(group.file.path).get(member.name)
            if own is not None and own.data is not group.file.data:
                return [self._node(own, overrides, wording, above)]
        if member.name in self._catalog.entries:
            keys = [key for key in _GROUP_KEYS if key in member.changes.data] if member.is_group else []
            if keys:
                found = f'"{member.name}" is a registered group, but {keys[0]} is given'
                raise TaskFileError(Fault(where, found, "another name"))
            nodes = self._entry(member.name, overrides, wording, above)
            return _collapsed(nodes, member, overrides) if self._collapses(member, wording) else nodes
        inline_name = f"{group.name}::{member.name}"
        if member.is_group and "task" in member.changes.data:
            inner = define_group(group.file, member.changes.data, inline_name, member.place)
            return [self._group(inner, inherited, wording, above)]
        if not member.is_group and ("dataset_path" in overrides.data or "include" in overrides.data):
            return [FileNode(_inline_file(group.file, inline_name, overrides), MemberOverrides(), wording)]
        raise UnknownName(unknown_member(group.file, member, self._near_names()))

    def _is_outside(self, group: GroupDefinition) -> bool:
        """Whether a group and its tasks are from a file with configurations that is not in the catalog."""
        if len(self._files.get(group.file.path, ())) < 2:
            return False
        entry = self._catalog.entries.get(group.name)
        return entry is None or entry.path is None or entry.path.resolve() != group.file.path.resolve()

    def _collapses(self, member: Member, wording: Wording) -> bool:
        """Whether lm-eval gives all tasks below a member one name, so that it evaluates only the last."""
        is_many = self._catalog.entries[member.name].kind in ("group", "tag")
        return (
            (wording.profile or self._options.like) == LM_EVAL and not member.is_group and member.is_mapping and is_many
        )


def _tried(find: Callable[[], list[Node]]) -> list[Node]:
    """The nodes found, or an error node, so that the errors of other items are found too."""
    try:
        return find()
    except UserError as error:
        return [ErrorNode(error)]


def _style(style: str | None) -> Style | None:
    return find_style(style) if style is not None and style != OWN else None


def _defined_group(file: TaskFile) -> GroupDefinition:
    faults = group_faults(file)
    if faults:
        raise TaskFileError(*faults)
    return define_group(file, file.data, file.data["group"])


def _plugin_notices(name: str, task: Task, overrides: MemberOverrides) -> Iterator[str]:
    if task.card.name != name:
        yield f'the task "{name}" calls itself "{task.card.name}" and is recorded under that name'
    if overrides.data:
        keys = ", ".join(sorted(map(str, overrides.data)))
        yield f"{task.card.name}: the settings of its group ({keys}) have no effect, because it is written in Python"


def _collapsed(nodes: Sequence[Node], member: Member, overrides: MemberOverrides) -> list[Node]:
    """The last task below a member, under the member's name."""
    below = walk(nodes)
    tasks: dict[Any, FileNode] = {}
    for node in below:
        if isinstance(node, FileNode):
            tasks.setdefault(node.file.data.get("task"), node)
    renamed = MemberOverrides({"task": member.name}).over(overrides)
    last = [replace(node, overrides=renamed) for node in list(tasks.values())[-1:]]
    return [*(node for node in below if isinstance(node, ErrorNode)), *last]


def _prefixed(node: Node, made: dict[Node, Node]) -> Node:
    """A node of lm-eval's own tasks under the name of the run; the same node for the same one."""
    if node not in made:
        if isinstance(node, FileNode):
            made[node] = _prefixed_task(node)
        elif isinstance(node, GroupNode):
            made[node] = _prefixed_group(node, made)
        else:
            made[node] = node
    return made[node]


def _prefixed_task(node: FileNode) -> FileNode:
    changes = node.overrides.data
    if "task" in changes:
        overrides = MemberOverrides({**changes, "task": f"{PREFIX}{changes['task']}"}, node.overrides.places)
        return replace(node, overrides=overrides)
    return replace(node, file=_renamed(node.file, "task", f"{PREFIX}{node.file.data['task']}"))


def _prefixed_group(node: GroupNode, made: dict[Node, Node]) -> GroupNode:
    group, name = node.definition, PREFIX + node.definition.name
    is_own = group.file.data.get("group") == group.name
    definition = replace(
        group,
        file=_renamed(group.file, "group", name) if is_own else group.file,
        name=name,
        alias=name if group.alias == group.name else group.alias,
    )
    members = tuple(_prefixed(member, made) for member in node.members)
    written = {member: tuple(_prefixed(inner, made) for inner in nodes) for member, nodes in node.written.items()}
    return replace(node, definition=definition, members=members, written=written)


def _renamed(file: TaskFile, key: str, name: str) -> TaskFile:
    return file.changed({key: name}, {keys: place for keys, place in file.places.items() if keys[0] == key})


def _inline_file(group: TaskFile, name: str, overrides: MemberOverrides) -> TaskFile:
    """A task that is defined inside a group file, with its includes."""
    file = TaskFile(group.path, {}, {})
    named = overrides.data.get("include", [])
    for include in [named] if isinstance(named, str) else named:
        base = read_task_file(group.path.parent / str(include))
        file = file.changed(base.data, base.places)
    own = {key: value for key, value in overrides.data.items() if key != "include"}
    places = {keys: place for keys, place in overrides.places.items() if keys[0] != "include"}
    return file.changed({**own, "task": name}, places)
