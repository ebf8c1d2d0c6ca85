"""The specification of a run from its settings; every invalid setting is an error before anything is read.

A row of the table names the field of `RunSpec` that it fills; fields that depend on several settings are computed here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from assay.core.arguments import parse_arguments
from assay.core.call_checks import checked
from assay.core.errors import ArgumentError, Fault, UserError, did_you_mean
from assay.core.protocols import Task
from assay.core.requests import LONGEST_WINDOWS
from assay.core.specs import LM_EVAL, ModelSettings, RunSpec, Seeds, SubsamplingOptions, VariationAxes
from assay.core.training import FINETUNE, FIT_KEYS, METHODS, FitSpec, parse_fit_spec
from assay.data.data_folder import data_folder
from assay.options.option import filled
from assay.options.table import Settings, setting_options
from assay.tasks.fewshot import sampler_fault
from assay.tasks.lm_eval.build.generation_settings import LENGTH_NAMES
from assay.tasks.lm_eval.variants.prompt_variants import ALL_PROMPTS
from assay.tasks.lm_eval.variants.scoring_overrides import scoring_changes
from assay.tasks.profiles.parse import find_profile
from assay.tasks.styles import OWN, find_style

if TYPE_CHECKING:
    from typing_extensions import Unpack

# The argument `tasks` of the public functions: names, paths, task objects, or a list of these.
Tasks = Union[str, Path, Task, Sequence[Union[str, Path, Task]]]
# A larger number of seeds was probably meant as a seed.
_MOST_SEEDS = 100
# A larger number of draws of every answer is a mistake.
_MOST_DRAWS = 1000


# Keywords of lm-eval's `simple_evaluate`, of generation or of training → where they belong.
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
    "fewshot_random_seed": 'Say seed="0,1234,1234,1234": the last of the four seeds the few-shot examples',
    "write_out": "See: assay.show_document",
    "use_cache": "Answers are always stored: see store",
    "task_manager": "Say include_path=DIR",
}
# Settings of generation that models commonly take; a model may have others.
_GENERATION_NAMES = (
    *("until", "temperature", "do_sample", "top_p", "top_k", "min_p", "typical_p", "num_beams", "repetition_penalty"),
    *("length_penalty", "no_repeat_ngram_size", "early_stopping", "max_length", "min_length", *LENGTH_NAMES),
    *("min_new_tokens", "penalty_alpha", "bad_words_ids", "num_return_sequences", "num_beam_groups"),
)
_TYPO_SIMILARITY = 0.85  # "temprature" has a similarity of 0.95 to "temperature", "top_n" one of 0.80 to "top_p"
# Settings that are often given wrongly → what to do next.
_ADVICE = {
    "metrics": (
        'See: assay ls metrics. A function of your own is assay.MetricSpec("mine", function=…, aggregation="mean") '
        "among the metrics of @assay.task"
    ),
    "seeds": "For one seed say seed=1234; to vary the few-shot seed, fewshot_seeds=[1, 2, 3]",
    "finetune": 'Say finetune="full", a YAML file, or {"finetune": "lora", "epochs": 2}',
}
# Decorator: checks the calls of a function whose further keywords are the settings of a run.
with_settings = checked(Settings, _ELSEWHERE, _ADVICE)


def _generation(settings: Settings) -> dict[str, Any]:
    """Settings of generation; a misspelled name would fail every request, so it is rejected here."""
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
    """lm-eval's rule: one value for all four, three (few-shot stays 1234), or four; None leaves a seed unset."""
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
    """A run specification from settings in the command line's names; every invalid one is an error that names it.

    Args:
        model: name in the model table.
        tasks: names of tasks.
        **settings: see `Settings`; None means the default.
    """
    _check_numbers(settings)
    _check_subsampling(settings)
    values = {"model": model, "tasks": (tasks,) if isinstance(tasks, str) else tuple(tasks)}
    spec: RunSpec = filled(RunSpec, {**values, **_plain_fields(settings), **_computed_fields(settings)})
    LONGEST_WINDOWS.changed(spec.options.texts.window, spec.options.texts.stride)  # raises if the stride is too long
    if spec.settings != ModelSettings():
        _check_model_settings(spec.settings)
    return spec


def _plain_fields(settings: Settings) -> dict[str, Any]:
    """Fields that take the value of one setting unchanged."""
    given = {name: value for name, value in settings.items() if value is not None}
    rows = setting_options()
    return {path: value for name, value in given.items() for path in rows[name].fields}


def _computed_fields(settings: Settings) -> dict[str, Any]:
    """Fields that depend on several settings, or whose value is converted."""
    seeds, samples, size = _seeds(settings), settings.get("samples"), settings.get("batch_size")
    chosen = None if samples is None else {name: tuple(indices) for name, indices in samples.items()}
    model_args = parse_arguments(settings.get("model_args"), "--model_args")
    style = _style(settings.get("style"), settings.get("rotations", False))
    options = {
        **_chat(settings),
        "fewshot_seed": seeds.fewshot,
        "sampling_seed": seeds.sampling,
        "python_seed": seeds.python,
        "numpy_seed": seeds.numpy,
        "generation": _generation(settings),
        "metadata": {**model_args, **parse_arguments(settings.get("metadata"), "--metadata")},
        "like": _like(settings.get("like")),
        "samples": chosen,
        "style": style,
        "scoring": _scoring(settings),
        "prompts": _prompts(settings.get("prompts")),
        "fewshot_sampler": _sampler(settings.get("fewshot_sampler")),
        "axes": _axes(settings, seeds),
        "data": data_folder(settings.get("data")),
    }
    return {
        "model_args": model_args,
        "include_path": _folders(settings.get("include_path")),
        "allow_code": _allowed(settings.get("allow_code", False)),
        "samples": chosen,
        "seeds": seeds,
        "settings.batch_size": "auto" if size is None else str(size),
        **{f"options.{name}": value for name, value in options.items()},
    }


def _folders(include: str | Path | Sequence[str | Path] | None) -> tuple[str, ...]:
    folders = [include] if isinstance(include, (str, Path)) else include or ()
    return tuple(str(folder) for folder in folders)


def _check_model_settings(settings: ModelSettings) -> None:
    from assay.models.inference.batching import read_batch_size  # most runs have the defaults
    from assay.models.loading.hf_arguments import ENGINES

    read_batch_size(settings.batch_size)
    if settings.engine not in ENGINES:
        found = f'no engine "{settings.engine}"{did_you_mean(settings.engine, ENGINES)}'
        raise UserError(Fault("--engine", found, "one of " + ", ".join(ENGINES)))


def _like(tool: str | None) -> str | None:
    """The profile of a run: the tool's name, or the absolute path of a user's file, so that it can be found again."""
    if tool is None:
        return None
    profile = find_profile(tool)
    return str(profile.file.path.resolve()) if tool.endswith((".yaml", ".yml")) else profile.name


def _style(style: str | None, rotates: bool) -> str | None:
    """The prompt style of a run; an invalid one is an error before anything is read."""
    if style in (None, OWN):
        if rotates:
            found, expected = "a task's own prompt cannot be turned", "a style that lists the choices: --style letters"
            raise UserError(Fault("--rotations", found, expected, "For one task of several write TASK@letters:rotated"))
        return style
    found_style = find_style(str(style))
    return find_style(f"{style}:rotated").name if rotates and not found_style.rotates else found_style.name


def _sampler(name: str | None) -> str | None:
    """The few-shot sampler of a run; an unknown one is an error before anything is read."""
    fault = sampler_fault(name, "--fewshot_sampler") if name is not None else None
    if fault is not None:
        raise UserError(fault)
    return name


def _scoring(settings: Settings) -> dict[str, Any]:
    """Scoring overrides of the run; empty if it names neither metrics nor a scoring file."""
    metrics, scoring = settings.get("metrics"), settings.get("scoring")
    return {} if metrics is None and scoring is None else scoring_changes(metrics, scoring)


def _prompts(place: str | Path | None) -> str | None:
    """The absolute path of the templates of a run, so that they can be found again."""
    if place in (None, ALL_PROMPTS):
        return ALL_PROMPTS if place else None
    found = Path(str(place)).expanduser()
    if not found.exists():
        raise UserError(
            Fault("--prompts", f'no file or folder "{found}"', "a templates.yaml, a folder of such, or all")
        )
    return str(found.resolve())


def _axes(settings: Settings, seeds: Seeds) -> VariationAxes:
    """What a run varies. A number of seeds means consecutive seeds from the run's own upwards."""
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
    budget, tokens = settings.get("budget"), settings.get("token_budget")
    if budget is not None and not 0 < budget < math.inf:
        faults.append(Fault("--budget", f"is {budget}", "dollars, more than 0"))
    if tokens is not None and tokens < 1:
        faults.append(Fault("--token_budget", f"is {tokens}", "1 or more"))
    samples = settings.get("samples")
    if samples is not None and not (samples and all(len(places) for places in samples.values())):
        faults.append(Fault("--samples", "names no documents", '{"task": [0, 5]}'))
    if limit is not None and samples is not None:
        faults.append(Fault("--limit", "is given together with --samples", "one of the two"))
    if faults:
        raise UserError(*faults)


def _check_subsampling(settings: Settings) -> None:
    """Rejects conflicting settings of random samples and early stopping."""
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
        found = "needs a fixed random sample, and its interval would not hold after stopping"
        faults.append(Fault("--reference", found, "--sample N, without --until_se and --until_decided"))
    if faults:
        raise UserError(*faults)


def _chat(settings: Settings) -> dict[str, Any]:
    """The fields of `ChatSpec` that depend on each other, by their paths."""
    apply = settings.get("apply_chat_template", False)
    multiturn = settings.get("fewshot_as_multiturn")
    if multiturn and not apply:
        raise UserError(Fault("--fewshot_as_multiturn", "needs --apply_chat_template", next="Add the flag"))
    return {
        "chat.apply": bool(apply),
        "chat.template": apply if isinstance(apply, str) else None,
        "chat.multiturn": True if multiturn is None else multiturn,
    }


def fit_spec_of(settings: Settings) -> FitSpec | None:
    """How a run trains its model before evaluation; None for no training."""
    wanted = training_settings(settings.get("finetune"))
    return None if wanted is None else parse_fit_spec(wanted, "")


def training_settings(
    given: str | Path | Mapping[str, Any] | None, flag: str = f"--{FINETUNE}"
) -> dict[str, Any] | None:
    """Settings of training by the names of `FIT_KEYS`: a method, a YAML file, or the settings themselves.

    Args:
        given: `lora`, `recipe.yaml`, or a mapping; None for no training.
        flag: the option that names a file, for errors.
    """
    if given is None or isinstance(given, Mapping):
        return None if given is None else dict(given)
    text = str(given)
    if not text.endswith((".yaml", ".yml")):
        if text not in METHODS:
            raise UserError(Fault(flag, f'is "{text}"', f"one of {', '.join(METHODS)}, or a YAML file"))
        return {FINETUNE: text}
    from assay.tasks.lm_eval.file.yaml_reader import read_task_file, references

    file = read_task_file(Path(text).expanduser())
    settings = {FINETUNE: METHODS[0], **{_name(key): value for key, value in file.data.items()}}
    code = [Fault(file.where(*path), f'"{word}" is code', "values only") for path, word in references(dict(file.data))]
    if code:
        raise UserError(*code)
    parse_fit_spec(settings, text)
    return settings


def _name(key: Any) -> str:
    """A key of a file as the name of a setting; `method` is what `assay finetune` calls the method."""
    name = str(key).replace("-", "_")
    return FINETUNE if name == "method" else name


def split_tasks(tasks: Tasks) -> list[str | Task]:
    """The tasks as a list: names, paths as names, and objects."""
    if isinstance(tasks, str):
        return [name.strip() for name in tasks.split(",") if name.strip()]
    given = tasks if isinstance(tasks, Sequence) else [tasks]
    return [str(item) if isinstance(item, Path) else item for item in given]


def names_and_objects(tasks: Tasks) -> tuple[list[str], list[Task]]:
    """Names and task objects, separately."""
    wanted = split_tasks(tasks)
    return [item for item in wanted if isinstance(item, str)], [item for item in wanted if not isinstance(item, str)]


def task_objects(tasks: Tasks, function: str) -> list[Task]:
    """The task objects of a recorded run; its other tasks are found by their names."""
    names, objects = names_and_objects(tasks)
    if names:
        advice = "Leave the names out: all tasks of the run are found by name"
        raise ArgumentError(Fault(f"{function}()", f"tasks names {', '.join(names)}", "task objects only", advice))
    return objects


def refuse_early_stopping(settings: Settings) -> None:
    """Rejects early stopping if models are compared on the same documents."""
    names = [name for name in ("until_se", "until_decided", "reference") if settings.get(name) is not None]
    if names:
        found = "does not work where several models are evaluated on the same documents"
        raise UserError(*(Fault(f"--{name}", found, "--sample N", "See: assay run") for name in names))


def refuse_methods_settings(settings: Settings) -> None:
    """Rejects settings that the study itself varies."""
    advice = {
        "style": "Name the styles to compare with --styles",
        "metrics": "Name the methods to compare with --methods",
        "scoring": "Name the methods to compare with --methods",
        "prompts": "See: assay run --prompts",
    }
    faults = [
        Fault(f"--{name}", "does not apply to a study of methods", next=text)
        for name, text in advice.items()
        if settings.get(name)
    ]
    if settings.get("like") not in (None, LM_EVAL):
        faults.append(Fault("--like", "a profile has one style and method", next="See: assay run --like"))
    if faults:
        raise UserError(*faults)
