"""Loose settings of a run, in the command line's names: how they become a specification, and several models rows.

The commands and the functions of `assay.api` share them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from assay.core.annotations import Plain
from assay.core.arguments import LONGEST_IN_NAME, parse_arguments
from assay.core.call_checks import checked
from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.protocols import Model
from assay.core.secrets import redacted_text
from assay.core.specs import (
    ChatSpec,
    ModelSettings,
    RunSpec,
    Seeds,
    SubsamplingOptions,
    TaskOptions,
    TextOptions,
    VariationAxes,
)
from assay.core.training import FINETUNE, FIT_KEYS, FitSpec, parse_fit_spec
from assay.models.inference.batching import read_batch_size
from assay.models.loading.arguments import ENGINES
from assay.models.registry import resolve_model
from assay.report.safe_names import model_name
from assay.tasks.corpora import resolve_windows
from assay.tasks.fewshot import sampler_fault
from assay.tasks.lm_eval.build.generation_settings import LENGTH_NAMES
from assay.tasks.lm_eval.variants.prompt_variants import ALL_PROMPTS
from assay.tasks.profiles.parse import find_profile
from assay.tasks.scoring_overrides import scoring_changes
from assay.tasks.styles import OWN, find_style

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from assay.run.many import CheckpointStep


# More than a run can want; a larger number was meant as a seed.
_MOST_SEEDS = 100
# Every answer is asked for so often: a larger number was hardly meant.
_MOST_DRAWS = 1000


class Settings(TypedDict, total=False):
    """Settings of a run, in the command line's names."""

    model_args: str | Sequence[str] | Mapping[str, Plain] | None
    num_fewshot: int | None
    fewshot_sampler: str | None
    limit: float | None
    samples: Mapping[str, Sequence[int]] | None
    sample: float | None
    sample_seed: int | None
    until_se: float | None
    until_decided: str | None
    reference: str | None
    cluster: str | None
    include_path: str | Path | Sequence[str | Path] | None
    batch_size: int | str | None
    device: str | None
    engine: str
    apply_chat_template: bool | str
    system_instruction: str | None
    fewshot_as_multiturn: bool | None
    gen_kwargs: str | Sequence[str] | Mapping[str, Plain] | None
    seed: int | str | Sequence[int | None] | None
    seeds: Seeds | None
    predict_only: bool
    bootstrap_iters: int
    allow_code: bool | str | Sequence[str]
    confirm_run_unsafe_code: bool
    metadata: str | Sequence[str] | Mapping[str, Plain] | None
    like: str | None
    style: str | None
    rotations: bool
    metrics: str | Sequence[str] | None
    scoring: str | Path | Mapping[str, Any] | None
    prompts: str | Path | None
    fewshot_seeds: int | Sequence[int] | None
    orders: int | None
    draws: int | None
    original_task: bool
    window: int | None
    stride: int | None
    text_column: str
    domain_column: str | None
    finetune: Mapping[str, Any] | None
    finetune_together: bool


# Keywords that people try, of lm-eval's `simple_evaluate` or of generation → where they belong.
_GENERATION = "Settings of generation go into gen_kwargs, such as gen_kwargs={{{!r}: …}}"
_LOADING = "Settings of the model go into model_args, such as model_args={{{!r}: …}}"
_TRAINING = "Settings of training go into fit={{{0!r}: …}} of finetune(), or finetune={{{0!r}: …}} of evaluate()"
_ELSEWHERE = {
    **{
        name: _GENERATION.format(name)
        for name in ("temperature", "top_p", "top_k", "do_sample", "until", *LENGTH_NAMES)
    },
    **{name: _LOADING.format(name) for name in ("pretrained", "dtype", "revision", "tokenizer", "peft", "token")},
    **dict.fromkeys(("random_seed", "numpy_random_seed", "torch_random_seed"), "Say seed=1234"),
    **{name: _TRAINING.format(name) for name in FIT_KEYS if name != FINETUNE},
    "fewshot_random_seed": 'Say seed="0,1234,1234,1234": the last of the four is that of few-shot examples',
    "write_out": "See: assay.show_document",
    "use_cache": "Answers are always kept: see store",
    "task_manager": "Say include_path=DIR",
}
# Settings of generation that models commonly take; a model may have others.
_GENERATION_NAMES = (
    *("until", "temperature", "do_sample", "top_p", "top_k", "min_p", "typical_p", "num_beams", "repetition_penalty"),
    *("length_penalty", "no_repeat_ngram_size", "early_stopping", "max_length", "min_length", *LENGTH_NAMES),
    *("min_new_tokens", "penalty_alpha", "bad_words_ids", "num_return_sequences", "num_beam_groups"),
)
_TYPO_SIMILARITY = 0.85  # "temprature" is as near as 0.95 to its name, "top_n" to "top_p" 0.80
# Settings that people mistake → what to do next.
_ADVICE = {
    "metrics": (
        'See: assay ls metrics. A function of your own is assay.MetricSpec("mine", function=…, aggregation="mean") '
        "among the metrics of @assay.task"
    ),
    "seeds": "For one seed say seed=1234; to vary that of few-shot examples, fewshot_seeds=[1, 2, 3]",
    "finetune": 'Say finetune={"finetune": "full"}, or another method',
}
# Has calls of a function checked whose further keywords are the settings of a run.
with_settings = checked(Settings, _ELSEWHERE, _ADVICE)


def _generation(settings: Settings) -> dict[str, Any]:
    """Settings of generation; a name that is nearly a known one would fail every request, so it is refused now."""
    given = parse_arguments(settings.get("gen_kwargs"), "--gen_kwargs")
    unknown = [name for name in given if name not in _GENERATION_NAMES]
    typos = [name for name in unknown if get_close_matches(name, _GENERATION_NAMES, cutoff=_TYPO_SIMILARITY)]
    if typos:
        raise UserError(
            *(
                Fault("--gen_kwargs", f'unknown setting "{name}"{did_you_mean(name, _GENERATION_NAMES)}')
                for name in typos
            )
        )
    return given


@checked()
def parse_seeds(given: int | str | Sequence[int | None] | None) -> Seeds:
    """lm-eval's rule: one value for all four, three (few-shot stays 1234), or four; None leaves one open."""
    if given is None:
        return Seeds()
    if isinstance(given, str):
        parts = [part.strip() for part in given.split(",")]
        try:
            values = [None if part.lower() == "none" else int(part) for part in parts]
        except ValueError as error:
            raise UserError(Fault("--seed", f'is "{given}"', "1, 3 or 4 whole numbers with commas, or None")) from error
    else:
        values = [given] if isinstance(given, int) else list(given)
    if len(values) == 1:
        values *= 4
    if len(values) == 3:
        values.append(1234)
    if len(values) != 4:
        raise UserError(Fault("--seed", f"has {len(values)} values", "1, 3 or 4"))
    return Seeds(*values)


def _seeds(settings: Settings) -> Seeds:
    one, all_four = settings.get("seed"), settings.get("seeds")
    if one is not None and all_four is not None:
        raise UserError(Fault("--seed", "is given twice, as seed and as seeds", "one of the two"))
    return all_four or parse_seeds(one)


@with_settings
def make_spec(model: str, tasks: str | Sequence[str], **settings: Unpack[Settings]) -> RunSpec:
    """A run specification from loose settings; every wrong one is an error that says so."""
    tasks = [tasks] if isinstance(tasks, str) else tasks
    seeds = _seeds(settings)
    limit = settings.get("limit")
    samples = settings.get("samples")
    _check_numbers(settings)
    sparing = _subsampling_options(settings)
    chosen = None if samples is None else {name: tuple(places) for name, places in samples.items()}
    model_args = parse_arguments(settings.get("model_args"), "--model_args")
    options = TaskOptions(
        num_fewshot=settings.get("num_fewshot"),
        fewshot_seed=seeds.fewshot,
        sampling_seed=seeds.sampling,
        chat=_chat(settings),
        generation=_generation(settings),
        predict_only=settings.get("predict_only", False),
        metadata={**model_args, **parse_arguments(settings.get("metadata"), "--metadata")},
        python_seed=seeds.python,
        numpy_seed=seeds.numpy,
        confirm_unsafe=settings.get("confirm_run_unsafe_code", False),
        like=_like(settings.get("like")),
        samples=chosen,
        style=_style(settings.get("style"), settings.get("rotations", False)),
        scoring=scoring_changes(settings.get("metrics"), settings.get("scoring")),
        prompts=_prompts(settings.get("prompts")),
        original_task=settings.get("original_task", False),
        texts=_texts(settings),
        fewshot_sampler=_sampler(settings.get("fewshot_sampler")),
        axes=_axes(settings, seeds),
    )
    include = settings.get("include_path") or ()
    folders = [include] if isinstance(include, (str, Path)) else include
    return RunSpec(
        model=model,
        tasks=tuple(tasks),
        model_args=model_args,
        include_path=tuple(str(folder) for folder in folders),
        limit=limit,
        samples=chosen,
        options=options,
        settings=_model_settings(settings),
        seeds=seeds,
        bootstrap_iters=settings.get("bootstrap_iters", 100_000),
        allow_code=_allowed(settings.get("allow_code", False)),
        cluster=settings.get("cluster"),
        sparing=sparing,
    )


def _texts(settings: Settings) -> TextOptions:
    given = TextOptions(
        window=settings.get("window"),
        stride=settings.get("stride"),
        text_column=settings.get("text_column", "text"),
        domain_column=settings.get("domain_column"),
    )
    resolve_windows(given)  # a wrong one is an error before anything is read
    return given


def _model_settings(settings: Settings) -> ModelSettings:
    engine = settings.get("engine", "auto")
    if engine not in ENGINES:
        found = f'no engine "{engine}"{did_you_mean(engine, ENGINES)}'
        raise UserError(Fault("--engine", found, "one of " + ", ".join(ENGINES)))
    size = settings.get("batch_size")
    read_batch_size("auto" if size is None else str(size))  # a wrong one is an error before anything is read
    return ModelSettings("auto" if size is None else str(size), settings.get("device"), engine)


def _like(tool: str | None) -> str | None:
    """The profile of a run: the tool's name, or the whole path of the user's own, so that it is found again."""
    if tool is None:
        return None
    profile = find_profile(tool)
    return str(profile.file.path.resolve()) if tool.endswith((".yaml", ".yml")) else profile.name


def _style(style: str | None, rotates: bool) -> str | None:
    """The prompt style of a run; a wrong one is an error before anything is read."""
    if style in (None, OWN):
        if rotates:
            found, expected = "a task's own prompt cannot be turned", "a style that lists the choices: --style letters"
            raise UserError(Fault("--rotations", found, expected, "For one task of several write TASK@letters:rotated"))
        return style
    found_style = find_style(str(style))
    return find_style(f"{style}:rotated").name if rotates and not found_style.rotates else found_style.name


def _sampler(name: str | None) -> str | None:
    """The few-shot sampler of a run; a wrong one is an error before anything is read."""
    fault = sampler_fault(name, "--fewshot_sampler") if name is not None else None
    if fault is not None:
        raise UserError(fault)
    return name


def _prompts(place: str | Path | None) -> str | None:
    """The whole path of the templates of a run, so that they are found again."""
    if place in (None, ALL_PROMPTS):
        return ALL_PROMPTS if place else None
    found = Path(str(place)).expanduser()
    if not found.exists():
        raise UserError(
            Fault("--prompts", f'no file or folder "{found}"', "a templates.yaml, a folder of such, or all")
        )
    return str(found.resolve())


def _axes(settings: Settings, seeds: Seeds) -> VariationAxes:
    """What a run varies. So many seeds are those from the run's own upwards."""
    given, orders, draws = settings.get("fewshot_seeds"), settings.get("orders"), settings.get("draws")
    listed = () if given is None else given
    if isinstance(listed, int):
        if seeds.fewshot is None:
            raise UserError(Fault("--seeds", "the run's own few-shot seed is None", "a number, or a list of seeds"))
        if listed > _MOST_SEEDS:
            advice = (
                f"Say --seed {listed} for one run with that seed, --seeds {listed},{listed + 1} for runs with these"
            )
            raise UserError(Fault("--seeds", f"asks for {listed:,} seeds", f"2 to {_MOST_SEEDS}, or a list", advice))
        listed = range(seeds.fewshot, seeds.fewshot + listed)
    faults = [] if given is None or len(listed) > 1 else [Fault("--seeds", f"is {given}", "2 seeds or more")]
    if len(set(listed)) < len(listed):
        faults.append(Fault("--seeds", f"names a seed twice: {', '.join(map(str, listed))}", "different seeds"))
    for flag, count in (("--orders", orders), ("--draws", draws)):
        if count is not None and count < 2:
            faults.append(Fault(flag, f"is {count}", "2 or more"))
    if draws is not None and draws > _MOST_DRAWS:
        faults.append(Fault("--draws", f"asks for {draws:,} draws", f"2 to {_MOST_DRAWS:,}"))
    if faults:
        raise UserError(*faults)
    return VariationAxes(tuple(listed), orders or 1, draws)


def _allowed(allowed: bool | Sequence[str]) -> bool | tuple[str, ...]:
    if isinstance(allowed, str):
        return (allowed,)
    return allowed if isinstance(allowed, bool) else tuple(allowed)


def _check_numbers(settings: Settings) -> None:
    limit, shots, iterations = settings.get("limit"), settings.get("num_fewshot"), settings.get("bootstrap_iters", 0)
    faults = []
    if limit is not None and not (0 < limit < 1 or (1 <= limit < math.inf and limit % 1 == 0)):
        faults.append(
            Fault("--limit", f"is {limit}", "a count of 1 or more, without a fraction, or a share between 0 and 1")
        )
    if shots is not None and shots < 0:
        faults.append(Fault("--num_fewshot", f"is {shots}", "0 or more"))
    if iterations < 0:
        faults.append(Fault("--bootstrap_iters", f"is {iterations}", "0 or more"))
    samples = settings.get("samples")
    if samples is not None and not (samples and all(len(places) for places in samples.values())):
        faults.append(Fault("--samples", "names no documents", '{"task": [0, 5]}'))
    if limit is not None and samples is not None:
        faults.append(Fault("--limit", "is given together with --samples", "one of the two"))
    if faults:
        raise UserError(*faults)


def _subsampling_options(settings: Settings) -> SubsamplingOptions:
    """Samples and rules of stopping; what does not go together is an error before anything is read."""
    seed = settings.get("sample_seed")
    given = SubsamplingOptions(
        settings.get("sample"),
        SubsamplingOptions().seed if seed is None else seed,
        settings.get("until_se"),
        settings.get("until_decided"),
        settings.get("reference"),
    )
    faults = []
    if given.sample is not None and not (0 < given.sample < 1 or (given.sample >= 1 and given.sample % 1 == 0)):
        found = f"is {given.sample:g}"
        faults.append(Fault("--sample", found, "a whole number of 1 or more, or a share between 0 and 1"))
    if given.until_se is not None and not 0 < given.until_se < 1:
        faults.append(Fault("--until_se", f"is {given.until_se:g}", "a standard error between 0 and 1, such as 0.01"))
    if seed is not None and given.sample is None and not given.may_stop_early:
        faults.append(
            Fault("--sample_seed", "is given without what it seeds", "--sample, --until_se or --until_decided")
        )
    for name in ("limit", "samples"):
        if given.sample is not None and settings.get(name) is not None:
            faults.append(Fault("--sample", f"is given together with --{name}", "one of the two"))
    if given.may_stop_early and settings.get("samples") is not None:
        faults.append(Fault("--samples", "names documents, and a run that stops early draws them", "one of the two"))
    if given.until_se is not None and given.until_decided is not None:
        faults.append(Fault("--until_se", "is given together with --until_decided", "one of the two"))
    if given.reference is not None and (given.sample is None or given.may_stop_early):
        found = "helps where a fixed random sample is asked, and its interval would not hold after stopping"
        faults.append(Fault("--reference", found, "--sample N, without --until_se and --until_decided"))
    if faults:
        raise UserError(*faults)
    return given


def _chat(settings: Settings) -> ChatSpec:
    apply = settings.get("apply_chat_template", False)
    multiturn = settings.get("fewshot_as_multiturn")
    if multiturn and not apply:
        raise UserError(Fault("--fewshot_as_multiturn", "needs --apply_chat_template", next="Add the flag"))
    return ChatSpec(
        apply=bool(apply),
        template=apply if isinstance(apply, str) else None,
        system=settings.get("system_instruction"),
        multiturn=True if multiturn is None else multiturn,
    )


def fit_spec_of(settings: Settings) -> FitSpec | None:
    """How a run trains its model first; None for as it is."""
    wanted = settings.get("finetune")
    return None if wanted is None else parse_fit_spec(wanted, "")


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One of several models: a label that tells it apart, its name, its settings, and what else is known of it.

    Attributes:
        model: the model itself where one was given.
        step: its place in a training run.
    """

    label: str
    name: str
    settings: Settings
    model: Model | None = None
    step: CheckpointStep | None = None

    @property
    def fit(self) -> FitSpec | None:
        """How the model is trained before it is asked; None for as it is."""
        return fit_spec_of(self.settings)


def model_rows(models: str | Model | Sequence[str | Model], settings: Settings) -> list[ModelRow]:
    """Every model that is meant, in order: `name`, `name:setting=value`, `name:setting=one|other`, patterns of folders.

    Args:
        models: texts or models.
        settings: those of all; `model_args` are for models without settings of their own.
    """
    from assay.run.many import model_variants

    found: list[ModelRow] = []
    for item in [models] if isinstance(models, str) or not isinstance(models, Sequence) else models:
        if isinstance(item, str) and not item.strip():
            continue
        if not isinstance(item, str):
            name = item.fingerprint.name
            plain = cast(Settings, {**settings, "finetune": _row_fit(name, {}, settings)})
            found.append(ModelRow(_label(name, {}, (), found), name, plain, item))
            continue
        for variant in model_variants(item):
            own = dict(settings)
            if variant.arguments is not None:
                own["model_args"] = variant.arguments
            if variant.num_fewshot is not None:
                own["num_fewshot"] = variant.num_fewshot
            own["finetune"] = _row_fit(variant.name, variant.fit or {}, settings)
            name, arguments = resolve_model(
                variant.name, parse_arguments(cast(Settings, own).get("model_args"), "--model_args")
            )
            if name != variant.name:
                own["model_args"] = arguments
            label = _label(name, arguments, variant.marks, found)
            found.append(ModelRow(label, name, cast(Settings, own), None, variant.step))
    if not found:
        raise UserError(Fault("--models", "names no model", next="See: assay ls models"))
    unused = [*(settings.get("finetune") or ()), *(["together"] if settings.get("finetune_together") else [])]
    if unused and all(row.fit is None for row in found):
        flags = ", ".join(f"--{name}" for name in unused)
        raise UserError(Fault(flags, "has no meaning without training", next=f"Add --{FINETUNE}"))
    return found


def _row_fit(name: str, own: Mapping[str, Any], settings: Settings) -> dict[str, Any] | None:
    """How one of several models is trained: its own settings over those of all. None for one that is not trained."""
    whole = {**(settings.get("finetune") or {}), **own}
    if FINETUNE not in whole:
        if not own:
            return None
        found = f"{', '.join(own)} is set, but the model is not trained"
        raise UserError(Fault(f"model {name}", found, next=f"Add {FINETUNE}=full, or another method"))
    parse_fit_spec(own, f"model {name}")  # a wrong one is told by the model's name
    return whole


def _label(name: str, arguments: Mapping[str, Any], marks: Sequence[str], others: Sequence[ModelRow]) -> str:
    """A short name; where another model has the same, its arguments are added, or else a number."""
    label = redacted_text("@".join((Path(model_name(name, arguments)).name, *marks)))
    taken = {other.label for other in others}
    if label in taken:
        arguments_text = ",".join(
            f"{key}={value}" for key, value in arguments.items() if key not in ("pretrained", "peft")
        )
        label = (
            "@".join((label, redacted_text(arguments_text)))
            if arguments_text and len(arguments_text) <= LONGEST_IN_NAME
            else label
        )
    same = sum(other == label or other.startswith(f"{label} (") for other in taken)
    return f"{label} ({same + 1})" if same else label
