"""The key `score` of a group file: the average that the authors of a suite define, beside lm-eval's aggregates.

Takes a group's mapping, gives the definition of each score, or every fault with its line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from assay.core.errors import Fault, TaskFileError, did_you_mean
from assay.core.score_terms import CHANCE, MACRO, MICRO, Normalisation
from assay.tasks.lm_eval.file.yaml_reader import KeyPath, TaskFile

SCORE, _NAME = "score", "score"
_FRACTION = re.compile(r"[0-9]+/[1-9][0-9]*")
_AVERAGES = "macro (each counts once) or micro (each document counts once)"


@dataclass(frozen=True, slots=True)
class PartDefinition:
    """A part of a score: one member of the group, or several.

    Attributes:
        name: the member's name as the group lists it, or any name if `of` lists members.
        of: members, or groups and tasks below them.
        parts: the parts that it consists of, each with its own settings; empty if `of` lists members.
        metrics: metrics, averaged first; empty for each task's primary metric.
        filter: the pipeline of the metrics; None for the first that has each.
        normalisation: applied to each task, or to all documents together if they are pooled; None for none.
        is_pooled: whether documents count, not tasks, if the part has several tasks.
        place: key path in the group's file.
    """

    name: str
    of: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    filter: str | None = None
    normalisation: Normalisation | None = None
    is_pooled: bool = False
    place: KeyPath = ()
    parts: tuple[PartDefinition, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoreDefinition:
    """A score as a group file defines it.

    Attributes:
        name: the name under which it is reported.
        parts: its parts; None for all tasks below the group, each with the settings of `each`.
        each: the settings of a part that states none.
        is_pooled: whether parts count by their documents, not once each.
        scale: multiplies the average.
        place: key path in the group's file.
    """

    name: str
    parts: tuple[PartDefinition, ...] | None
    each: PartDefinition
    is_pooled: bool = False
    scale: float = 1.0
    place: KeyPath = ()


def read_scores(file: TaskFile, data: Mapping[str, Any], above: KeyPath = ()) -> tuple[ScoreDefinition, ...]:
    """The scores of a group; all faults are raised at once.

    Args:
        file: the group's file.
        data: the group's mapping.
        above: its key path in the file.
    """
    reader = _Reader(file)
    found = reader.scores(data, above)
    if reader.faults:
        raise TaskFileError(*reader.faults)
    return tuple(found)


def score_faults(file: TaskFile) -> list[Fault]:
    """Faults of the key in a group file."""
    reader = _Reader(file)
    reader.scores(file.data, ())
    return reader.faults


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_level(value: Any) -> bool:
    return _is_number(value) or (isinstance(value, str) and _FRACTION.fullmatch(value) is not None)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


_Rule = tuple[str, Callable[[Any], bool]]
_TEXT: _Rule = ("text", _is_text)
_TEXTS: _Rule = ("text or a list of texts", lambda value: _is_text(value) or _are_texts(value))
_PART_KEYS: dict[str, _Rule] = {
    "metric": _TEXTS,
    "filter": _TEXT,
    "floor": (f"a number, a fraction such as 1/3, or {CHANCE}", lambda value: value == CHANCE or _is_level(value)),
    "ceiling": ("a number", _is_number),
    "average": (_AVERAGES, lambda value: value in (MACRO, MICRO)),
}
SCORE_KEYS: dict[str, _Rule] = {
    "name": _TEXT,
    **_PART_KEYS,
    "scale": ("a number above 0", lambda value: _is_number(value) and value > 0),
    "members": ("a mapping from member to metric", lambda value: isinstance(value, dict) and bool(value)),
}
MEMBER_KEYS: dict[str, _Rule] = {
    **_PART_KEYS,
    "of": (
        "a list of members, or a mapping from member to metric",
        lambda value: _are_texts(value) or (isinstance(value, dict) and bool(value)),
    ),
}
_MEMBER = "a metric, a list of metrics, or a mapping: " + ", ".join(MEMBER_KEYS)


@dataclass(slots=True)
class _Reader:
    """Reads the scores of one file and collects their faults."""

    file: TaskFile
    faults: list[Fault] = field(default_factory=list)

    def scores(self, data: Mapping[str, Any], above: KeyPath) -> list[ScoreDefinition]:
        given, path = data.get(SCORE), (*above, SCORE)
        listed = given if isinstance(given, list) else [] if given is None else [given]
        places = [(*path, place) for place in range(len(listed))] if isinstance(given, list) else [path]
        found = [
            self._score(entry, place)
            for entry, place in zip(listed, places)  # noqa: B905 (no places without entries)
            if self._is_mapping(entry, place)
        ]
        self._check_names(found, data)
        return found

    def _is_mapping(self, entry: Any, place: KeyPath) -> bool:
        if not isinstance(entry, dict):
            self._fault(place, f"is {entry!r}", "a mapping: " + ", ".join(SCORE_KEYS))
        return isinstance(entry, dict)

    def _score(self, entry: Mapping[Any, Any], place: KeyPath) -> ScoreDefinition:
        known = self._checked(entry, SCORE_KEYS, place)
        members = known.get("members")
        return ScoreDefinition(
            name=str(known.get("name", _NAME)),
            parts=None if members is None else tuple(self._members(members, known, (*place, "members"))),
            each=self._part("", known, place),
            is_pooled=known.get("average") == MICRO,
            scale=float(known.get("scale", 1.0)),
            place=place,
        )

    def _members(
        self, members: Mapping[Any, Any], common: Mapping[str, Any], place: KeyPath
    ) -> Iterator[PartDefinition]:
        shared = {key: value for key, value in common.items() if key in _PART_KEYS}
        for name, entry in members.items():
            where = (*place, name)
            own = {"metric": entry} if _TEXTS[1](entry) else {} if entry is None else entry
            if not isinstance(own, dict) or not isinstance(name, str):
                self._fault(where, f"is {entry!r}" if isinstance(name, str) else f"the member is {name!r}", _MEMBER)
                continue
            yield self._part(name, {**shared, **self._checked(own, MEMBER_KEYS, where)}, where)

    def _part(self, name: str, known: Mapping[str, Any], place: KeyPath) -> PartDefinition:
        metric, of = known.get("metric", []), known.get("of", [name])
        inner = tuple(self._members(of, known, (*place, "of"))) if isinstance(of, dict) else ()
        return PartDefinition(
            name=name,
            of=() if inner else tuple(of),
            metrics=(metric,) if isinstance(metric, str) else tuple(metric),
            filter=known.get("filter"),
            normalisation=self._normalisation(known, place),
            is_pooled=known.get("average") == MICRO,
            place=place,
            parts=inner,
        )

    def _normalisation(self, known: Mapping[str, Any], place: KeyPath) -> Normalisation | None:
        if "floor" not in known:
            if "ceiling" in known:
                self._fault((*place, "ceiling"), "is given without a floor", "floor: a number, or chance")
            return None
        ceiling = float(known.get("ceiling", 1.0))
        floor = known["floor"] if known["floor"] == CHANCE else float(Fraction(known["floor"]))
        if not isinstance(floor, str) and ceiling <= floor:
            self._fault(
                (*place, "ceiling"), f"is {ceiling:g}, which is not above the floor {floor:g}", "floor < ceiling"
            )
            return None
        return Normalisation(floor, ceiling)

    def _checked(self, entry: Mapping[Any, Any], rules: Mapping[str, _Rule], place: KeyPath) -> dict[str, Any]:
        """The keys of a mapping whose values are valid."""
        found = {}
        for key, value in entry.items():
            if key not in rules:
                hint = did_you_mean(str(key), rules)
                self._fault((*place, key), f'unknown key "{key}"{hint}', "one of " + ", ".join(rules))
            elif not rules[key][1](value):
                self._fault((*place, key), f"is {value!r}", rules[key][0])
            else:
                found[key] = value
        return found

    def _check_names(self, scores: list[ScoreDefinition], data: Mapping[str, Any]) -> None:
        listed = data.get("aggregate_metric_list")
        entries = [listed] if isinstance(listed, dict) else listed if isinstance(listed, list) else []
        taken = [entry.get("metric") for entry in entries if isinstance(entry, dict)]
        for number, score in enumerate(scores):
            if score.name in [other.name for other in scores[:number]]:
                self._fault((*score.place, "name"), f'two scores are called "{score.name}"', "a name for each")
            elif score.name in taken or "," in score.name:
                found = f'"{score.name}" is the name of an aggregated metric, or has a comma'
                self._fault((*score.place, "name"), found, "another name")

    def _fault(self, keys: KeyPath, found: str, expected: str) -> None:
        self.faults.append(Fault(self.file.where(*keys), found, expected))
