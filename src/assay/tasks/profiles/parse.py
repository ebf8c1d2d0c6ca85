"""Reads a profile: YAML in, rules out, every fault with its line.

A profile has a `source`, a `description`, known `deviations` from the tool, and `tasks`: rules, of which the first
whose pattern matches a task's name applies, and a `default` for all other multiple-choice tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, UserError, did_you_mean
from assay.tasks.fewshot import SAMPLERS
from assay.tasks.lm_eval.file.format_key import format_faults
from assay.tasks.lm_eval.file.yaml_reader import KeyPath, TaskFile, read_task_file
from assay.tasks.lm_eval.variants.scoring_overrides import is_pipeline
from assay.tasks.styles import OWN, Style, find_style, style_of
from assay.tasks.templates import check_syntax

FOLDER = Path(__file__).parent
_FEWSHOT_KEYS = ("sampler", "split", "seed", "by", "rows")
# Label of balanced examples: the text of the right choice, or the answer as an example shows it, such as its letter.
_BALANCED_BY = ("text", "shown")


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant in which a tool prompts and scores a task. None keeps the task file's value.

    Attributes:
        name: short name; empty if a rule has only one variant.
        style: prompt style.
        metrics: entries of a `metric_list`, the primary one first.
        num_fewshot: examples per prompt.
        sampler: few-shot sampler: a name of `SAMPLERS`.
        split: split that examples are drawn from.
        seed: seed of their random generator, in place of the run's.
        by: label of balanced examples, `text` or `shown`.
        rows: the tool's own examples in order, each as columns and their values in a row of the split. If the split
            lacks one, the sampler chooses instead.
        filters: entries of a `filter_list` that extract a generated answer, in place of the style's.
        description: the text at the beginning of a prompt; a template over the document's columns.
        fewshot_delimiter: text after an example.
        format: the parts of a question over the document's columns, if the task's own prompt does not show them.
        place: its key path in the profile's file.
    """

    name: str = ""
    style: Style | None = None
    metrics: tuple[Mapping[str, Any], ...] = ()
    num_fewshot: int | None = None
    sampler: str | None = None
    split: str | None = None
    seed: int | None = None
    by: str = "text"
    rows: tuple[Mapping[str, Any], ...] = ()
    filters: tuple[Mapping[str, Any], ...] = ()
    description: str | None = None
    fewshot_delimiter: str | None = None
    format: Mapping[str, Any] | None = None
    place: KeyPath = ()

    @property
    def line(self) -> str:
        """A short description of the variant."""
        metrics = ", ".join(str(entry["metric"]) for entry in self.metrics) or "the task's own metrics"
        shots = "" if self.num_fewshot is None else f", {self.num_fewshot}-shot"
        sampler = "curated" if self.rows else self.sampler
        drawn = f" {sampler}" if sampler and self.num_fewshot else ""
        return f"{self.name + ': ' if self.name else ''}{metrics}{shots}{drawn}"


@dataclass(frozen=True, slots=True)
class ProfileRule:
    """A tool's rule for tasks whose names match some patterns.

    Attributes:
        match: patterns of task names, and after ! of names to leave out; empty for the default.
        variants: the variants that the tool evaluates.
        unfit: why the tool's method cannot be reproduced, so that the task runs as its file defines it; else empty.
        combine: `max` if the tool reports the best variant; empty if each is reported separately.
        choices: number of choices that a question must have, if the tool leaves out all others; None for any number.
        notice: notice about the examples, shown if the rule is used with any.
        deviations: known differences from the tool on these tasks.
        source: the tool's own file.
    """

    match: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    unfit: str = ""
    combine: str = ""
    choices: int | None = None
    notice: str = ""
    deviations: tuple[str, ...] = ()
    source: str = ""

    def is_for(self, task: str) -> bool:
        """Whether a task's name matches a pattern and none of those to leave out."""
        matching, left_out = self._patterns
        return any(fnmatchcase(task, pattern) for pattern in matching) and not any(
            fnmatchcase(task, pattern) for pattern in left_out
        )

    @property
    def _patterns(self) -> tuple[list[str], list[str]]:
        """The patterns of names, and those of names to leave out."""
        left_out = [pattern for pattern in self.match if pattern.startswith("!")]
        return [pattern for pattern in self.match if pattern not in left_out], [name[1:] for name in left_out]

    @property
    def line(self) -> str:
        """A one-line description of the rule."""
        said = self.unfit or "; ".join(variant.line for variant in self.variants)
        best = f"; {self.combine} of them" if self.combine else ""
        source = f" ({self.source})" if self.source else ""
        matching, left_out = self._patterns
        without = f" without {', '.join(left_out)}" if left_out else ""
        return f"{', '.join(matching) or 'all others'}{without}: {said}{best}{source}"


@dataclass(frozen=True, slots=True)
class Profile:
    """A tool's conventions.

    Attributes:
        name: the tool's name, or that of the user's file.
        file: the file it was read from.
        description: the tool's conventions, in a line or two.
        source: repository, version, paper: the sources of the facts.
        deviations: known differences from the tool.
        rules: in order; the first that matches a task applies.
        default: rule for all other multiple-choice tasks; None to leave them unchanged.
        weight_by_size: whether a group weights tasks by their number of documents; None for the group file's value.
        averaged_first: patterns of groups whose members are averaged before the best variant is taken. For any other
            group, the mean of each member's best is reported.
        model_args: settings with which the tool opens a Hugging Face decoder; the user's own override them.
    """

    name: str
    file: TaskFile = field(repr=False)
    description: str
    source: Mapping[str, str]
    deviations: tuple[str, ...] = ()
    rules: tuple[ProfileRule, ...] = ()
    default: ProfileRule | None = None
    weight_by_size: bool | None = None
    averaged_first: tuple[str, ...] = ()
    model_args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_rules(self) -> bool:
        """Whether it changes any task."""
        return bool(self.rules) or self.default is not None

    def lines(self) -> list[str]:
        """A line for each rule."""
        return [rule.line for rule in (*self.rules, *([self.default] if self.default is not None else []))]

    def rule(self, task: str) -> ProfileRule | None:
        """The rule of a task, by its name."""
        for rule in self.rules:
            if rule.is_for(task):
                return rule
        return self.default

    def averages_first(self, group: str) -> bool:
        """Whether the members of a group are averaged before the best variant is taken."""
        return any(fnmatchcase(group, pattern) for pattern in self.averaged_first)

    @property
    def all_deviations(self) -> tuple[str, ...]:
        """All known differences from the tool, on all tasks and on some."""
        rules = (*self.rules, *([self.default] if self.default is not None else []))
        return tuple(dict.fromkeys((*self.deviations, *(text for rule in rules for text in rule.deviations))))


def profile_names() -> list[str]:
    """The profiles that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def named_profile(text: str) -> tuple[str, str] | None:
    """The profile, and perhaps its variant, that a text names: `olmes`, `lm_eval`, `olmes-mcf`; None if it names none.

    Only profiles that come with the package have a name.
    """
    spelt = text.replace("_", "-")
    for name in profile_names():
        if spelt == name or spelt.startswith(f"{name}-"):
            return name, spelt[len(name) + 1 :]
    return None


def find_profile(text: str) -> Profile:
    """The profile that a text names: `olmes`, `lm_eval`, `my_profile.yaml`."""
    if text.endswith((".yaml", ".yml")):
        return read_profile(Path(text).expanduser())
    name, known = text.replace("_", "-"), profile_names()
    if name not in known:
        expected = "one of " + ", ".join(known) + ", or a YAML file"
        raise UserError(
            Fault("--like", f'unknown profile "{text}"{did_you_mean(name, known)}', expected, "See: assay ls profiles")
        )
    return read_profile(FOLDER / f"{name}.yaml")


def read_profile(path: Path) -> Profile:
    """The profile in a file; all its faults are raised at once."""
    file = read_task_file(path)
    return _ProfileReader(file).profile()


_PROFILE_KEYS = {
    "description": ("text", str),
    "source": ("a mapping of texts, such as repository and version", dict),
    "deviations": ("a list of texts", list),
    "tasks": ("a list of rules", list),
    "default": ("a rule without match", dict),
    "groups": ("weight_by_size: true or false, averaged_first: a list of patterns", dict),
    "model_args": ("settings of a Hugging Face decoder, such as add_bos_token: false", dict),
}
_RULE_KEYS = {
    "match": ("a pattern of task names, or a list of them", (str, list)),
    "variants": ("a list of variants", list),
    "unfit": ("text", str),
    "combine": ("max", str),
    "choices": ("a whole number, 2 or more", int),
    "notice": ("text", str),
    "deviations": ("a list of texts", list),
    "source": ("text", str),
}
_VARIANT_KEYS = {
    "name": ("text", str),
    "style": ("a style's name, or prompt and answer templates", (str, dict)),
    "metrics": ("a list of metrics, the primary one first", list),
    "num_fewshot": ("a whole number, 0 or more", int),
    "filters": ("a list as filter_list in task files: [{name: …, filter: [{function: …}]}]", list),
    "fewshot": ("sampler, split, seed, by, rows", dict),
    "description": ("text", str),
    "fewshot_delimiter": ("text", str),
    "format": ("question, choices and answer", dict),
}


class _ProfileReader:
    """Reads one file and collects its faults."""

    def __init__(self, file: TaskFile) -> None:
        self._file = file
        self._faults: list[Fault] = []

    def profile(self) -> Profile:
        data = self._file.data
        self._check(data, _PROFILE_KEYS, ())
        for key in ("description", "source"):
            if key not in data:
                self._fault((key,), "is missing", _PROFILE_KEYS[key][0])
        listed = data.get("tasks")
        rules = [self._rule(rule, ("tasks", place)) for place, rule in enumerate(_list(listed))]
        default = self._rule(data["default"], ("default",)) if "default" in data else None
        source = data.get("source")
        groups = data.get("groups", {}) if isinstance(data.get("groups", {}), dict) else {}
        weighs, averaged = self._weighs(groups), self._patterns(groups)
        deviations = self._prose(data, ())
        if self._faults:
            raise UserError(*self._faults)
        return Profile(
            name=self._file.path.stem,
            file=self._file,
            description=" ".join(data["description"].split()),
            source={str(key): str(value) for key, value in (source or {}).items()},
            deviations=deviations,
            rules=tuple(rules),
            default=default,
            weight_by_size=weighs,
            averaged_first=averaged,
            model_args=dict(data.get("model_args", {})),
        )

    def _fault(self, keys: KeyPath, found: str, expected: str = "") -> None:
        self._faults.append(Fault(self._file.where(*keys), found, expected))

    def _check(self, data: Mapping[Any, Any], kinds: Mapping[str, tuple[str, Any]], above: KeyPath) -> None:
        for key, value in data.items():
            if key not in kinds:
                self._fault((*above, key), f'unknown key "{key}"{did_you_mean(str(key), kinds)}', ", ".join(kinds))
            elif not isinstance(value, kinds[key][1]) or isinstance(value, bool):
                self._fault((*above, key), f"is {value!r}", kinds[key][0])

    def _texts(self, value: Any, above: KeyPath) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._fault(above, f"is {value!r}", "a list of texts")
            return ()
        return tuple(value)

    def _prose(self, data: Mapping[str, Any], above: KeyPath) -> tuple[str, ...]:
        """The deviations of a profile or a rule, each on one line."""
        return tuple(" ".join(text.split()) for text in self._texts(data.get("deviations", []), (*above, "deviations")))

    def _patterns(self, groups: Mapping[str, Any]) -> tuple[str, ...]:
        return self._texts(groups.get("averaged_first", []), ("groups", "averaged_first"))

    def _weighs(self, data: Mapping[str, Any]) -> bool | None:
        for key, value in data.items():
            if key != "averaged_first" and (key != "weight_by_size" or not isinstance(value, bool)):
                self._fault(("groups", key), f"is {value!r}", _PROFILE_KEYS["groups"][0])
        found = data.get("weight_by_size")
        return found if isinstance(found, bool) else None

    def _rule(self, data: Any, above: KeyPath) -> ProfileRule:
        if not isinstance(data, dict):
            self._fault(above, f"is {data!r}", "a mapping with match and variants")
            return ProfileRule()
        self._check(data, _RULE_KEYS, above)
        is_default = above == ("default",)
        if is_default == ("match" in data):
            found = "has patterns, but is for all other tasks" if is_default else "is missing"
            self._fault((*above, "match"), found, "" if is_default else _RULE_KEYS["match"][0])
        if ("variants" in data) == ("unfit" in data):
            self._fault((*above, "variants"), "a rule has either variants or unfit", "one of the two")
        if isinstance(data.get("choices"), int) and data["choices"] < 2:
            self._fault((*above, "choices"), f"is {data['choices']}", _RULE_KEYS["choices"][0])
        if data.get("combine", "max") != "max":
            self._fault((*above, "combine"), f"is {data['combine']!r}", "max")
        listed = enumerate(_list(data.get("variants")))
        variants = tuple(self._variant(item, (*above, "variants", place)) for place, item in listed)
        names = [variant.name for variant in variants]
        if len(set(names)) < len(names):
            self._fault((*above, "variants"), "several variants have the same name or none", "a name for each")
        return ProfileRule(
            match=self._texts(data.get("match", []), (*above, "match")),
            variants=variants,
            unfit=str(data.get("unfit", "")),
            combine=str(data.get("combine", "")),
            choices=data.get("choices"),
            deviations=self._prose(data, above),
            notice=str(data.get("notice", "")),
            source=str(data.get("source", "")),
        )

    def _variant(self, data: Any, above: KeyPath) -> Variant:
        if not isinstance(data, dict):
            self._fault(above, f"is {data!r}", "a mapping: " + ", ".join(_VARIANT_KEYS))
            return Variant()
        self._check(data, _VARIANT_KEYS, above)
        count = data.get("num_fewshot")
        if isinstance(count, int) and count < 0:
            self._fault((*above, "num_fewshot"), f"is {count}", "0 or more")
        description = data.get("description")
        problem = check_syntax(description) if isinstance(description, str) else None
        if problem:
            self._fault((*above, "description"), problem)
        stated = data.get("format")
        if isinstance(stated, dict):
            inner = TaskFile(self._file.path, {"format": stated}, self._file.below(*above))
            self._faults += format_faults(inner, stated)
        fewshot = data.get("fewshot", {})
        self._check_fewshot(fewshot, (*above, "fewshot"))
        drawn = fewshot if isinstance(fewshot, dict) else {}
        return Variant(
            name=str(data.get("name", "")),
            style=self._style(data.get("style", OWN), (*above, "style")),
            metrics=self._metrics(data.get("metrics", []), (*above, "metrics")),
            num_fewshot=count,
            sampler=drawn.get("sampler"),
            split=drawn.get("split"),
            seed=drawn.get("seed"),
            by=drawn.get("by", "text"),
            rows=tuple(_list(drawn.get("rows"))),
            filters=self._filters(data.get("filters", []), (*above, "filters")),
            description=description,
            fewshot_delimiter=data.get("fewshot_delimiter"),
            format=stated,
            place=above,
        )

    def _style(self, value: Any, above: KeyPath) -> Style | None:
        try:
            if isinstance(value, dict):
                return style_of("", value, partial(self._file.where, *above))
            return find_style(value) if isinstance(value, str) and value != OWN else None
        except UserError as error:
            where = self._file.where(*above)
            inline = isinstance(value, dict)
            self._faults += [fault if inline else Fault(where, fault.found, fault.expected) for fault in error.faults]
            return None

    def _metrics(self, listed: Any, above: KeyPath) -> tuple[Mapping[str, Any], ...]:
        entries: list[Mapping[str, Any]] = []
        for place, item in enumerate(_list(listed)):
            entry = {"metric": item} if isinstance(item, str) else item
            if isinstance(entry, dict) and isinstance(entry.get("metric"), str):
                entries.append(entry)
            else:
                self._fault((*above, place), f"is {item!r}", "a metric's name, or {metric: NAME, …}")
        return tuple(entries)

    def _filters(self, listed: Any, above: KeyPath) -> tuple[Mapping[str, Any], ...]:
        for place, entry in enumerate(_list(listed)):
            if not is_pipeline(entry):
                self._fault((*above, place), f"is {entry!r}", "{name: …, filter: [{function: …}]}")
        return tuple(_list(listed))

    def _check_fewshot(self, data: Any, above: KeyPath) -> None:
        if not isinstance(data, dict):
            return
        for key, value in data.items():
            if key not in _FEWSHOT_KEYS:
                hint = did_you_mean(str(key), _FEWSHOT_KEYS)
                self._fault((*above, key), f'unknown key "{key}"{hint}', ", ".join(_FEWSHOT_KEYS))
            elif key == "sampler" and value not in SAMPLERS:
                self._fault((*above, key), f"is {value!r}", "one of " + ", ".join(SAMPLERS))
            elif key == "split" and not isinstance(value, str):
                self._fault((*above, key), f"is {value!r}", "a split's name")
            elif key == "by" and value not in _BALANCED_BY:
                self._fault((*above, key), f"is {value!r}", "one of " + ", ".join(_BALANCED_BY))
            elif key == "rows" and not _are_rows(value):
                self._fault((*above, key), f"is {value!r}", "a list of columns and their values: [{question: …}]")
            elif key == "seed" and (not isinstance(value, int) or isinstance(value, bool)):
                self._fault((*above, key), f"is {value!r}", "a whole number")


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) and row for row in value)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
