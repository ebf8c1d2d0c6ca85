"""The framework from Python: evaluate, rescore, plan, look at a document. The command line calls the same functions.

from assay import evaluate
result = evaluate("smollm2", "demo_questions", limit=20)
print(result.task("demo_questions").metric("acc").estimate)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Union, cast

from assay.core.arguments import parse_arguments
from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.fitting import FINETUNE, FitSpec, read_fit
from assay.core.protocols import Model, Task
from assay.core.results import RunResult
from assay.core.specs import LM_EVAL, ChatSpec, ModelSettings, RunSpec, Seeds, TaskOptions, TextOptions
from assay.models.causal_arguments import ENGINES
from assay.report.files import check_output_path, write_results
from assay.report.names import model_name
from assay.run.events import Listener, ignore
from assay.run.forecast import PlanReport, forecast
from assay.run.session import Session, run
from assay.run.showing import ShownDocument, show_documents
from assay.store.store import Store, default_path
from assay.tasks.changes import scoring_changes
from assay.tasks.corpora import asked_windows
from assay.tasks.fewshot import sampler_fault
from assay.tasks.profiles.reading import find_profile
from assay.tasks.styles import OWN, find_style

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from assay.core.explanations import Explanation
    from assay.core.matrices import Matrix, Step
    from assay.core.studies import Study
    from assay.run.methods import Subject, Wish
    from assay.store.fitted import FittedModel

Tasks = Union[str, Task, Sequence[Union[str, Task]]]


class Settings(TypedDict, total=False):
    """Settings of a run, in the command line's names."""

    model_args: str | Mapping[str, Any] | None
    num_fewshot: int | None
    fewshot_sampler: str | None
    limit: float | None
    samples: Mapping[str, Sequence[int]] | None
    include_path: str | Path | Sequence[str | Path] | None
    batch_size: int | str
    device: str | None
    engine: str
    apply_chat_template: bool | str
    system_instruction: str | None
    fewshot_as_multiturn: bool | None
    gen_kwargs: str | Mapping[str, Any] | None
    seeds: Seeds
    predict_only: bool
    bootstrap_iters: int
    allow_code: bool | Sequence[str]
    confirm_run_unsafe_code: bool
    metadata: str | Mapping[str, Any] | None
    like: str | None
    style: str | None
    rotations: bool
    metrics: str | Sequence[str] | None
    scoring: str | Path | Mapping[str, Any] | None
    prompts: str | Path | None
    original_task: bool
    window: int | None
    stride: int | None
    text_column: str
    domain_column: str | None
    finetune: Mapping[str, Any] | None
    finetune_together: bool


def make_spec(model: str, tasks: Sequence[str], **settings: Unpack[Settings]) -> RunSpec:
    """A run specification from loose settings; every wrong one is an error that says so."""
    seeds = settings.get("seeds") or Seeds()
    limit = settings.get("limit")
    samples = settings.get("samples")
    _check_numbers(limit, settings.get("num_fewshot"), samples)
    chosen = None if samples is None else {name: tuple(places) for name, places in samples.items()}
    model_args = parse_arguments(settings.get("model_args"), "--model_args")
    options = TaskOptions(
        num_fewshot=settings.get("num_fewshot"),
        fewshot_seed=seeds.fewshot,
        sampling_seed=seeds.sampling,
        chat=_chat(settings),
        generation=parse_arguments(settings.get("gen_kwargs"), "--gen_kwargs"),
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
    )


def _texts(settings: Settings) -> TextOptions:
    given = TextOptions(
        window=settings.get("window"),
        stride=settings.get("stride"),
        text_column=settings.get("text_column", "text"),
        domain_column=settings.get("domain_column"),
    )
    asked_windows(given)  # a wrong one is an error before anything is read
    return given


def _model_settings(settings: Settings) -> ModelSettings:
    engine = settings.get("engine", "auto")
    if engine not in ENGINES:
        found = f'no engine "{engine}"{did_you_mean(engine, ENGINES)}'
        raise UserError(Fault("--engine", found, "one of " + ", ".join(ENGINES)))
    return ModelSettings(str(settings.get("batch_size", "auto")), settings.get("device"), engine)


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
    if place is None:
        return None
    found = Path(place).expanduser()
    if not found.exists():
        raise UserError(Fault("--prompts", f'no file or folder "{found}"', "a templates.yaml, or a folder of such"))
    return str(found.resolve())


def _allowed(allowed: bool | Sequence[str]) -> bool | tuple[str, ...]:
    if isinstance(allowed, str):
        return (allowed,)
    return allowed if isinstance(allowed, bool) else tuple(allowed)


def _check_numbers(limit: float | None, num_fewshot: int | None, samples: Any) -> None:
    faults = []
    if limit is not None and not 0 < limit < math.inf:
        faults.append(Fault("--limit", f"is {limit}", "a count of 1 or more, or a share between 0 and 1"))
    if num_fewshot is not None and num_fewshot < 0:
        faults.append(Fault("--num_fewshot", f"is {num_fewshot}", "0 or more"))
    if limit is not None and samples is not None:
        faults.append(Fault("--limit", "is given together with --samples", "one of the two"))
    if faults:
        raise UserError(*faults)


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


def _split_tasks(tasks: Tasks) -> list[str | Task]:
    if isinstance(tasks, str):
        return [name.strip() for name in tasks.split(",") if name.strip()]
    return [tasks] if isinstance(tasks, Task) else list(tasks)


def _specified(model: str | Model, wanted: Sequence[str | Task], settings: Settings) -> RunSpec:
    names = [item if isinstance(item, str) else item.card.name for item in wanted]
    return make_spec(model if isinstance(model, str) else model.fingerprint.name, names, **settings)


def evaluate(
    model: str | Model,
    tasks: Tasks,
    *,
    store: str | Path | None = None,
    output_path: str | Path | None = None,
    log_samples: bool = False,
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> RunResult:
    """Evaluates a model on tasks.

    What the store already knows is not asked again, so an interrupted call is continued by repeating it.

    Args:
        model: name in the model table, or any object that satisfies the `Model` protocol.
        tasks: names (also wildcards, groups, tags, files), task objects, or a list of either.
        store: the store's file; the user's own when None; `:memory:` for none.
        output_path: folder for result files; none are written when None.
        log_samples: whether to write every document's answers too.
        listener: is told what happens.
        **settings: as on the command line, see `Settings`.
    """
    wanted = _split_tasks(tasks)
    spec = _specified(model, wanted, settings)
    if output_path is not None:
        check_output_path(output_path)
    wish = _fit_wish(settings)
    with Store(store if store is not None else default_path()) as opened:
        session, given = Session(spec, opened, listener), None if isinstance(model, str) else model
        if wish is not None:
            from assay.run.fit import fit  # most calls have no use for it

            fitted = fit(session, wish, wanted, given)
            session, given = Session(replace(spec, model=fitted.name, model_args={}), opened, listener), None
        result = run(session, wanted, given)
    if output_path is not None:
        write_results(result, output_path, log_samples or spec.options.predict_only)
    return result


def _fit_wish(settings: Settings) -> FitSpec | None:
    wanted = settings.get("finetune")
    return None if wanted is None else read_fit(wanted, "")


def finetune(
    model: str | Model,
    tasks: Tasks,
    *,
    fit: Mapping[str, Any] | None = None,
    name: str | None = None,
    folder: str | Path | None = None,
    store: str | Path | None = None,
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> FittedModel:
    """Trains a model on the training documents of tasks; the result is a new model that `--model NAME` opens.

    Repeating an interrupted call goes on from its last checkpoint; one that is done returns at once.

    Args:
        model: name in the model table, or of a model trained here; or an object that satisfies `Trainable`.
        tasks: names (also wildcards, groups, tags, files), task objects, or a list of either.
        fit: settings of training, by the names of the command line: `finetune` (the method), `epochs`, ….
        name: what the new model is called; made from its parent and tasks when None.
        folder: where it goes; a folder `models` beside the store when None.
        store: the store's file; the user's own when None.
        listener: is told what happens.
        **settings: as on the command line, see `Settings`.
    """
    from assay.run.fit import Place
    from assay.run.fit import fit as fit_model

    wanted = _split_tasks(tasks)
    wish = read_fit(fit or {}, "")
    place = Place(name, None if folder is None else Path(folder).expanduser().absolute())
    with Store(store if store is not None else default_path()) as opened:
        session = Session(_specified(model, wanted, settings), opened, listener)
        return fit_model(session, wish, wanted, None if isinstance(model, str) else model, place)


def study_methods(
    models: str | Model | Sequence[str | Model],
    tasks: Tasks,
    *,
    styles: Sequence[str] = (),
    methods: Sequence[str] = ("all",),
    phrase: str = "Answer:",
    store: str | Path | None = None,
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> Study:
    """Every way of picking an answer on the same answers, side by side.

    Args:
        models: names in the model table, each also with its settings (`hf:pretrained=DIR,dtype=float32`), or models.
        tasks: multiple-choice tasks and groups: names (also files), task objects, or a list of either.
        styles: prompt styles to compare; the tasks' own when empty.
        methods: names of methods, or `all`.
        phrase: the prompt without question of `mutual-phrase`.
        store: the store's file; the user's own when None; `:memory:` for none.
        listener: is told what happens.
        **settings: as on the command line, see `Settings`; `model_args` are for models without settings of their own.
    """
    from assay.run import methods as studies  # most calls have no use for it

    _check_study(settings)
    given = _split_tasks(tasks)
    chat = bool(settings.get("apply_chat_template"))
    wish = studies.wished(styles, methods, phrase, settings.get("rotations", False), chat)
    plain = cast(Settings, {key: value for key, value in settings.items() if key not in ("rotations", "style")})
    subjects = _subjects(models, given, wish, plain)
    with Store(store if store is not None else default_path()) as opened:
        return studies.study_methods(subjects, given, wish, opened, listener)


def _check_study(settings: Settings) -> None:
    """Refuses settings that a study decides itself."""
    advice = {
        "style": "Name the styles to compare with --styles",
        "metrics": "Name the methods to compare with --methods",
        "scoring": "Name the methods to compare with --methods",
        "prompts": "See: assay run --prompts",
    }
    faults = [
        Fault(f"--{name}", "has no meaning in a study of methods", next=text)
        for name, text in advice.items()
        if settings.get(name)
    ]
    if settings.get("like") not in (None, LM_EVAL):
        faults.append(Fault("--like", "a profile has one style and method", next="See: assay run --like"))
    if faults:
        raise UserError(*faults)


def _subjects(
    models: str | Model | Sequence[str | Model], tasks: Sequence[str | Task], wish: Wish, settings: Settings
) -> list[Subject]:
    """The models of a study under names that tell them apart."""
    from assay.run.methods import Subject, with_wish

    rows = model_rows(models, settings)
    specs = [with_wish(make_spec(row.name, (), **row.settings), tasks, wish) for row in rows]
    return [Subject(row.label, spec, row.model) for row, spec in zip(rows, specs, strict=True)]


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
    step: Step | None = None

    @property
    def fit(self) -> FitSpec | None:
        """How the model is trained before it is asked; None for as it is."""
        return _fit_wish(self.settings)


def model_rows(models: str | Model | Sequence[str | Model], settings: Settings) -> list[ModelRow]:
    """Every model that is meant, in order: `name`, `name:setting=value`, `name:setting=one|other`, patterns of folders.

    Args:
        models: texts or models.
        settings: those of all; `model_args` are for models without settings of their own.
    """
    from assay.run.axis import choices

    found: list[ModelRow] = []
    for item in [models] if isinstance(models, str) or not isinstance(models, Sequence) else models:
        if not isinstance(item, str):
            name = item.fingerprint.name
            plain = cast(Settings, {**settings, "finetune": _row_fit(name, {}, settings)})
            found.append(ModelRow(_label(name, {}, (), found), name, plain, item))
            continue
        for choice in choices(item):
            own = dict(settings)
            if choice.arguments is not None:
                own["model_args"] = choice.arguments
            if choice.num_fewshot is not None:
                own["num_fewshot"] = choice.num_fewshot
            own["finetune"] = _row_fit(choice.name, choice.fit or {}, settings)
            arguments = parse_arguments(cast(Settings, own).get("model_args"), "--model_args")
            label = _label(choice.name, arguments, choice.marks, found)
            found.append(ModelRow(label, choice.name, cast(Settings, own), None, choice.step))
    unused = settings.get("finetune")
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
    read_fit(own, f"model {name}")  # a wrong one is told by the model's name
    return whole


def _label(name: str, arguments: Mapping[str, Any], marks: Sequence[str], others: Sequence[ModelRow]) -> str:
    """A short name; a number is added where another model has the same."""
    label = "@".join((Path(model_name(name, arguments)).name, *marks))
    same = sum(other.label.partition(" (")[0] == label for other in others)
    return f"{label} ({same + 1})" if same else label


def evaluate_matrix(
    models: str | Model | Sequence[str | Model],
    tasks: Tasks,
    *,
    metric: str | Sequence[str] = (),
    store: str | Path | None = None,
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> Matrix:
    """Every model on every task: scores, improvement over chance, win rates, shared ranks, correlations.

    Only answers that the store lacks are asked for, so an interrupted call is continued by repeating it.

    Args:
        models: as in `study_methods`; one text may stand for several models, see `model_rows`.
        tasks: names (also wildcards, groups, tags, files), task objects, or a list of either.
        metric: what to show of each task: the first of these that it reports; else the first of its own list.
        store: the store's file; the user's own when None; `:memory:` for none.
        listener: is told what happens.
        **settings: as on the command line, see `Settings`; `model_args` are for models without settings of their own.
    """
    from assay.run.matrix import fill_matrix
    from assay.run.methods import Subject

    wanted = _split_tasks(tasks)
    names = [item if isinstance(item, str) else item.card.name for item in wanted]
    rows = model_rows(models, settings)
    together = settings.get("finetune_together", False)
    subjects = [
        Subject(row.label, make_spec(row.name, names, **row.settings), row.model, row.step, row.fit, together)
        for row in rows
    ]
    if not subjects:
        raise UserError(Fault("--models", "names no model", next="See: assay ls models"))
    with Store(store if store is not None else default_path()) as opened:
        return fill_matrix(subjects, wanted, [metric] if isinstance(metric, str) else metric, opened, listener)


def rescore(
    run: str,
    *,
    metrics: str | Sequence[str] | None = None,
    scoring: str | Path | Mapping[str, Any] | None = None,
    complete: bool = False,
    tasks: Tasks = (),
    model: Model | None = None,
    model_args: str | Mapping[str, Any] | None = None,
    bootstrap_iters: int | None = None,
    store: str | Path | None = None,
    output_path: str | Path | None = None,
    log_samples: bool = False,
    listener: Listener = ignore,
) -> RunResult:
    """Scores the answers of a recorded run another way, as a new run that names its parent. No model is loaded.

    Args:
        run: the run's name, the start of it, or `last`.
        metrics: metrics to report, as in `evaluate`; a plus before the first keeps those of the run.
        scoring: a YAML file with `metric_list` and `filter_list`, or the same as a mapping.
        complete: whether the run's model is opened and asked for answers that are missing; they are an error otherwise.
        tasks: the task objects of a run of such.
        model: the model object of a run of such, for `complete`.
        model_args: settings of the model that take the place of recorded ones; secrets are not recorded.
        bootstrap_iters: resamples for lm-eval's standard errors; as many as the run had when None.
        store: the store that holds the run.
        output_path: folder for result files; none are written when None.
        log_samples: whether to write every document's answers too.
        listener: is told what happens.
    """
    from assay.run import rescore as rescoring

    changes = scoring_changes(metrics, scoring)
    arguments = parse_arguments(model_args, "--model_args")
    wanted = rescoring.Rescoring(changes, complete, arguments, bootstrap_iters, _split_tasks(tasks), model)
    if output_path is not None:
        check_output_path(output_path)
    with Store(store if store is not None else default_path()) as opened:
        result = rescoring.rescore(opened, run, wanted, listener)
    if output_path is not None:
        write_results(result, output_path, log_samples)
    return result


def explain(
    first: str,
    second: str,
    *,
    tasks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    tokens: bool = False,
    store: str | Path | None = None,
    listener: Listener = ignore,
) -> Explanation:
    """Why the numbers of two recorded runs differ, task by task, with evidence.

    Args:
        first: a run's name, the start of it, or `last`, `last~1`, ….
        second: the other run.
        tasks: a task of the first and one of the second; every task that both have when None.
        metrics: a metric of each to compare; the first that each reports when None.
        tokens: whether the models' tokenizers are opened and tokens compared, too.
        store: the store that holds both.
        listener: is told what happens.
    """
    from assay.run.explain import explain as explain_runs

    named = None if tasks is None else (tasks[0], tasks[1])
    compared = None if metrics is None else (metrics[0], metrics[1])
    with Store(store if store is not None else default_path()) as opened:
        return explain_runs(opened, (first, second), listener, named, compared, tokens)


def plan_run(
    model: str | Model,
    tasks: Tasks,
    *,
    store: str | Path | None = None,
    listener: Listener = ignore,
    **settings: Unpack[Settings],
) -> PlanReport:
    """What a run would ask, without asking it. No weights are loaded."""
    wanted = _split_tasks(tasks)
    spec = _specified(model, wanted, settings)
    with Store(store if store is not None else default_path()) as opened:
        return forecast(Session(spec, opened, listener), wanted, None if isinstance(model, str) else model)


def show_document(
    task: str | Task, place: int = 0, model: str | Model | None = None, **settings: Unpack[Settings]
) -> list[ShownDocument]:
    """The document at a place of a task (of every task, for a group), posed and, with a model, tokenised."""
    wanted = _split_tasks(task)
    spec = _specified(model if model is not None else "none", wanted, settings)
    return show_documents(spec, wanted, place, model)
