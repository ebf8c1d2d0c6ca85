"""The fit lap: lessons of tasks → `Trainable.fit` → a new model, with a name and a record in the store.

What decides the weights (parent, lessons, settings) has one key. A model of that key that the store knows is not
trained again; one whose training was interrupted goes on.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.core.errors import DataError, Fault, ModelError, UserError
from assay.core.fitting import (
    ACCURACY,
    BALANCED,
    WATCHED_FOR,
    FitListener,
    FitProgress,
    FitSpec,
    Lesson,
    digest_lessons,
    undecided,
)
from assay.core.identity import digest
from assay.core.protocols import Advises, Model, Task, Teaches, Trainable
from assay.core.secrets import redacted_text
from assay.core.specs import ModelSettings
from assay.models.registry import full_arguments, open_model
from assay.run.events import Noticed, Trained
from assay.run.opening import fitted_arguments, inherited_arguments, is_nameable, opened_model
from assay.run.resolve import open_catalog, resolve_tasks
from assay.run.session import Session
from assay.store.database import MEMORY
from assay.store.fitted import FittedModel
from assay.store.store import default_path
from assay.tasks.selection import Wanted

# Part of every key: raised when the same lessons and settings come to mean other weights.
_VERSION = 2
_TRAINING, _VALIDATION, _EVALUATED = "training", "validation", "evaluated"
# Fewer lessons than this are all learnt from: a share of them kept back would decide nothing.
_FEWEST_TO_HOLD_OUT = 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trained model goes; None for what follows from its parent and tasks."""

    name: str | None = None
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class _Curriculum:
    """What is learnt from and what is validated on, with what the user should know of it.

    Attributes:
        evaluated: how many of either are, with their right answers, among the documents that the tasks evaluate.
    """

    lessons: tuple[Lesson, ...]
    checks: tuple[Lesson, ...]
    notices: tuple[str, ...] = ()
    evaluated: tuple[int, int] = (0, 0)

    def data(self) -> dict[str, object]:
        return {
            "lessons": len(self.lessons),
            "lessons_digest": digest_lessons(self.lessons),
            "lessons_evaluated": self.evaluated[0],
            "checks": len(self.checks),
            "checks_digest": digest_lessons(self.checks),
            "checks_evaluated": self.evaluated[1],
        }


def fit(
    session: Session,
    wish: FitSpec,
    tasks: Sequence[Wanted] = (),
    model: Model | None = None,
    place: Place | None = None,
) -> FittedModel:
    """Trains the specification's model on the tasks' training documents.

    Args:
        session: specification, store and listener.
        wish: how, and on how much.
        tasks: names or task objects; the specification's names when empty.
        model: a model object; the specification's model is opened when None.
        place: name and folder of the new model.
    """
    where = place or Place()
    if where.name is not None and not is_nameable(where.name):
        found = f'"{where.name}" is a model\'s name already, or no name for a folder'
        raise UserError(Fault("--name", found, "letters, digits, - and _"))
    with session.stage("resolve"):
        chosen = resolve_tasks(session.spec, tasks, open_catalog(session.spec.include_path)).tasks
        parent = model if model is not None else opened_model(session.spec, session.listener, session.store)
    try:
        return _fitted(session, wish, chosen, parent, where)
    finally:
        if model is None:
            parent.close()


def _fitted(session: Session, wish: FitSpec, tasks: Sequence[Task], parent: Model, place: Place) -> FittedModel:
    trainable = _trainable(parent)
    with session.stage("lessons", ", ".join(task.card.name for task in tasks)):
        curriculum = _curriculum(tasks, wish, parent.capabilities.learns)
    wish, told = _watching(wish, tasks, curriculum.checks)
    for notice in (*curriculum.notices, *told):
        session.listener(Noticed(notice))
    data, settings = curriculum.data(), wish.settings.to_json()
    key = digest([_VERSION, parent.fingerprint.digest, data["lessons_digest"], data["checks_digest"], settings])
    known = _known(session, key, place)
    if known is not None:
        session.listener(Noticed(f'"{known.name}" was trained so before and is used as it is'))
        return known
    names = tuple(task.card.name for task in tasks)
    name = place.name or _name(session, names, wish, key)
    record = FittedModel(
        name=name,
        key=key,
        folder=str(place.folder or _models_folder(session) / name),
        model_args=inherited_arguments(_arguments(session)),
        parent=parent.fingerprint.to_json(),
        fingerprint={},
        tasks=names,
        data=data,
        settings={**settings, "mix": wish.mix, "limit": wish.limit, "check_limit": wish.check_limit},
        report={},
    )
    session.store.fitted.check(record)  # a name that another model has is told before an hour of training
    with session.stage("fit", name):
        listener = _listening(session, wish)
        report = trainable.fit(curriculum.lessons, curriculum.checks, wish.settings, Path(record.folder), listener)
    for notice in report.notices:
        session.listener(Noticed(notice))
    found = _with_fingerprint(replace(record, report=report.to_json()))
    session.store.fitted.add(found)
    return found


def _arguments(session: Session) -> dict[str, object]:
    """The settings of the parent; of one that was trained here, too."""
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


def _known(session: Session, key: str, place: Place) -> FittedModel | None:
    """A model of the same key whose files are there; under the wanted name or in the wanted folder where one is."""
    for found in session.store.fitted.of_key(key):
        is_wanted = place.name in (None, found.name) and place.folder in (None, Path(found.folder))
        if is_wanted and (Path(found.folder) / "config.json").is_file():
            return found
    return None


def _listening(session: Session, wish: FitSpec) -> FitListener:
    def listen(progress: FitProgress) -> None:
        session.listener(Trained(progress, wish.settings.watched))

    return listen


# Names and folders


def _name(session: Session, tasks: Sequence[str], wish: FitSpec, key: str) -> str:
    spec = session.spec
    parent = Path(redacted_text(str(spec.model_args.get("pretrained", spec.model)))).name
    learnt = "-".join(tasks) if len(tasks) <= 3 else f"{len(tasks)}-tasks"
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in f"{parent}-{learnt}")
    return f"{plain.lstrip('.-')[:80]}-{wish.settings.method}-{key[:8]}"


def _models_folder(session: Session) -> Path:
    """Beside the store."""
    store = session.store.path
    return (default_path() if store == MEMORY else Path(store)).absolute().parent / "models"


# Lessons


def _watching(wish: FitSpec, tasks: Sequence[Task], checks: Sequence[Lesson]) -> tuple[FitSpec, list[str]]:
    """The wish with the metric that decides which weights are kept: the first one of the tasks unless one is named."""
    if wish.settings.metric is not None or not checks:
        return wish, []
    firsts = dict.fromkeys(task.scoring.metrics[0].name for task in tasks if task.scoring.metrics)
    watched = {WATCHED_FOR.get(name) for name in firsts}
    found = next(iter(watched)) if len(watched) == 1 else None
    if found is not None and undecided(found, checks) is None:
        return replace(wish, settings=replace(wish.settings, metric=found)), []
    names = ", ".join(firsts)
    differ = f"the tasks' first metrics differ ({names})"
    reason = differ if len(watched) > 1 else f"{names} is not computed while training"
    told = [f"checkpoints are chosen by {ACCURACY}: {reason}"] if firsts else []
    return replace(wish, settings=replace(wish.settings, metric=ACCURACY)), told


def _curriculum(tasks: Sequence[Task], wish: FitSpec, kinds: frozenset[str]) -> _Curriculum:
    lessons, checks, notices = [], [], []
    evaluated = {lesson for task in tasks if isinstance(task, Teaches) for lesson in task.lessons(_EVALUATED, kinds)}
    for task in tasks:
        own, held, told = _task_lessons(task, wish, kinds)
        lessons.append(own)
        checks.extend(held)
        notices.extend([*told, *_repeated(task.card.name, own, held, evaluated)])
    counts = [sum(lesson in evaluated for lesson in group) for group in (itertools.chain(*lessons), checks)]
    if wish.mix == BALANCED:
        most = max(map(len, lessons))
        lessons = [[own[place % len(own)] for place in range(most)] for own in lessons]
    every = tuple(lesson for own in lessons for lesson in own)
    return _Curriculum(every, tuple(checks), tuple(notices), (counts[0], counts[1]))


def _repeated(
    task: str, lessons: Sequence[Lesson], checks: Sequence[Lesson], evaluated: Collection[Lesson]
) -> Iterator[str]:
    """A line where documents that training uses are evaluated, too."""
    effects = {
        _TRAINING: (lessons, "a score on these is recall"),
        _VALIDATION: (checks, "the weights that do best on these are kept, which flatters their score"),
    }
    for part, (own, effect) in effects.items():
        count = sum(lesson in evaluated for lesson in own)
        if count:
            yield f"{task}: {part}: {count} of {len(own)} documents stand in the evaluated split, too: {effect}"


def _task_lessons(task: Task, wish: FitSpec, kinds: frozenset[str]) -> tuple[list[Lesson], list[Lesson], list[str]]:
    """The lessons and validation lessons of a task.

    Where it has no split to validate on besides the one that is evaluated, a share of the lessons is kept back.
    """
    name, settings = task.card.name, wish.settings
    if not isinstance(task, Teaches):
        raise DataError(Fault(f"task {name}", "has no training documents: it is written in Python", "a task file"))
    lessons = list(task.lessons(_TRAINING, kinds))
    checks = list(task.lessons(_VALIDATION, kinds))
    notices = list(task.notices()) if isinstance(task, Advises) else []
    chance = random.Random(f"{settings.seed} {name}")
    if not checks and settings.holdout and len(lessons) >= _FEWEST_TO_HOLD_OUT:
        count = max(1, round(len(lessons) * settings.holdout))
        held = set(chance.sample(range(len(lessons)), count))
        checks = [lesson for place, lesson in enumerate(lessons) if place in held]
        lessons = [lesson for place, lesson in enumerate(lessons) if place not in held]
        notices.append(f"{name}: {count} of {count + len(lessons)} training documents are kept back for validation")
    lessons, checks = _drawn(lessons, wish.limit, chance), _drawn(checks, wish.check_limit, chance)
    return lessons, checks, notices


def _drawn(lessons: list[Lesson], most: int | None, chance: random.Random) -> list[Lesson]:
    if most is None or most >= len(lessons):
        return lessons
    kept = set(chance.sample(range(len(lessons)), most))
    return [lesson for place, lesson in enumerate(lessons) if place in kept]
