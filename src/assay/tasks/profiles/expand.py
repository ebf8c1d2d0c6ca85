"""Profile variants of tasks and groups, the best of them, and the notices of a profile.

Takes a profile with a task's definition, or with a group and its members; gives one task or group per variant. For
the whole run: tasks and groups reported as the best of their variants, and differences from the tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.core.specs import GroupMetricSpec, GroupSpec
from assay.tasks.lm_eval.file.definition import TaskDefinition
from assay.tasks.lm_eval.variants.scoring_overrides import rescored
from assay.tasks.profiles.apply import Profiled, ProfileOverrides, profiled
from assay.tasks.profiles.parse import Profile

PYTHON_TASK = "has no rule for tasks written in Python; they run as they are"
_NO_SCORE = "its score is not reported, because it is defined over the members' own prompts and metrics"
_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class BestOfVariants:
    """A task or group in several variants, of which a tool reports the best; or a group of these.

    Attributes:
        tool: the profile's name.
        name: the task's or group's own name.
        variants: variant → the name of its task or group in the run; empty for a group of these.
        members: members of a group of these, over whose best variants the mean is taken.
    """

    tool: str
    name: str
    variants: Mapping[str, str] = field(default_factory=dict)
    members: tuple[BestOfVariants, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfiledEntry:
    """A task or group of the run in one variant of the profile.

    Attributes:
        own: its own name.
        label: profile and variant, as in `olmes-mcf`.
        variant: the variant's name.
        combines: whether the tool reports the best of the variants.
        primary: its primary metrics.
        pipelines: the names of its filter pipelines.
        members: own names of the members that a group with metrics combines; None for a task.
    """

    own: str
    label: str
    variant: str
    combines: bool
    primary: tuple[str, ...]
    pipelines: tuple[str, ...]
    members: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Caveat:
    """A difference from the tool, and the task or group that it concerns."""

    text: str
    own: str


@dataclass(frozen=True, slots=True)
class ProfiledGroup:
    """A group of the run; its entry is None if the profile leaves all members unchanged."""

    spec: GroupSpec
    entry: ProfiledEntry | None = None
    caveats: tuple[Caveat, ...] = ()


# Tasks


def task_variants(
    definition: TaskDefinition, profile: Profile, overrides: ProfileOverrides, metrics: Mapping[str, frozenset[str]]
) -> list[Profiled]:
    """A task in every variant of a profile, with the run's scoring overrides.

    Args:
        definition: the task as its file defines it.
        profile: the tool's conventions.
        overrides: the user's choices, which override the profile's.
        metrics: metric → output types that it scores.
    """
    return [
        replace(item, definition=rescored(item.definition, overrides.options.scoring, metrics))
        for item in profiled(definition, profile, overrides, metrics)
    ]


def task_entries(items: Iterable[Profiled]) -> dict[str, ProfiledEntry]:
    """Name in the run → entry, of the tasks that a profile changes."""
    found = {}
    for item in items:
        if item.label:
            scoring = item.definition.scoring
            primary = tuple(spec.name for spec in scoring.metrics[:1])
            pipelines = tuple(pipeline.name for pipeline in scoring.pipelines)
            found[item.definition.name] = ProfiledEntry(
                item.own, item.label, item.variant, item.combines, primary, pipelines
            )
    return found


# Groups


def group_variants(
    profile: Profile, spec: GroupSpec, name: str, alias: str, entries: Mapping[str, ProfiledEntry]
) -> list[ProfiledGroup]:
    """A group for every variant of its members; members that the profile leaves unchanged belong to each.

    Args:
        profile: the tool's conventions.
        spec: the group over all variants of all members.
        name: its own name, without style.
        alias: its own alias.
        entries: name in the run → entry, of everything built so far.
    """
    own = [entries[member] for member in spec.members if member in entries]
    dropped = (Caveat(_NO_SCORE, name),) if spec.scores else ()
    labels = {member: entries[member].label for member in spec.members if member in entries}
    made = []
    for label in dict.fromkeys(entry.label for entry in own):
        alike = [entry for entry in own if entry.label == label]
        entry = _group_entry(name, alike, bool(spec.metrics))
        members = tuple(member for member in spec.members if labels.get(member, label) == label)
        reported, caveats = _group_metrics(profile, spec, entry)
        group = GroupSpec(f"{name}@{label}", f"{alias}@{label}", members, reported, spec.version)
        made.append(ProfiledGroup(group, entry, (*caveats, *dropped)))
    return made or [ProfiledGroup(spec)]


def _group_entry(name: str, alike: Sequence[ProfiledEntry], reports: bool) -> ProfiledEntry:
    """The entry of a group over members in the same variant."""
    metrics = tuple(dict.fromkeys(metric for entry in alike for metric in entry.primary))
    pipelines = tuple(dict.fromkeys(pipeline for entry in alike for pipeline in entry.pipelines))
    first = alike[0]
    members = tuple(entry.own for entry in alike) if reports else ()
    return replace(first, own=name, primary=metrics, pipelines=pipelines, members=members)


def _group_metrics(
    profile: Profile, spec: GroupSpec, entry: ProfiledEntry
) -> tuple[tuple[GroupMetricSpec, ...], tuple[Caveat, ...]]:
    """A group with metrics reports the primary metric of its members, in their order of pipelines."""
    if not spec.metrics or not _averages(profile, entry):
        return (), ()
    if len(entry.primary) > 1:
        text = f"no average is reported, as the members' first metrics differ ({', '.join(entry.primary)})"
        return (), (Caveat(text, entry.own),)
    by_size = profile.weight_by_size
    weighs = spec.metrics[0].weight_by_size if by_size is None else by_size
    return tuple(GroupMetricSpec(metric, entry.pipelines, weighs) for metric in entry.primary), ()


def _averages(profile: Profile, group: ProfiledEntry) -> bool:
    """Whether the members of a group are averaged in each variant."""
    return not group.combines or profile.averages_first(group.own)


# The run as a whole


def best_of_variants(profile: Profile, entries: Mapping[str, ProfiledEntry]) -> tuple[BestOfVariants, ...]:
    """Tasks and groups that are reported as the best of their variants; members of a combined group are not listed.

    Args:
        profile: the tool's conventions.
        entries: name in the run → entry; members before the groups that hold them.
    """
    families: dict[str, dict[str, str]] = {}  # own name → variant → name in the run
    means: dict[str, tuple[str, ...]] = {}  # own name of a group → members over whose best variants the mean is taken
    inside: set[str] = set()
    for name, entry in entries.items():
        if not entry.combines or entry.members == ():
            continue
        members = entry.members or ()
        leaves = [leaf for member in members for leaf in means.get(member, (member,))]
        if entry.members is None or _averages(profile, entry):
            families.setdefault(entry.own, {})[entry.variant] = name
            inside |= {*members, *leaves}
        else:
            means[entry.own] = tuple(dict.fromkeys((*means.get(entry.own, ()), *leaves)))
    best = {
        name: BestOfVariants(profile.name, name, variants) for name, variants in families.items() if len(variants) > 1
    }
    groups = [
        BestOfVariants(profile.name, name, members=tuple(best[leaf] for leaf in leaves if leaf in best))
        for name, leaves in means.items()
        if name not in inside
    ]
    return (
        *(item for name, item in best.items() if name not in inside),
        *(item for item in groups if item.members),
    )


def profile_notices(profile: Profile, is_applied: bool, caveats: Iterable[Caveat]) -> tuple[str, ...]:
    """Differences from the tool, each with the tasks that it concerns.

    Args:
        profile: the tool's conventions.
        is_applied: whether the profile changes any task of the run.
        caveats: those of tasks and groups, in the order in which they were built.
    """
    by_text: dict[str, dict[str, None]] = {}
    for caveat in caveats:
        by_text.setdefault(caveat.text, {})[caveat.own] = None
    general = profile.deviations if is_applied else ()
    known = (f"{profile.name}: known differences from the tool: {' '.join(general)}",) if general else ()
    return (*known, *(f"{profile.name}: {text}: {_names(list(own))}" for text, own in by_text.items()))


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
