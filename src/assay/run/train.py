"""Fine-tuning: training examples of tasks → `Trainable.fit` → a new model, with a name and a record in the store.

Parent, training examples and settings decide the weights and make up one key. A model with a known key is not trained
again; an interrupted training resumes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.core.errors import DataError, Fault, ModelError, UserError
from assay.core.identity import digest
from assay.core.protocols import Model, ProvidesTrainingExamples, ReportsNotices, Task, Trainable
from assay.core.results import RunResult
from assay.core.secrets import redacted_text
from assay.core.specs import ModelSettings
from assay.core.training import (
    ACCURACY,
    BALANCED,
    VALIDATION_METRIC_FOR,
    FitListener,
    FitProgress,
    FitSpec,
    TrainingExample,
    digest_training_examples,
    metric_unavailable_reason,
)
from assay.models.model_registry import full_arguments, open_model
from assay.run.events import Noticed, Trained
from assay.run.open_model import fitted_arguments, inherited_arguments, is_nameable, opened_model
from assay.run.resolve import check_data, check_scoring, resolve_tasks
from assay.run.session import Session, run
from assay.store.database import MEMORY
from assay.store.store import default_path
from assay.store.trained_models import FittedModel
from assay.tasks.catalog import open_catalog
from assay.tasks.selection import Wanted

# Part of every key: increased when the same examples and settings produce other weights.
_VERSION = 2
_TRAINING, _VALIDATION, _EVALUATED = "training", "validation", "evaluated"
# With fewer examples, none are held out: so few would be too noisy to select a checkpoint.
_FEWEST_TO_HOLD_OUT = 10


@dataclass(frozen=True, slots=True)
class ModelDestination:
    """Name and folder of a trained model; None for those derived from its parent and tasks."""

    name: str | None = None
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class _TrainingData:
    """Training and validation examples, with notices about them.

    Attributes:
        evaluated: how many of each are also, with their right answers, among the evaluated documents.
    """

    training_examples: tuple[TrainingExample, ...]
    validation: tuple[TrainingExample, ...]
    notices: tuple[str, ...] = ()
    evaluated: tuple[int, int] = (0, 0)

    def data(self) -> dict[str, object]:
        return {
            "lessons": len(self.training_examples),
            "lessons_digest": digest_training_examples(self.training_examples),
            "lessons_evaluated": self.evaluated[0],
            "checks": len(self.validation),
            "checks_digest": digest_training_examples(self.validation),
            "checks_evaluated": self.evaluated[1],
        }


def fit(
    session: Session,
    fit_spec: FitSpec,
    tasks: Sequence[Wanted] = (),
    model: Model | None = None,
    place: ModelDestination | None = None,
) -> FittedModel:
    """Trains the specification's model on the tasks' training documents.

    Args:
        session: specification, store and listener.
        fit_spec: method, settings, and how many examples.
        tasks: names or task objects; empty for the specification's names.
        model: a model object; None to open the specification's model.
        place: name and folder of the new model.
    """
    where = place or ModelDestination()
    if where.name is not None and not is_nameable(where.name):
        found = f'"{where.name}" is a model\'s name already, or no name for a folder'
        raise UserError(Fault("--name", found, "letters, digits, - and _"))
    with session.stage("resolve"):
        chosen = resolve_tasks(session.spec, tasks, open_catalog(session.spec.include_path)).tasks
        check_data(chosen, session.spec)
        parent = model if model is not None else opened_model(session.spec, session.listener, session.store)
    try:
        return _fitted(session, fit_spec, chosen, parent, where)
    finally:
        if model is None:
            parent.close()


def _fitted(
    session: Session, fit_spec: FitSpec, tasks: Sequence[Task], parent: Model, place: ModelDestination
) -> FittedModel:
    trainable = _trainable(parent)
    with session.stage("lessons", ", ".join(task.card.name for task in tasks)):
        training_data = _training_data(tasks, fit_spec, parent.capabilities.learns)
    fit_spec, messages = _with_metric(fit_spec, tasks, training_data.validation)
    for notice in (*training_data.notices, *messages):
        session.listener(Noticed(notice))
    data, settings = training_data.data(), fit_spec.settings.to_json()
    key = digest([_VERSION, parent.fingerprint.digest, data["lessons_digest"], data["checks_digest"], settings])
    known = _already_trained(session, key, place)
    if known is not None:
        session.listener(Noticed(f'"{known.name}" was trained so before and is used as it is'))
        return known
    names = tuple(task.card.name for task in tasks)
    name = place.name or _name(session, names, fit_spec, key)
    record = FittedModel(
        name=name,
        key=key,
        folder=str(place.folder or _models_folder(session) / name),
        model_args=inherited_arguments(_arguments(session)),
        parent=parent.fingerprint.to_json(),
        fingerprint={},
        tasks=names,
        data=data,
        settings={**settings, "mix": fit_spec.mix, "limit": fit_spec.limit, "check_limit": fit_spec.check_limit},
        report={},
    )
    session.store.fitted.check(record)  # a name in use is reported before an hour of training
    with session.stage("fit", name):
        listener = _fit_listener(session, fit_spec)
        report = trainable.fit(
            training_data.training_examples, training_data.validation, fit_spec.settings, Path(record.folder), listener
        )
    for notice in report.notices:
        session.listener(Noticed(notice))
    found = _with_fingerprint(replace(record, report=report.to_json()))
    session.store.fitted.add(found)
    return found


def _arguments(session: Session) -> dict[str, object]:
    """The settings of the parent, which may itself have been trained here."""
    spec = session.spec
    known = session.store.fitted.get(spec.model)
    return dict(full_arguments(spec.model, {**(known.model_args if known else {}), **spec.model_args}))


def _with_fingerprint(record: FittedModel) -> FittedModel:
    opened = open_model("hf", fitted_arguments(record, {}), ModelSettings())
    try:
        return replace(record, fingerprint=opened.fingerprint.to_json())
    finally:
        opened.close()


def _trainable(model: Model) -> Trainable:
    if isinstance(model, Trainable) and model.capabilities.learns:
        return model
    name = f"model {model.fingerprint.name} ({model.capabilities.family})"
    expected = "a decoder, an encoder-decoder or an encoder of transformers: --model hf"
    raise ModelError(Fault(name, "cannot be trained", expected))


def _already_trained(session: Session, key: str, place: ModelDestination) -> FittedModel | None:
    """A model with the same key whose files exist; with the requested name and folder, if any."""
    for found in session.store.fitted.of_key(key):
        is_wanted = place.name in (None, found.name) and place.folder in (None, Path(found.folder))
        if is_wanted and (Path(found.folder) / "config.json").is_file():
            return found
    return None


def _fit_listener(session: Session, fit_spec: FitSpec) -> FitListener:
    def listen(progress: FitProgress) -> None:
        session.listener(Trained(progress, fit_spec.settings.validation_metric))

    return listen


# Names and folders


def _name(session: Session, tasks: Sequence[str], fit_spec: FitSpec, key: str) -> str:
    spec = session.spec
    parent = Path(redacted_text(str(spec.model_args.get("pretrained", spec.model)))).name
    learnt = "-".join(tasks) if len(tasks) <= 3 else f"{len(tasks)}-tasks"
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in f"{parent}-{learnt}")
    return f"{plain.lstrip('.-')[:80]}-{fit_spec.settings.method}-{key[:8]}"


def _models_folder(session: Session) -> Path:
    """The folder of trained models, beside the store."""
    store = session.store.path
    return (default_path() if store == MEMORY else Path(store)).absolute().parent / "models"


# Training examples


def _with_metric(
    fit_spec: FitSpec, tasks: Sequence[Task], validation: Sequence[TrainingExample]
) -> tuple[FitSpec, list[str]]:
    """The specification with the metric that selects the checkpoint: the tasks' first metric unless one is named."""
    if fit_spec.settings.metric is not None or not validation:
        return fit_spec, []
    firsts = dict.fromkeys(task.scoring.metrics[0].name for task in tasks if task.scoring.metrics)
    validation_metric = {VALIDATION_METRIC_FOR.get(name) for name in firsts}
    found = next(iter(validation_metric)) if len(validation_metric) == 1 else None
    if found is not None and metric_unavailable_reason(found, validation) is None:
        return replace(fit_spec, settings=replace(fit_spec.settings, metric=found)), []
    names = ", ".join(firsts)
    differ = f"the tasks' first metrics differ ({names})"
    reason = differ if len(validation_metric) > 1 else f"{names} is not computed while training"
    messages = [f"checkpoints are chosen by {ACCURACY}: {reason}"] if firsts else []
    return replace(fit_spec, settings=replace(fit_spec.settings, metric=ACCURACY)), messages


def _training_data(tasks: Sequence[Task], fit_spec: FitSpec, kinds: frozenset[str]) -> _TrainingData:
    training_examples, validation, notices = [], [], []
    evaluated = {
        training_example
        for task in tasks
        if isinstance(task, ProvidesTrainingExamples)
        for training_example in task.training_examples(_EVALUATED, kinds)
    }
    for task in tasks:
        own, held, messages = _task_training_examples(task, fit_spec, kinds)
        training_examples.append(own)
        validation.extend(held)
        notices.extend([*messages, *_overlap_notices(task.card.name, own, held, evaluated)])
    counts = [
        sum(training_example in evaluated for training_example in group)
        for group in (itertools.chain(*training_examples), validation)
    ]
    if fit_spec.mix == BALANCED:
        most = max(map(len, training_examples))
        training_examples = [[own[place % len(own)] for place in range(most)] for own in training_examples]
    every = tuple(training_example for own in training_examples for training_example in own)
    return _TrainingData(every, tuple(validation), tuple(notices), (counts[0], counts[1]))


def _overlap_notices(
    task: str,
    training_examples: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    evaluated: Collection[TrainingExample],
) -> Iterator[str]:
    """A notice if documents used in training are also evaluated."""
    effects = {
        _TRAINING: (training_examples, "a score on these is recall"),
        _VALIDATION: (validation, "the weights that do best on these are selected, which flatters their score"),
    }
    for part, (own, effect) in effects.items():
        count = sum(training_example in evaluated for training_example in own)
        if count:
            yield f"{task}: {part}: {count} of {len(own)} documents are in the evaluated split, too: {effect}"


def _task_training_examples(
    task: Task, fit_spec: FitSpec, kinds: frozenset[str]
) -> tuple[list[TrainingExample], list[TrainingExample], list[str]]:
    """The training and validation examples of a task.

    If the only validation split is the evaluated one, a share of the training examples is held out.
    """
    name, settings = task.card.name, fit_spec.settings
    if not isinstance(task, ProvidesTrainingExamples):
        raise DataError(Fault(f"task {name}", "has no training documents: it is written in Python", "a task file"))
    training_examples = list(task.training_examples(_TRAINING, kinds))
    validation = list(task.training_examples(_VALIDATION, kinds))
    notices = list(task.notices()) if isinstance(task, ReportsNotices) else []
    generator = random.Random(f"{settings.seed} {name}")
    if not validation and settings.holdout and len(training_examples) >= _FEWEST_TO_HOLD_OUT:
        count = max(1, round(len(training_examples) * settings.holdout))
        held = set(generator.sample(range(len(training_examples)), count))
        validation = [training_example for place, training_example in enumerate(training_examples) if place in held]
        training_examples = [
            training_example for place, training_example in enumerate(training_examples) if place not in held
        ]
        notices.append(
            f"{name}: {count} of {count + len(training_examples)} training documents are held out for validation"
        )
    training_examples, validation = (
        _sampled(training_examples, fit_spec.limit, generator),
        _sampled(validation, fit_spec.check_limit, generator),
    )
    return training_examples, validation, notices


def _sampled(
    training_examples: list[TrainingExample], most: int | None, generator: random.Random
) -> list[TrainingExample]:
    if most is None or most >= len(training_examples):
        return training_examples
    kept = set(generator.sample(range(len(training_examples)), most))
    return [training_example for place, training_example in enumerate(training_examples) if place in kept]


def run_trained(session: Session, options: FitSpec, tasks: Sequence[Wanted], model: Model | None) -> RunResult:
    """Trains a model on the tasks of a run, then runs them with the trained model.

    Args:
        session: the run.
        options: training settings.
        tasks: names or task objects.
        model: a model object; None to open the specification's model.
    """
    check_scoring(session.spec, tasks, session.needs)  # scoring problems are reported before hours of training
    fitted = fit(session, options, tasks, model)
    own = replace(session.spec, model=fitted.name, model_args={})
    return run(replace(session, spec=own, timings={}), tasks, None)
