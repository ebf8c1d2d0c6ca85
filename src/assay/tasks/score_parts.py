"""From the scores that a group file defines to the tasks of a run: which tasks each part of a score averages.

Takes a group's node and the tasks below it, gives scores over names of the run. A member in several variants of a
profile counts by the best of them, as its tool reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union

from assay.core.errors import Fault, TaskFileError
from assay.core.score_terms import BEST, MACRO, MICRO, CombinedTerm, GroupScore, ScoreTerm, TaskTerm
from assay.tasks.file_tasks import FileSettings, FileTasks
from assay.tasks.lm_eval.file.groups import unknown_part
from assay.tasks.lm_eval.file.score_key import PartDefinition, ScoreDefinition
from assay.tasks.task_tree import ErrorNode, FileNode, GroupNode, Node, ReadyNode, walk

_Leaf = Union[FileNode, ReadyNode]


@dataclass(frozen=True, slots=True)
class TasksBelow:
    """The tasks of a run by the nodes that they come from.

    Attributes:
        files: the tasks of every leaf.
        settings: the settings of the run, with its profiles.
    """

    files: Mapping[_Leaf, FileTasks]
    settings: FileSettings


def group_scores(node: GroupNode, below: TasksBelow) -> tuple[GroupScore, ...]:
    """The scores of a group over the tasks of the run; raises for a part that names no member."""
    return tuple(_score(node, definition, below) for definition in node.definition.scores)


def _score(node: GroupNode, definition: ScoreDefinition, below: TasksBelow) -> GroupScore:
    parts = definition.parts
    if parts is None:  # every task below the group is a part
        whole = replace(definition.each, name=node.definition.name, of=tuple(node.written))
        return GroupScore(definition.name, replace(_over_all(node, whole, below), scale=definition.scale))
    faults = [fault for part in parts for fault in _unknown(node, part)]
    if faults:
        raise TaskFileError(*faults)
    terms = [_part_term(node, part, below) for part in parts]
    how = MICRO if definition.is_pooled else MACRO
    term = CombinedTerm(node.definition.name, tuple(terms), how, scale=definition.scale)
    return GroupScore(definition.name, term)


# Members by name


def _found(node: GroupNode, part: PartDefinition) -> dict[str, tuple[Node, ...]]:
    """Name → the nodes that it means: a member as the group lists it, or a task or group anywhere below."""
    return {name: node.written.get(name) or _deeper(node, name) for name in part.of}


def _deeper(node: GroupNode, name: str) -> tuple[Node, ...]:
    for inner in walk([node]):
        if isinstance(inner, GroupNode) and name in inner.written:
            return inner.written[name]
    return tuple(inner for inner in walk([node]) if _own_name(inner) == name)


def _own_name(node: Node) -> str | None:
    if isinstance(node, GroupNode):
        return node.definition.name
    return str(node.file.data.get("task")) if isinstance(node, FileNode) else None


def _unknown(node: GroupNode, part: PartDefinition) -> Iterator[Fault]:
    found = _found(node, part)
    for inner in part.parts:
        yield from _unknown(node, inner)
    yield from (unknown_part(node.definition, part, name) for name, nodes in found.items() if not nodes)


# Terms


def _over_all(node: GroupNode, part: PartDefinition, below: TasksBelow) -> CombinedTerm:
    """Every task below a group, once; a task that is a member twice counts once."""
    if part.is_pooled:
        return _pooled(part, node.members, below)
    terms = dict.fromkeys(term for inner in node.members for term in _node_terms(inner, part, below))
    return CombinedTerm(part.name, tuple(terms))


def _pooled(part: PartDefinition, nodes: Sequence[Node], below: TasksBelow) -> CombinedTerm:
    plain = replace(part, normalisation=None)
    terms = dict.fromkeys(term for node in nodes for term in _node_terms(node, plain, below))
    return CombinedTerm(part.name, tuple(terms), MICRO, part.normalisation)


def _part_term(node: GroupNode, part: PartDefinition, below: TasksBelow) -> ScoreTerm:
    found = _found(node, part)
    if part.parts:
        how = MICRO if part.is_pooled else MACRO
        return CombinedTerm(part.name, tuple(_part_term(node, inner, below) for inner in part.parts), how)
    if part.is_pooled:
        return _pooled(part, [node for own in found.values() for node in own], below)
    members = [
        _mean(name, [term for node in nodes for term in _node_terms(node, part, below)])
        for name, nodes in found.items()
    ]
    return _mean(part.name, members)


def _mean(name: str, terms: Sequence[ScoreTerm]) -> ScoreTerm:
    return terms[0] if len(terms) == 1 else CombinedTerm(name, tuple(terms))


def _node_terms(node: Node, part: PartDefinition, below: TasksBelow) -> list[ScoreTerm]:
    """The terms of a member: one for a task, one for each task below a group, or the group's own score."""
    if isinstance(node, ErrorNode):
        return []
    if isinstance(node, GroupNode):
        own = [score for score in node.definition.scores if (score.name,) == part.metrics]
        if own:
            term = _score(node, own[0], below).term
            return [CombinedTerm(term.name, (term,), MACRO, part.normalisation)]
        leaves = [inner for inner in walk([node]) if isinstance(inner, (FileNode, ReadyNode))]
        by_variant = _averaged_variants(node, leaves, part, below)
        return by_variant or [term for leaf in leaves for term in _leaf_terms(leaf, part, below)]
    return _leaf_terms(node, part, below)


def _averaged_variants(
    node: GroupNode, leaves: Sequence[_Leaf], part: PartDefinition, below: TasksBelow
) -> list[ScoreTerm]:
    """The best variant of a group whose tool averages its tasks in each variant first; nothing for other groups."""
    profile = below.settings.followed(node.wording)
    if profile is None or not profile.averages_first(node.definition.name):
        return []
    by_label: dict[str, list[ScoreTerm]] = {}
    for item in (item for leaf in leaves for item in below.files[leaf].profiled if item.combines):
        metrics = part.metrics or tuple(spec.name for spec in item.definition.scoring.metrics[:1])
        by_label.setdefault(item.label, []).append(_term(item.definition.name, replace(part, metrics=metrics)))
    variants = [CombinedTerm(f"{node.definition.name}@{label}", tuple(own)) for label, own in by_label.items()]
    return [CombinedTerm(node.definition.name, tuple(variants), BEST)] if len(variants) > 1 else []


def _leaf_terms(leaf: _Leaf, part: PartDefinition, below: TasksBelow) -> list[ScoreTerm]:
    """The term of a task; its variants in several prompts or forms are one part of a score."""
    found = below.files[leaf]
    profiled = {item.definition.name: item for item in found.profiled if item.label}
    cards = [task.card for task in found.tasks]
    names = dict.fromkeys(card.name if card.variant is None else card.variant.base for card in cards)
    if not names:
        return []
    terms: list[ScoreTerm] = []
    for name in names:
        own = profiled.get(name)
        primary = () if own is None else tuple(spec.name for spec in own.definition.scoring.metrics[:1])
        terms.append(_term(name, replace(part, metrics=part.metrics or primary)))
    is_best = len(terms) > 1 and all(name in profiled and profiled[name].combines for name in names)
    if isinstance(leaf, ReadyNode) and leaf.group is not None:
        return terms
    return [CombinedTerm(cards[0].family, tuple(terms), BEST)] if is_best else [_mean(cards[0].family, terms)]


def _term(name: str, part: PartDefinition) -> TaskTerm:
    return TaskTerm(name, part.metrics, part.filter, part.normalisation)
