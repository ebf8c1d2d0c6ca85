"""From names to the tasks and groups of a run: find, read, check, define, expand.

Takes the user's list, gives its tasks in order and its groups bottom-up, or raises all faults at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, TaskFileError, UnknownName, UserError
from assay.core.plural import plural
from assay.core.protocols import Task
from assay.core.score_terms import GroupScore
from assay.core.specs import GroupSpec, TaskOptions, VariationAxes
from assay.tasks.catalog import Catalog
from assay.tasks.file_tasks import FileSettings, FileTasks, file_tasks
from assay.tasks.lm_eval.file.card import card_of
from assay.tasks.lm_eval.file.python_code import CodeLoader, Consent, Shim, refusals
from assay.tasks.lm_eval.file.schema import KnownNames
from assay.tasks.profiles.apply import check_metrics
from assay.tasks.profiles.expand import (
    PYTHON_TASK,
    BestOfVariants,
    Caveat,
    ProfiledEntry,
    ProfiledGroup,
    best_of_variants,
    group_variants,
    profile_notices,
    task_entries,
)
from assay.tasks.profiles.parse import Profile, find_profile
from assay.tasks.score_parts import TasksBelow, group_scores
from assay.tasks.task_tree import (
    ErrorNode,
    FileNode,
    GroupNode,
    Leaf,
    Node,
    ReadyNode,
    TaskFinder,
    Wanted,
    Wording,
    walk,
)
from assay.tasks.text_tasks import TextTask
from assay.tasks.unknown_names import UnknownWording, unknown_wording

__all__ = ["Selection", "Wanted", "select_tasks"]

_AGAIN = "Run them one after the other: answers that both need are requested once"
_MANY = 'For every task once: --tasks "$(assay ls tasks --format names)"'
# A member of a group: its name without levels, and the levels after it (`#seed=3`).
_MemberName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a run.

    Attributes:
        tasks: the tasks, in the order of the user's list.
        groups: its groups, members before the groups that hold them.
        combined: tasks and groups that are reported as the best of their variants.
        notices: messages to the user about the selection.
        named_profiles: profiles that single items name after an @.
    """

    tasks: tuple[Task, ...]
    groups: tuple[GroupSpec, ...]
    combined: tuple[BestOfVariants, ...] = ()
    notices: tuple[str, ...] = ()
    named_profiles: tuple[Profile, ...] = ()


def select_tasks(
    wanted: Sequence[Wanted],
    catalog: Catalog,
    options: TaskOptions,
    names: KnownNames,
    code: CodeLoader | None = None,
) -> Selection:
    """Builds everything that the user names; raises once, with every fault.

    Args:
        wanted: names, patterns, paths or tasks.
        catalog: index of the known names.
        options: changes that the run makes to tasks.
        names: known metrics, filters and aggregations.
        code: imports the Python code that task files name; None to run none.
    """
    profile = _profile(options.like, names)
    finder = TaskFinder(catalog, options)
    roots = [node for item in wanted for node in finder.find(item)]
    nodes = walk(roots)
    settings = FileSettings(
        options, names, code or CodeLoader(Consent(), Shim()), profile, _named_profiles(nodes, names)
    )
    built = _build(nodes, settings)
    _raise_errors(roots, built, catalog.include_path)
    tasks = {task.card.name: task for found in reversed(built.files.values()) for task in found.tasks}
    ordered = dict.fromkeys(task.card.name for found in built.files.values() for task in found.tasks)
    if not tasks:
        raise UserError(Fault("--tasks", "names no task", "a task, group or tag", "See: assay ls tasks"))
    own = dict.fromkeys(notice for node in built.files if isinstance(node, ReadyNode) for notice in node.notices)
    combined: tuple[BestOfVariants, ...] = ()
    notices: tuple[str, ...] = ()
    for followed in built.followed.values():
        # The best of a profile's variants would need a report for every combination of levels.
        is_varied = any(task.card.variant is not None and task.card.variant.levels for task in tasks.values())
        combined += () if is_varied else best_of_variants(followed.profile, followed.entries)
        notices += profile_notices(followed.profile, bool(followed.entries), followed.caveats)
    chosen = tuple(tasks[name] for name in ordered)
    return Selection(chosen, built.groups, combined, (*notices, *own), tuple(settings.named.values()))


def select_one_by_one(
    wanted: Sequence[str], catalog: Catalog, options: TaskOptions, names: KnownNames, code: CodeLoader
) -> Iterator[tuple[str, tuple[Task, ...] | UserError]]:
    """The tasks of each name, or its faults: a faulty one does not stop the others. Arguments as in `select_tasks`."""
    finder = TaskFinder(catalog, options)
    settings = FileSettings(options, names, code, _profile(options.like, names))
    for name in wanted:
        roots = finder.find(name)
        built = _build(walk(roots), settings)
        try:
            _raise_errors(roots, built, catalog.include_path)
        except UserError as error:
            yield name, error
        else:
            yield name, tuple(task for found in built.files.values() for task in found.tasks)


def _profile(like: str | None, names: KnownNames) -> Profile | None:
    if like is None:
        return None
    profile = find_profile(like)
    check_metrics(profile, names.metrics)
    return profile


def _named_profiles(nodes: Sequence[Node], names: KnownNames) -> dict[str, Profile]:
    """The profiles that items and members of groups name after an @."""
    wordings = (node.wording for node in nodes if not isinstance(node, ErrorNode))
    wanted = dict.fromkeys(wording.profile for wording in wordings if wording.profile is not None)
    found = {name: _profile(name, names) for name in wanted}
    return {name: profile for name, profile in found.items() if profile is not None}


@dataclass(frozen=True, slots=True)
class _Followed:
    """A profile that tasks of the run follow.

    Attributes:
        entries: name → entry, of tasks and groups that it changes.
        caveats: differences from its tool.
    """

    profile: Profile
    entries: dict[str, ProfiledEntry] = field(default_factory=dict)
    caveats: list[Caveat] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Built:
    """Everything that a run's names refer to.

    Attributes:
        files: the tasks of every leaf.
        groups: the groups over them, members before the groups that hold them.
        followed: name → a profile that some of them follow.
        errors: faults of groups.
    """

    files: dict[Leaf, FileTasks]
    groups: tuple[GroupSpec, ...]
    followed: Mapping[str, _Followed]
    errors: Sequence[UserError] = ()


def _build(nodes: Sequence[Node], settings: FileSettings) -> _Built:
    files: dict[Leaf, FileTasks] = {}
    specs: dict[str, GroupSpec] = {}
    members: dict[Node, list[_MemberName]] = {}
    by_key: dict[tuple[str, str | None, str], list[_MemberName]] = {}
    profiles = [settings.profile] if settings.profile is not None else []
    followed = {profile.name: _Followed(profile) for profile in (*profiles, *settings.named.values())}
    below, errors = TasksBelow(files, settings), []
    for node in nodes:
        if isinstance(node, ErrorNode):
            members[node] = []
            continue
        profile = settings.followed(node.wording)
        state = None if profile is None else followed[profile.name]
        if isinstance(node, GroupNode):
            if node.key not in by_key:
                own = dict.fromkeys(name for member in node.members for name in members[member])
                try:
                    scores = group_scores(node, below) if node.definition.scores else ()
                except UserError as error:
                    errors.append(error)
                    scores = ()
                made = _per_variant(node, list(own), scores, state)
                specs.update({f"{group.spec.name}{levels}": _marked(group.spec, levels) for group, levels in made})
                by_key[node.key] = [(group.spec.name, levels) for group, levels in made]
                if state is not None:
                    state.entries.update({group.spec.name: group.entry for group, _ in made if group.entry is not None})
                    state.caveats.extend(caveat for group, _ in made for caveat in group.caveats)
            members[node] = by_key[node.key]
        else:
            files[node] = _tasks_of(node, settings)
            members[node] = _task_names(files[node])
            if isinstance(node, ReadyNode) and node.group is not None:
                specs[node.group.name] = node.group
            if state is not None:
                state.entries.update(task_entries(files[node].profiled))
                state.caveats.extend(_caveats(files[node], state.profile))
    return _Built(files, tuple(specs.values()), followed, errors)


def _caveats(found: FileTasks, profile: Profile) -> Iterator[Caveat]:
    """Differences from the profile's tool: those of its rules, and tasks that no profile can change."""
    for item in found.profiled:
        yield from (Caveat(text, item.own) for text in item.caveats)
    if profile.has_rules:
        fixed = [task for task in found.tasks if task.card.variant is None and not isinstance(task, TextTask)]
        yield from (Caveat(PYTHON_TASK, task.card.name) for task in fixed)


def _tasks_of(node: Leaf, settings: FileSettings) -> FileTasks:
    if isinstance(node, FileNode):
        merged = node.file.changed(node.overrides.data, node.overrides.places)
        found = file_tasks(merged, node.wording, settings)
    else:
        found = FileTasks(node.tasks)
    try:
        for task in found.tasks:
            if task.card.variant is None:
                _check_fixed(task, node.wording, settings)
    except UserError as error:
        return FileTasks(errors=(error,))
    return found


def _check_fixed(task: Task, wording: Wording, settings: FileSettings) -> None:
    """Rejects variations of a task that has no task file."""
    name, options = task.card.name, settings.options
    if wording.style is not None:
        found = f'is written in Python, so the style "{wording.style.name}" cannot be applied to its questions'
        raise UserError(Fault(f"task {name}", found, "a task file", "Leave out the style"))
    if not isinstance(task, TextTask):
        if wording.prompt is not None:
            raise unknown_wording(name, wording.prompt)
        if options.prompts is not None:
            found = "is written in Python, so other prompts cannot be applied to its questions"
            raise UserError(Fault(f"task {name}", found, "a task file", "Leave out the prompts"))
    if options.axes != VariationAxes():
        found = f'the task "{name}" has no task file, so its seeds, orders and draws cannot be varied'
        raise UserError(Fault("--seeds, --orders, --draws", found, "task files", "Leave out the task"))


# Errors


def _raise_errors(roots: Sequence[Node], built: _Built, include_path: Sequence[Path]) -> None:
    """Raises every fault of the selection, each once."""
    errors = _once_per_wording([error for node in walk(roots) for error in _errors_of(node, built.files)])
    errors += [*_clash_errors(roots, built.files), *built.errors]
    faults = dict.fromkeys(fault for error in errors for fault in error.faults)
    unknown = {fault for error in errors if isinstance(error, UnknownName) for fault in error.faults}
    refused = refusals([item for found in built.files.values() for item in found.refused], include_path)
    faults.update(dict.fromkeys(refused))
    if faults and unknown == faults.keys():
        raise UnknownName(*faults)
    if faults:
        raise TaskFileError(*faults)


def _once_per_wording(errors: Sequence[UserError]) -> list[UserError]:
    """The errors with one for all tasks that lack the same style, profile or prompt: that of the first task."""
    known: dict[object, UserError] = {}
    for error in errors:
        known.setdefault(error.without_task() if isinstance(error, UnknownWording) else error, error)
    return list(known.values())


def _errors_of(node: Node, built: Mapping[Leaf, FileTasks]) -> Sequence[UserError]:
    if isinstance(node, ErrorNode):
        return (node.error,)
    return () if isinstance(node, GroupNode) else built[node].errors


# Names that mean two things in one run: two tasks of a name, or one task or group with two settings


@dataclass(frozen=True, slots=True)
class _TwoSettings:
    """A task or group that two nodes request with different settings."""

    noun: str
    name: str
    keys: tuple[str, ...]
    nodes: tuple[Node, Node]
    file: str


def _clash_errors(roots: Sequence[Node], built: Mapping[Leaf, FileTasks]) -> Iterator[UserError]:
    """Errors of names that refer to two different tasks, or to one task or group with different settings.

    Args:
        roots: what the user's list names.
        built: leaf → its tasks.
    """
    found: list[_TwoSettings] = []
    known: dict[str, tuple[Task, Leaf]] = {}
    for node, made in built.items():
        for task in made.tasks:
            first, earlier = known.setdefault(task.card.name, (task, node))
            is_given = isinstance(node, ReadyNode) and node.is_given
            is_same = Path(first.card.source).resolve() == Path(task.card.source).resolve()
            if first is not task and (is_given or not is_same):
                yield _two_of_a_name(first, task)
                break
            if _settings(earlier) != _settings(node):
                found.append(_two_settings("task", task.card.name, earlier, node, task.card.source))
                break
    yield from _by_roots([*found, *_group_clashes(walk(roots))], _roots_of(roots))


def _group_clashes(nodes: Sequence[Node]) -> Iterator[_TwoSettings]:
    known: dict[tuple[str, str | None, str], GroupNode] = {}
    for node in nodes:
        if isinstance(node, GroupNode):
            first = known.setdefault(node.key, node)
            if _settings(first) != _settings(node):
                yield _two_settings("group", node.name, first, node, str(node.definition.file.path))


def _settings(node: Node) -> Mapping[str, Any]:
    """What the groups above a node change in it."""
    return node.overrides.data if isinstance(node, (FileNode, GroupNode)) else {}


def _two_settings(noun: str, name: str, first: Node, second: Node, file: str) -> _TwoSettings:
    one, other = _settings(first), _settings(second)
    keys = tuple(sorted(key for key in {*one, *other} if one.get(key) != other.get(key)))
    return _TwoSettings(noun, name, keys, (first, second), file)


def _two_of_a_name(known: Task, task: Task) -> UserError:
    """The error for a second task with a known name: only one of the two would be evaluated."""
    sources = " and ".join(dict.fromkeys((known.card.source, task.card.source)))
    found = f'two different tasks are called "{task.card.name}" ({sources})'
    return UserError(Fault("--tasks", found, "a name for each", "Rename one of them, or leave it out"))


def _roots_of(roots: Sequence[Node]) -> dict[Node, dict[str, None]]:
    """Node → the names of the user's list that lead to it."""
    found: dict[Node, dict[str, None]] = {}
    for root in roots:
        for node in walk([root]):
            found.setdefault(node, {})[_root_name(root)] = None
    return found


def _root_name(root: Node) -> str:
    if isinstance(root, GroupNode):
        return root.name
    if isinstance(root, FileNode):
        return str(root.file.data["task"])
    return "" if isinstance(root, ErrorNode) else root.tasks[0].card.name


def _by_roots(clashes: Sequence[_TwoSettings], roots: Mapping[Node, Mapping[str, None]]) -> Iterator[UserError]:
    """One error for the first two names of the user's list that clash, and one for each clash inside one name."""
    pairs: dict[tuple[str, str], list[_TwoSettings]] = {}
    for clash in clashes:
        first, second = (list(roots[node]) for node in clash.nodes)
        others = [name for name in second if name not in first]
        if others:
            pairs.setdefault((first[0], others[0]), []).append(clash)
        else:
            found = (
                f'the {clash.noun} "{clash.name}" is requested twice with different settings: {", ".join(clash.keys)}'
            )
            yield TaskFileError(Fault(clash.file, found, "the same settings each time"))
    for (one, other), own in list(pairs.items())[:1]:
        tasks = [clash for clash in own if clash.noun == "task"] or own
        what = f'the {tasks[0].noun} "{tasks[0].name}"'
        what += f" and {plural(len(tasks) - 1, 'other')}" if len(tasks) > 1 else ""
        keys = ", ".join(dict.fromkeys(key for clash in own for key in clash.keys))
        found = f'"{one}" and "{other}" request {what} with different settings: {keys}'
        more = f" ({plural(len(pairs) - 1, 'more pair')} of names clash)" if len(pairs) > 1 else ""
        yield TaskFileError(Fault("--tasks", found + more, "one of the two", f"{_AGAIN}. {_MANY}" if more else _AGAIN))


# Groups


def _task_names(found: FileTasks) -> list[_MemberName]:
    cards = [task.card for task in found.tasks]
    bases = [card.name if card.variant is None else card.variant.base for card in cards]
    return [(base, card.name.removeprefix(base)) for base, card in zip(bases, cards, strict=True)]


def _per_variant(
    node: GroupNode, members: Sequence[_MemberName], scores: tuple[GroupScore, ...], followed: _Followed | None
) -> list[tuple[ProfiledGroup, str]]:
    """A group for every combination of levels, and for every variant of a profile."""
    group = node.definition
    # A profile without rules changes how its tool scores, and no names: its tasks have its name if an item names it.
    is_plain = followed is not None and node.wording.profile is not None and not followed.profile.has_rules
    mark = f"@{node.wording.profile}" if is_plain else ""
    alias = node.wording.named(group.alias) + mark
    facts = _published(node)
    spec = GroupSpec(node.name + mark, alias, (), group.metrics, group.version, scores=scores, facts=facts)
    by_levels: dict[str, list[str]] = {}
    for base, levels in members:
        by_levels.setdefault(levels, []).append(base)
    if not by_levels:
        return [(ProfiledGroup(spec), "")]
    found = [(replace(spec, members=tuple(names)), levels) for levels, names in by_levels.items()]
    if followed is None:
        return [(ProfiledGroup(item), levels) for item, levels in found]
    return [
        (made, levels)
        for item, levels in found
        for made in group_variants(followed.profile, item, group.name, group.alias, followed.entries)
    ]


def _published(node: GroupNode) -> dict[str, Any]:
    """The published numbers of a group, of those that its file states."""
    group = node.definition
    card = card_of(group.file.data) if group.file.data.get("group") == group.name else {}
    return {key: card[key] for key in ("references",) if card.get(key)}


def _marked(spec: GroupSpec, levels: str) -> GroupSpec:
    members = tuple(member + levels for member in spec.members)
    scores = tuple(score.with_levels(levels) for score in spec.scores) if levels else spec.scores
    return replace(spec, name=spec.name + levels, alias=spec.alias + levels, members=members, scores=scores)
