"""Applies a profile to a task.

Takes a definition and a profile, gives one definition per variant, each with its label, and caveats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.formats import as_multiple_choice
from assay.core.metric_names import family_of
from assay.core.specs import TaskOptions
from assay.tasks.fewshot import BALANCED
from assay.tasks.lm_eval.build.fewshot_sampler import shares_split
from assay.tasks.lm_eval.build.questions import QuestionReader, question_reader
from assay.tasks.lm_eval.file.definition import FewshotDefinition, Rendering, TaskDefinition
from assay.tasks.lm_eval.variants.scoring_overrides import rescored
from assay.tasks.lm_eval.variants.style_variants import in_style, restyle
from assay.tasks.profiles.parse import Profile, ProfileRule, Variant
from assay.tasks.styles import Style
from assay.tasks.templates import Delimiters

NOT_CHOICE = "has no rule for tasks that are not multiple choice; they run as their files define them"
GENERAL = "has no rule for these tasks; its general rule is used"
NO_RULE = "has no rule for these tasks; they run as their files define them"
SAME_SPLIT = "only the evaluated split has examples, so each document follows other documents of that split"

SAME_RIGHT_CHOICE = (
    "the right choice has the same index in every document, so the choices cannot be listed in this order"
)


@dataclass(frozen=True, slots=True)
class ProfileOverrides:
    """The user's own choices, which override the profile's.

    Attributes:
        options: the run's options.
        is_styled: whether a prompt style was named.
        style: that style; None for the task's own.
    """

    options: TaskOptions
    is_styled: bool = False
    style: Style | None = None


@dataclass(frozen=True, slots=True)
class Profiled:
    """A task in one variant of a profile.

    Attributes:
        definition: the task; as its file defines it if the label is empty.
        own: the task's own name.
        label: profile and variant, as they follow the task's name: `olmes-mcf`.
        variant: the variant's name.
        combines: whether the tool reports the best of the variants.
        caveats: differences from the tool, without the task's name.
    """

    definition: TaskDefinition
    own: str
    label: str = ""
    variant: str = ""
    combines: bool = False
    caveats: tuple[str, ...] = ()


def check_metrics(profile: Profile, metrics: Mapping[str, frozenset[str]]) -> None:
    """Raises for unknown metrics of a profile."""
    rules = [*profile.rules, *([profile.default] if profile.default else [])]
    faults = [
        Fault(
            profile.file.where(*variant.place, "metrics", place),
            f'unknown metric "{entry["metric"]}"{did_you_mean(entry["metric"], metrics)}',
            next="See: assay ls metrics",
        )
        for rule in rules
        for variant in rule.variants
        for place, entry in enumerate(variant.metrics)
        if family_of(entry["metric"]) not in metrics
    ]
    if faults:
        raise UserError(*faults)


def profiled(
    definition: TaskDefinition, profile: Profile, overrides: ProfileOverrides, metrics: Mapping[str, frozenset[str]]
) -> list[Profiled]:
    """A task in the variants of a profile.

    Args:
        definition: the task as its file defines it.
        profile: the tool's conventions.
        overrides: the user's choices, which override the profile's.
        metrics: metric → output types that it scores.
    """
    rule = profile.rule(definition.name)
    if rule is None and not profile.has_rules:
        return [Profiled(in_style(definition, overrides.style), definition.name)]
    unfit = _unfit(definition, profile, rule)
    if rule is None or unfit:
        return [Profiled(in_style(definition, overrides.style), definition.name, caveats=(unfit,))]
    return [
        _in_variant(definition, profile, rule, variant, overrides, metrics)
        for variant in _wanted(rule.variants, overrides)
    ]


def _unfit(definition: TaskDefinition, profile: Profile, rule: ProfileRule | None) -> str:
    """Reason why a profile leaves a task unchanged; empty if it changes it."""
    is_choice = definition.output_type == "multiple_choice"
    if rule is None or not is_choice:
        own = f"{rule.unfit}; these tasks run as their files define them" if rule is not None and rule.unfit else ""
        return own or (NO_RULE if is_choice else NOT_CHOICE)
    lists = any(variant.style is not None and variant.style.shows_options for variant in rule.variants)
    # A general rule is not specific to the task: listing the choices could reveal, say, that the last is always right.
    is_same = definition.format is None and isinstance(definition.rendering.target, int)
    reason = SAME_RIGHT_CHOICE if rule is profile.default and lists and is_same else rule.unfit
    return f"{reason}; these tasks run as their files define them" if reason else ""


def _wanted(variants: Sequence[Variant], overrides: ProfileOverrides) -> Sequence[Variant]:
    """The variants of a rule; with a style that the user names, only the first of the same kind, else the first."""
    if not overrides.is_styled:
        return variants
    alike = [variant for variant in variants if _kind(variant.style) == _kind(overrides.style)]
    return (alike or variants)[:1]


def _kind(style: Style | None) -> tuple[bool, bool] | None:
    return (style.generates, style.shows_options) if style is not None else None


def _in_variant(
    definition: TaskDefinition,
    profile: Profile,
    rule: ProfileRule,
    variant: Variant,
    overrides: ProfileOverrides,
    metrics: Mapping[str, frozenset[str]],
) -> Profiled:
    changed = _changed(definition, profile, variant, overrides.options)
    if overrides.is_styled:
        style = overrides.style
        label = f"{profile.name}+{style.name if style is not None else 'own'}"
    else:
        style = variant.style
        label = f"{profile.name}-{variant.name}" if variant.name else profile.name
    if style is None:
        plain = in_style(changed, None)
        styled = replace(plain, variant=replace(definition.variant, profile=label))
    else:
        styled = restyle(changed, replace(style, name=label))
    scored = _scored(styled, variant, metrics, overrides.is_styled)
    if rule.choices is not None:
        scored = replace(scored, skip_reason=_skip_other_choice_counts(scored, rule.choices))
    caveats = [GENERAL] if rule is profile.default else []
    caveats += [text.rstrip(".") for text in rule.deviations]
    if overrides.options.shots(scored.fewshot_count):
        caveats += [rule.notice] if rule.notice else []
        caveats += [SAME_SPLIT] if scored.fewshot.excludes else []
    combines = bool(rule.combine) and not overrides.is_styled
    return Profiled(scored, definition.name, label, variant.name, combines, tuple(caveats))


def _scored(
    styled: TaskDefinition, variant: Variant, metrics: Mapping[str, frozenset[str]], is_styled: bool
) -> TaskDefinition:
    """A definition with the variant's metrics, and with its filters unless the user's style has its own."""
    changes: dict[str, Any] = {"metric_list": list(variant.metrics)} if variant.metrics else {}
    if variant.filters and not is_styled:
        changes["filter_list"] = list(variant.filters)
    return rescored(styled, changes, metrics)


def _skip_other_choice_counts(definition: TaskDefinition, size: int) -> Callable[[Mapping[str, Any]], str | None]:
    """Returns the reason why a tool that requires `size` choices leaves a row out; None for a row that it evaluates."""
    read = question_reader(definition)

    def reason(row: Mapping[str, Any]) -> str | None:
        question = as_multiple_choice(read(row)) if read is not None else None
        if question is None or len(question.choices) == size:
            return None
        return f"the tool leaves out questions that do not have {size} choices"

    return reason


def _changed(definition: TaskDefinition, profile: Profile, variant: Variant, options: TaskOptions) -> TaskDefinition:
    """The definition with the variant's settings other than style and metrics."""
    changes: dict[str, Any] = {"description": variant.description, "format": variant.format}
    # The user's number of examples is resolved against the file's own, so that a 0 in the file still applies.
    changes["num_fewshot"] = variant.num_fewshot if options.num_fewshot is None else None
    changes["fewshot_delimiter"] = variant.fewshot_delimiter
    said = {key: value for key, value in changes.items() if value is not None}
    below = profile.file.below(*variant.place)
    file = definition.file.changed(said, {keys: place for keys, place in below.items() if keys[0] in said})
    rendering = _separated(definition.rendering, variant.fewshot_delimiter)
    changed = replace(
        definition,
        file=file,
        description=said.get("description", definition.description),
        format=said.get("format", definition.format),
        fewshot_count=said.get("num_fewshot", definition.fewshot_count),
        rendering=rendering,
    )
    return replace(changed, fewshot=_fewshot(changed, variant))


def _separated(rendering: Rendering, delimiter: str | None) -> Rendering:
    if delimiter is None:
        return rendering
    return replace(rendering, delimiters=Delimiters(rendering.delimiters.target, delimiter))


def _fewshot(definition: TaskDefinition, variant: Variant) -> FewshotDefinition:
    own = definition.fewshot
    rendering = _separated(own.rendering, variant.fewshot_delimiter)
    drawn = replace(own, split=variant.split or own.split, samples=None if variant.split else own.samples)
    return replace(
        drawn,
        sampler=variant.sampler or own.sampler,
        rendering=rendering,
        seed=variant.seed,
        label=_label(definition, rendering) if variant.sampler == BALANCED and variant.by == "text" else None,
        excludes=shares_split(definition, drawn),
        listed=variant.rows,
    )


def _label(definition: TaskDefinition, rendering: Rendering) -> Callable[[Mapping[str, Any]], str | None]:
    """Reads the text of a row's right choice."""
    read = QuestionReader(definition, rendering, ("fewshot_config",))

    def label(row: Mapping[str, Any]) -> str | None:
        question = read(row)
        place = question.answer[0] if isinstance(question.answer, tuple) else question.answer
        return question.choices[place] if 0 <= place < len(question.choices) else None

    return label
