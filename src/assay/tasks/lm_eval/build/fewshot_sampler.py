"""Few-shot sampler of a task in the lm-eval dialect: named by its file or by the run, with its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from assay.core.errors import DataError, Fault, UserError
from assay.core.specs import TaskOptions
from assay.tasks.fewshot import (
    BALANCED,
    DEFAULT,
    CodeSampler,
    FewshotLabel,
    ListedSampler,
    Sampler,
    SamplerSettings,
    make_sampler,
)
from assay.tasks.lm_eval.build.fields import Row
from assay.tasks.lm_eval.build.instances import Readers, field_locations
from assay.tasks.lm_eval.file.definition import FewshotDefinition, TaskDefinition

# Whole texts are scored without examples, whatever the run's settings.
_NO_EXAMPLES = "loglikelihood_rolling"


def with_sampler(definition: TaskDefinition, options: TaskOptions) -> TaskDefinition:
    """A definition with the sampler that the run names, or its own; one that cannot be balanced is an error."""
    name = options.fewshot_sampler
    own = definition.fewshot
    if name is not None:
        # A profile's seed and labels belong to its own sampler.
        kept = own if name == own.sampler else replace(own, sampler=name, seed=None, label=None)
        kept = replace(kept, listed=())
        excludes = kept.excludes or (name != DEFAULT and shares_split(definition, kept))
        definition = replace(definition, fewshot=replace(kept, excludes=excludes))
    elif not own.is_like_lm_eval and not own.excludes:
        definition = replace(definition, fewshot=replace(own, excludes=shares_split(definition, own)))
    if definition.fewshot.sampler == BALANCED and options.shots(definition.fewshot_count):
        _check_labels(definition)
    return definition


def shares_split(definition: TaskDefinition, fewshot: FewshotDefinition) -> bool:
    """Whether the examples come from the evaluated split."""
    if fewshot.split is None and fewshot.samples is not None:
        return False
    splits = (fewshot.split, definition.training_split, definition.validation_split, definition.test_split)
    return next((split for split in splits if split), None) == definition.evaluated_split


def _check_labels(definition: TaskDefinition) -> None:
    has_label = definition.fewshot.label is not None or definition.fewshot.rendering.target not in (None, "")
    if has_label or definition.output_type == _NO_EXAMPLES:
        return
    found = f'the task "{definition.name}" states no right answer, which the balanced sampler needs'
    advice = "Choose another sampler: --fewshot_sampler per_document"
    raise UserError(Fault(definition.file.where("fewshot_config", "sampler"), found, "a key doc_to_target", advice))


def sampler_of(definition: TaskDefinition, pool: list[Row], settings: SamplerSettings) -> Sampler:
    """The sampler of a task."""
    fewshot = definition.fewshot
    places = listed_indices(fewshot, pool, settings.count)
    if places is not None and None not in places:
        return ListedSampler([place for place in places if place is not None])
    if not isinstance(fewshot.sampler, str):
        return CodeSampler(fewshot.sampler, pool, settings.count, settings.seed, settings.excluded, settings.where)
    label = None
    if fewshot.sampler == BALANCED:
        label = fewshot.label or _shown_labels(definition, pool, settings.where)
    return make_sampler(fewshot.sampler, pool, settings, label)


def listed_indices(fewshot: FewshotDefinition, pool: Sequence[Row], count: int) -> list[int | None] | None:
    """Pool indices of the first examples that a profile lists, None for an example that the pool lacks.

    None if the profile lists none, or if they could reveal the answer of an evaluated document.
    """
    if not fewshot.listed or fewshot.excludes:
        return None
    wanted: list[Mapping[str, Any]] = [*fewshot.listed[:count], *([{}] * (count - len(fewshot.listed)))]
    return [
        next((place for place, row in enumerate(pool) if _holds(row, columns)), None) if columns else None
        for columns in wanted
    ]


def _holds(row: Row, columns: Mapping[str, Any]) -> bool:
    return all(key in row and row[key] == value for key, value in columns.items())


def listed_notice(fewshot: FewshotDefinition, pool: Sequence[Row], count: int) -> str:
    """Notice for a profile whose own examples are not shown; empty if they are."""
    if fewshot.listed and fewshot.excludes:
        return f"examples come from the evaluated split, so {fewshot.sampler} chooses them, not the tool's list"
    places = listed_indices(fewshot, pool, count)
    if places is None or None not in places:
        return ""
    if count > len(fewshot.listed):
        return (
            f"the tool shows {len(fewshot.listed)} examples and the run needs {count}, so {fewshot.sampler} chooses all"
        )
    found = sum(place is not None for place in places)
    return f"the split holds {found} of the {count} examples that the tool shows; {fewshot.sampler} chooses instead"


def _shown_labels(definition: TaskDefinition, pool: Sequence[Row], where: str) -> FewshotLabel:
    """Reads the right answer of a row as an example shows it; a pool without any is an error."""
    if not pool:
        return lambda row: None
    columns = list(pool[0])
    readers = Readers(definition.fewshot.rendering, columns, field_locations(definition, ("fewshot_config",)))

    def label(row: Row) -> str | None:
        try:
            return _answer(readers, deepcopy(row) if readers.has_code else row)
        except DataError:
            return None  # without an answer it comes last; its fault is reported if it is shown

    if all(label(row) is None for row in pool):
        found = (
            f"none of the {len(pool)} rows that examples come from has a right answer, which the balanced sampler needs"
        )
        raise DataError(Fault(where, found, "labelled examples", "Choose another sampler, or another fewshot_split"))
    return label


def _answer(readers: Readers, row: Row) -> str | None:
    """Text of a row's right answer: the choice that it names, or its own text."""
    choices = readers.choices(row) if readers.choices is not None else []
    # With one prompt per choice, `doc_to_text` gives the index of the right choice.
    answer: Any = readers.text(row) if choices else None
    if not isinstance(answer, int):
        answer = readers.target(row)
    if isinstance(answer, (list, tuple)):
        answer = answer[0] if answer else None
    if choices and isinstance(answer, int) and not isinstance(answer, bool):
        return choices[answer] if 0 <= answer < len(choices) else None
    return None if answer is None or answer == "" else str(answer)
