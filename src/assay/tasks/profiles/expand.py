"""What a profile makes of the tasks and groups of one run: their variants, what is combined, what users must know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assay.core.specs import GroupMetricSpec, GroupSpec
from assay.tasks.lm_eval.file.definition import TaskDefinition
from assay.tasks.lm_eval.variants.scoring_overrides import rescored
from assay.tasks.profiles.apply import Profiled, ProfileOverrides, check_metrics, profiled
from assay.tasks.profiles.parse import Profile

_MOST_NAMES = 8
_PYTHON = "says nothing of tasks that are written in Python, which run as they are"


@dataclass(frozen=True, slots=True)
class BestOfVariants:
    """A task or group in several variants, of which a tool reports the best; or a group of such.

    Attributes:
        tool: the profile's name.
        name: the task's or group's own name.
        variants: variant → the name of its task or group in the run; empty for a group of such.
        members: what the mean of the best is taken over, for a group of such.
    """

    tool: str
    name: str
    variants: Mapping[str, str] = field(default_factory=dict)
    members: tuple[BestOfVariants, ...] = ()


@dataclass(frozen=True, slots=True)
class _ProfiledEntry:
    """A task or group of the run: its own name, the variant, the metrics that come first in it, its pipelines."""

    own: str
    label: str
    variant: str
    combines: bool
    primary: tuple[str, ...]
    pipelines: tuple[str, ...]


class ProfileApplier:
    """Applies a profile, or none, and remembers what became of each task and group.

    Args:
        metrics: metric → shapes that it scores.
        profile: the tool's conventions; None to leave all tasks as they are.
    """

    def __init__(self, metrics: Mapping[str, frozenset[str]], profile: Profile | None = None) -> None:
        if profile is not None:
            check_metrics(profile, metrics)
        self._metrics = metrics
        self._profile = profile
        self._entries: dict[str, _ProfiledEntry] = {}
        self._families: dict[str, dict[str, str]] = {}
        self._means: dict[str, tuple[str, ...]] = {}
        self._inside: set[str] = set()
        self._caveats: dict[str, dict[str, None]] = {}

    @property
    def is_named(self) -> bool:
        """Whether the run follows a profile."""
        return self._profile is not None

    @property
    def has_rules(self) -> bool:
        """Whether a profile says how questions are put."""
        return self._profile is not None and self._profile.has_rules

    def variants(self, definition: TaskDefinition, overrides: ProfileOverrides) -> list[TaskDefinition]:
        """A task in every variant of the profile, with the metrics that the run adds."""
        assert self._profile is not None, "there is a profile"
        made = []
        for item in profiled(definition, self._profile, overrides, self._metrics):
            scored = rescored(item.definition, overrides.options.scoring, self._metrics)
            made.append(scored)
            self._record_variant(definition.name, item, scored)
        return made

    def _record_variant(self, own: str, item: Profiled, scored: TaskDefinition) -> None:
        for caveat in item.caveats:
            self._caveats.setdefault(caveat, {})[own] = None
        if item.label:
            primary = tuple(spec.name for spec in scored.scoring.metrics[:1])
            pipelines = tuple(pipeline.name for pipeline in scored.scoring.pipelines)
            self._entries[scored.name] = _ProfiledEntry(
                own, item.label, item.variant, item.combines, primary, pipelines
            )
        if item.combines:
            self._families.setdefault(own, {})[item.variant] = scored.name

    def note_unprofiled(self, name: str) -> None:
        """Notes a task that no profile can reach."""
        if self._profile is not None and self._profile.has_rules:
            self._caveats.setdefault(_PYTHON, {})[name] = None

    def groups(self, spec: GroupSpec, name: str, alias: str) -> list[GroupSpec]:
        """A group for every variant of its members; the members that the profile leaves alone are in each.

        Args:
            spec: the group over all variants of all members.
            name: its own name, without style.
            alias: its own alias.
        """
        entries = [self._entries[member] for member in spec.members if member in self._entries]
        made = []
        for label in dict.fromkeys(entry.label for entry in entries):
            alike = [entry for entry in entries if entry.label == label]
            metrics = tuple(dict.fromkeys(metric for entry in alike for metric in entry.primary))
            pipelines = tuple(dict.fromkeys(pipeline for entry in alike for pipeline in entry.pipelines))
            entry = _ProfiledEntry(name, label, alike[0].variant, alike[0].combines, metrics, pipelines)
            members = tuple(item for item in spec.members if self._label(item) in ("", label))
            reported = self._group_metrics(spec, entry)
            made.append(GroupSpec(f"{name}@{label}", f"{alias}@{label}", members, reported, spec.version))
            self._entries[made[-1].name] = entry
            if entry.combines and spec.metrics:
                self._combine(entry, made[-1].name, [entry.own for entry in alike])
        return made or [spec]

    def _combine(self, group: _ProfiledEntry, name: str, members: Sequence[str]) -> None:
        """Remembers what of a group is combined: its averages, or the best of each member."""
        leaves = [leaf for member in members for leaf in self._means.get(member, (member,))]
        if self._averages(group):
            self._families.setdefault(group.own, {})[group.variant] = name
            self._inside |= {*members, *leaves}
        else:
            self._means[group.own] = tuple(dict.fromkeys((*self._means.get(group.own, ()), *leaves)))

    def _averages(self, group: _ProfiledEntry) -> bool:
        """Whether the members of a group are averaged in each variant."""
        return not group.combines or (self._profile is not None and self._profile.averages_first(group.own))

    def _label(self, name: str) -> str:
        return self._entries[name].label if name in self._entries else ""

    def _group_metrics(self, spec: GroupSpec, entry: _ProfiledEntry) -> tuple[GroupMetricSpec, ...]:
        """A group that reports something reports what comes first in its members, in their order of pipelines."""
        if not spec.metrics or self._profile is None or not self._averages(entry):
            return ()
        if len(entry.primary) > 1:
            caveat = f"no average is reported, as the members' first metrics differ ({', '.join(entry.primary)})"
            self._caveats.setdefault(caveat, {})[entry.own] = None
            return ()
        said = self._profile.weight_by_size
        weighs = spec.metrics[0].weight_by_size if said is None else said
        return tuple(GroupMetricSpec(metric, entry.pipelines, weighs) for metric in entry.primary)

    def combined(self) -> tuple[BestOfVariants, ...]:
        """What is reported as the best of its variants; what a combined group holds counts in the group."""
        tool = self._profile.name if self._profile is not None else ""
        best = {
            name: BestOfVariants(tool, name, variants) for name, variants in self._families.items() if len(variants) > 1
        }
        means = [
            BestOfVariants(tool, name, members=tuple(best[leaf] for leaf in leaves if leaf in best))
            for name, leaves in self._means.items()
            if name not in self._inside
        ]
        return (
            *(item for name, item in best.items() if name not in self._inside),
            *(item for item in means if item.members),
        )

    def notices(self) -> tuple[str, ...]:
        """What users must know, each with the tasks that it is about."""
        if self._profile is None:
            return ()
        tool, general = self._profile.name, self._profile.deviations
        known = (f"{tool}: known differences from the tool: {' '.join(general)}",) if general and self._entries else ()
        return (*known, *(f"{tool}: {caveat}: {_names(tasks)}" for caveat, tasks in self._caveats.items()))


def _names(names: Mapping[str, None]) -> str:
    shown = ", ".join(list(names)[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
