"""A task in every combination of what a run varies: few-shot seeds, orders of the choices, draws.

Takes a definition and the run's options, gives one definition per combination, named `task#seed=3#order=2`. Draws are
repeats of one task: metrics and filters decide how several draws are combined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from assay.core.errors import Fault, UserError
from assay.core.specs import TaskOptions
from assay.core.task_variants import ORDER, SEED
from assay.tasks.fewshot import CATWALK, FIRST
from assay.tasks.lm_eval.build.fewshot_sampler import with_sampler
from assay.tasks.lm_eval.build.generation_settings import effective_settings, generation_settings
from assay.tasks.lm_eval.file.definition import TaskDefinition
from assay.tasks.lm_eval.variants.style_variants import has_choices
from assay.tasks.styles import find_style

_GENERATED = "generate_until"
# Metrics that take the predicted choice from the row, by its place.
_BY_PLACE = ("amb_bias_score", "disamb_bias_score", "entity_em", "entity_f1")
_LISTING = "a prompt style that lists the choices"


def varied(definition: TaskDefinition, options: TaskOptions) -> list[TaskDefinition]:
    """The task in every combination of levels; raises if it cannot be varied like this."""
    axes = options.axes
    faults = list(_faults(definition, options))
    if faults:
        raise UserError(*faults)
    if axes.draws is not None:
        drawn = replace(definition.variant, draws=axes.draws)
        definition = replace(definition, variant=drawn, repeats=axes.draws)
    if axes.seeds:
        # The sampler that the run names would have its own seed.
        definition = with_sampler(definition, options)
    orders = range(axes.orders) if axes.orders > 1 else (None,)
    return [_variant(definition, seed, order) for seed, order in product(axes.seeds or (None,), orders)]


def _variant(definition: TaskDefinition, seed: int | None, order: int | None) -> TaskDefinition:
    levels = {} if seed is None else {SEED: seed}
    levels |= {} if order is None else {ORDER: order + 1}
    own = definition.fewshot
    return replace(
        definition,
        variant=replace(definition.variant, levels=levels),
        fewshot=own if seed is None else replace(own, seed=seed),
    )


def _faults(definition: TaskDefinition, options: TaskOptions) -> Iterator[Fault]:
    axes, named = options.axes, f'the task "{definition.name}"'
    if axes.seeds and not options.shots(definition.fewshot_count):
        advice = "Add --num_fewshot N" if definition.fewshot_count is None else "Its file says num_fewshot: 0"
        yield Fault(
            "--seeds", f"{named} has no few-shot examples, so there is nothing to draw", "few-shot examples", advice
        )
    sampler = options.fewshot_sampler or definition.fewshot.sampler
    if axes.seeds and sampler in (FIRST, CATWALK):
        found = f"{named} uses the sampler {sampler}, which takes no seed"
        yield Fault("--seeds", found, "a sampler that draws", "Add --fewshot_sampler fixed, or leave out --seeds")
    if axes.orders > 1:
        yield from _order_faults(definition, named)
    if axes.draws is not None:
        yield from _draw_faults(definition, options, named)


def _order_faults(definition: TaskDefinition, named: str) -> Iterator[Fault]:
    advice = "Add --style letters, or write TASK@letters"
    if definition.prompt is not None:
        found = f"{named} has prompts of its own, whose choices cannot be reordered"
        yield Fault("--orders", found, _LISTING, "Leave out --orders or the prompts")
    elif not has_choices(definition):
        yield Fault("--orders", f"{named} has no choices", _LISTING, "Leave out --orders or the task")
    elif definition.style is None:
        yield Fault("--orders", f"{named} uses its own prompt, whose choices cannot be reordered", _LISTING, advice)
    elif definition.rotates:
        found = f"{named} already uses all rotations of its choices"
        yield Fault("--orders", found, "one of the two", "Leave out --orders or the rotations")
    elif placed := [spec.name for spec in definition.scoring.metrics if spec.name in _BY_PLACE]:
        found = f"{named} has the metric {placed[0]}, which knows choices by their place in the row"
        yield Fault("--orders", found, "other metrics", "Name them with --metrics acc, or leave out --orders")
    elif not find_style(definition.style).shows_options:
        yield Fault("--orders", f"{named} uses the style {definition.style}, which lists no choices", _LISTING)


def _draw_faults(definition: TaskDefinition, options: TaskOptions, named: str) -> Iterator[Fault]:
    if definition.output_type != _GENERATED:
        found = f"{named} scores likelihoods, which are the same in every draw"
        yield Fault("--draws", found, "a generation task", "Leave out --draws or the task")
        return
    own = effective_settings(definition.generation, options.generation, definition.rendering.delimiters.example)
    where = definition.file.where("generation_kwargs")
    if generation_settings(own, options.sampling_seed, where).sampling.is_greedy:
        found = f"{named} is decoded greedily, so all draws are equal"
        yield Fault("--draws", found, "a temperature above 0", "Add --gen_kwargs temperature=0.8,do_sample=true")
