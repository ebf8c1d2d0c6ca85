"""Names that mean two things in one run: two tasks of a name, or one task or group with two settings.

In: the nodes of the user's list and the tasks that were made of them. Out: errors that name the two suites that clash,
not each of their tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, TaskFileError, UserError
from assay.core.plural import plural
from assay.core.protocols import Task
from assay.tasks.file_tasks import FileTasks
from assay.tasks.task_tree import ErrorNode, FileNode, GroupNode, Leaf, Node, ReadyNode, walk

_AGAIN = "Run them one after the other: answers that both need are requested once"
_MANY = 'For every task once: --tasks "$(assay ls tasks --format names)"'


@dataclass(frozen=True, slots=True)
class _TwoSettings:
    """A task or group that two nodes request with different settings."""

    noun: str
    name: str
    keys: tuple[str, ...]
    nodes: tuple[Node, Node]
    file: str


def clash_errors(roots: Sequence[Node], built: Mapping[Leaf, FileTasks]) -> Iterator[UserError]:
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
            found.setdefault(node, {})[_name(root)] = None
    return found


def _name(root: Node) -> str:
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
