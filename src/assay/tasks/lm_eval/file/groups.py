"""Groups of the lm-eval dialect: members, overrides and aggregated metrics."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.core.errors import Fault, TaskFileError, did_you_mean
from assay.core.specs import GroupMetricSpec
from assay.tasks.lm_eval.file.score_key import SCORE, PartDefinition, ScoreDefinition, read_scores
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, KeyPath, SourceLocation, TaskFile

_GROUP_OWN_KEYS = frozenset(
    {"group", "group_alias", "task", "aggregate_metric_list", "metadata", "tag", "task_list", "card", SCORE}
)
AGGREGATE_KEYS = ("metric", "aggregation", "weight_by_size", "filter_list")
MEMBER = "a name, {task: name, …} or {group: name, …}"


@dataclass(frozen=True, slots=True)
class MemberOverrides:
    """Top-level keys that a group sets in the tasks below it, and the location of each."""

    data: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[KeyPath, SourceLocation] = field(default_factory=dict)

    def over(self, weaker: MemberOverrides) -> MemberOverrides:
        """Both merged; these take precedence."""
        kept = {keys: place for keys, place in weaker.places.items() if keys[0] not in self.data}
        return MemberOverrides({**weaker.data, **self.data}, {**kept, **self.places})


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group: a name and the group's overrides for it, or a complete inline definition.

    Attributes:
        name: the member's name.
        is_group: whether it is written as `{group: …}`.
        changes: the group's overrides for it.
        place: key path in the group's file.
        is_mapping: whether it is written as a mapping, not as a plain name.
    """

    name: str
    is_group: bool
    changes: MemberOverrides
    place: tuple[Any, ...]
    is_mapping: bool = False


@dataclass(frozen=True, slots=True)
class GroupDefinition:
    """A group as its file defines it. `changes` apply to every task below it."""

    file: TaskFile
    name: str
    alias: str
    version: Any
    members: tuple[Member, ...]
    metrics: tuple[GroupMetricSpec, ...]
    changes: MemberOverrides
    scores: tuple[ScoreDefinition, ...] = ()


def define_group(file: TaskFile, data: Mapping[str, Any], name: str, above: tuple[Any, ...] = ()) -> GroupDefinition:
    """The group in a file, or an inline group below `above` in it."""
    listed = data.get("task")
    if not isinstance(listed, list) or not listed:
        raise TaskFileError(Fault(file.where(*above, "task"), f"is {listed!r}", "a list of members"))
    metadata = data.get("metadata")
    return GroupDefinition(
        file=file,
        name=name,
        alias=data.get("group_alias") or name,
        version=metadata.get("version") if isinstance(metadata, dict) else None,
        members=tuple(_member(file, item, (*above, "task", place)) for place, item in enumerate(listed)),
        metrics=_aggregates(file, data.get("aggregate_metric_list"), above),
        changes=_changes(file, {key: value for key, value in data.items() if key not in _GROUP_OWN_KEYS}, above),
        scores=read_scores(file, data, above) if SCORE in data else (),
    )


def _changes(file: TaskFile, data: Mapping[str, Any], above: tuple[Any, ...]) -> MemberOverrides:
    return MemberOverrides(data, {keys: place for keys, place in file.below(*above).items() if keys[0] in data})


def split_member(name: str, known: Container[str]) -> tuple[str, str | None]:
    """A member's name and the text after its @, as in `arc_easy@letters`; None if it has none, or is not registered."""
    splits = [(name[:index], name[index + 1 :]) for index, sign in enumerate(name) if sign == "@" and index]
    if name in known:
        return name, None
    return next((split for split in splits if split[0] in known and split[1]), (name, None))


def unknown_member(file: TaskFile, member: Member, known: Collection[str]) -> Fault:
    """The fault of a member that is neither registered nor defined inline."""
    name = member.name.partition("@")[0]
    found = f'unknown task "{name}"{did_you_mean(name, known)}, a member of the group "{file.data.get("group")}"'
    advice = "Correct or remove the member, or add the folder of its file: --include_path FOLDER. See: assay ls tasks"
    return Fault(file.where(*member.place), found, next=advice)


def unknown_part(group: GroupDefinition, part: PartDefinition, name: str) -> Fault:
    """The fault of a part of a score that names no member."""
    known = list(dict.fromkeys(member.name for member in group.members))
    found = f'"{name}" is neither a member of the group "{group.name}" nor below one{did_you_mean(name, known)}'
    return Fault(group.file.where(*part.place), found, "one of " + ", ".join(known))


def _member(file: TaskFile, item: Any, place: tuple[Any, ...]) -> Member:
    if isinstance(item, str):
        return Member(item, False, MemberOverrides(), place)
    for key, is_group in (("group", True), ("task", False)):
        if isinstance(item, dict) and isinstance(item.get(key), str):
            rest = {name: value for name, value in item.items() if name != key}
            return Member(item[key], is_group, _changes(file, rest, place), place, is_mapping=True)
    raise TaskFileError(Fault(file.where(*place), f"is {item!r}", MEMBER))


def _aggregates(file: TaskFile, listed: Any, above: tuple[Any, ...]) -> tuple[GroupMetricSpec, ...]:
    entries = [listed] if isinstance(listed, dict) else listed or []
    found = []
    for number, entry in enumerate(entries):
        place = (*above, "aggregate_metric_list", number)
        metric = entry.get("metric") if isinstance(entry, dict) else None
        if isinstance(metric, FunctionReference):  # identified by its name, like the members' metric
            metric = metric.text.rpartition(".")[2]
        if not isinstance(entry, dict) or not isinstance(metric, str):
            raise TaskFileError(Fault(file.where(*place), f"is {entry!r}", "a mapping such as {metric: acc}"))
        for key in entry:
            if key not in AGGREGATE_KEYS:
                hint = did_you_mean(str(key), AGGREGATE_KEYS)
                raise TaskFileError(Fault(file.where(*place, key), f'unknown key "{key}"{hint}'))
        filters = entry.get("filter_list")
        filters = (filters,) if isinstance(filters, str) else tuple(filters) if filters else None
        found.append(GroupMetricSpec(metric, filters, bool(entry.get("weight_by_size", True))))
    return tuple(found)
