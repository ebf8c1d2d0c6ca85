"""Reopens a recorded run without its model: rebuilds the requests of its tasks and verifies them by hash.

In: a record. Out: its tasks, built and with scorers. Documents or prompts that changed since are an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.core.errors import DataError, Fault, ModelError, UnknownName, UserError
from assay.core.protocols import Model, Task
from assay.core.secrets import is_hidden, without_secrets
from assay.core.specs import DATA_VARIABLE, GroupSpec, RunSpec
from assay.core.task_variants import task_family
from assay.core.version import __version__
from assay.models.model_registry import is_known
from assay.run.build import BuiltTask, build_task
from assay.run.events import Listener
from assay.run.open_model import opened_model
from assay.run.resolve import check_tasks, checked_scorers, known_names, rescored_task, resolve_tasks, task_as_recorded
from assay.run.session import Session
from assay.scoring.document_scorer import DocumentScorer
from assay.store.run_records import RunRecord
from assay.store.store import Store, default_path
from assay.tasks.catalog import open_catalog
from assay.tasks.lm_eval.variants.scoring_overrides import ALL
from assay.tasks.profiles.expand import BestOfVariants
from assay.tasks.selection import Selection, Wanted
from assay.tasks.text_tasks import MARK


@dataclass(frozen=True, slots=True)
class ReopenedRun:
    """A recorded run, built again.

    Attributes:
        spec: the specification of the run, with the changes.
        scorers: one per task; none if not every task is to be scored.
        built: the tasks with the requests that the changes need.
        own: the same with the requests of the run itself; the same objects if the changes need no others.
        notices: warnings and other notices.
        combined: variants of which a tool reports the best.
    """

    record: RunRecord
    spec: RunSpec
    scorers: tuple[DocumentScorer, ...]
    groups: tuple[GroupSpec, ...]
    built: tuple[BuiltTask, ...]
    own: tuple[BuiltTask, ...]
    notices: tuple[str, ...]
    combined: tuple[BestOfVariants, ...] = ()


def recorded_spec(record: RunRecord) -> RunSpec:
    """The specification of a recorded run. Relative paths that do not exist here are read from the run's folder."""
    spec = RunSpec.from_json(record.spec)
    base = Path(record.manifest.get("working_folder", "."))
    folders = tuple(_from(base, folder) for folder in spec.include_path)
    gone = [folder for folder in folders if not Path(folder).expanduser().is_dir()]
    if gone:
        advice = "Put it back, or go to the folder that the run was started in"
        raise UserError(
            *(Fault(_where(record), f'its folder of task files "{name}" is gone', "", advice) for name in gone)
        )
    tasks = tuple(_from(base, name) if name.endswith((".yaml", ".yml")) else name for name in spec.tasks)
    known = record.tasks
    if spec.subsampling.may_stop_early:  # which documents were enough was known at its end only
        spec = replace(spec, samples={name: tuple(entry["sample"]) for name, entry in known.items()})
    texts = replace(spec.options.texts, folder=spec.options.texts.folder or str(base))
    # Older records lack it: documents were then shown among their own examples.
    shown = "own_examples" not in (record.spec.get("options") or {}) or spec.options.own_examples
    # Task code that needs a secret, which is never recorded, may find it in the environment.
    metadata = without_secrets(spec.options.metadata)
    data = _copies(spec.options.data)
    options = replace(spec.options, texts=texts, own_examples=shown, metadata=metadata, data=data)
    return replace(spec, include_path=folders, tasks=tasks, options=options)


def _copies(recorded: str | None) -> str | None:
    """The folder of datasets of a run; if it is gone, or there was none, the present one. Hashes verify the rows."""
    here = os.environ.get(DATA_VARIABLE)
    if here and (recorded is None or not Path(recorded).is_dir()):
        return str(Path(here).expanduser().absolute())
    return recorded


def _from(base: Path, name: str) -> str:
    path = Path(name).expanduser()
    return str(base / path) if not path.is_absolute() and not path.exists() and (base / path).exists() else name


def _where(record: RunRecord) -> str:
    return f"run {record.id}"


def reopen(
    session: Session,
    record: RunRecord,
    given: Sequence[Task] = (),
    is_partial: bool = False,
    scores_all: bool = False,
) -> ReopenedRun:
    """The tasks of a run, built again.

    Args:
        session: the store and the listener; its specification is the record's with the changes.
        record: the run.
        given: the task objects of the run, if it had any; its other tasks are found by name.
        is_partial: whether tasks that were objects and are not given are left out; they are an error otherwise.
        scores_all: whether every task is to be scored; a task that cannot be scored is then an error.
    """
    spec, own_spec = session.spec, recorded_spec(record)
    with session.stage("resolve"):
        lacking = missing_task_objects(record, given)
        wanted = _wanted(own_spec, given, lacking)
        if lacking and not (is_partial and wanted):
            raise UnknownName(_objects_fault(session.store, record, lacking, given))
        own, changed, notices = _resolved(record, own_spec, spec, wanted)
        scorers = tuple(checked_scorers(changed.tasks)) if scores_all else ()
        _check_names(record, own.tasks, lacking)
    built, asked = [], []
    for before, after in zip(own.tasks, changed.tasks, strict=True):
        with session.stage("pose", after.card.name):
            now, then = _build(record, before, after, own_spec)
            built.append(now)
            asked.append(then)
    faults = [fault for item in asked for fault in _changes_since(record, item)]
    if faults:
        raise DataError(*faults)
    return ReopenedRun(
        record=record,
        spec=spec,
        scorers=scorers,
        groups=changed.groups,
        built=tuple(built),
        own=tuple(asked),
        notices=notices,
        combined=changed.combined,
    )


def missing_task_objects(record: RunRecord, given: Sequence[Task]) -> list[str]:
    """Tasks of a run that were Python objects and are not given."""
    named = {item.card.name for item in given}
    objects = [name for name in RunSpec.from_json(record.spec).tasks if name not in named and _is_object(record, name)]
    if not objects:
        return []
    catalog = open_catalog(recorded_spec(record).include_path)  # a task of a plugin is written in Python, too
    return [name for name in objects if not catalog.select(name)]


def _is_object(record: RunRecord, name: str) -> bool:
    """Whether a task of a run seems to have been an object: it was named in the run, and came from no file."""
    sources = [str(entry.get("source", "")) for other, entry in record.tasks.items() if task_family(other) == name]
    return bool(sources) and not name.startswith(MARK) and not sources[0].endswith((".yaml", ".yml"))


def check_objects(record: RunRecord, given: Sequence[Task]) -> None:
    """Rejects task objects that are not tasks of the run."""
    names = RunSpec.from_json(record.spec).tasks
    strange = [item.card.name for item in given if item.card.name not in names]
    if strange:
        found = f"evaluated {', '.join(names)}, and the tasks given are {', '.join(item.card.name for item in given)}"
        advice = "Give task objects of the run, each with the name it had"
        raise DataError(Fault(_where(record), found, "tasks of the run", advice))


def _wanted(spec: RunSpec, given: Sequence[Task], lacking: Sequence[str]) -> list[Wanted]:
    """The names of the run, with the objects given in their places."""
    objects = {item.card.name: item for item in given}
    return [objects.get(name, name) for name in spec.tasks if name not in lacking]


def _resolved(
    record: RunRecord, own_spec: RunSpec, spec: RunSpec, given: Sequence[Wanted]
) -> tuple[Selection, Selection, tuple[str, ...]]:
    catalog = open_catalog(own_spec.include_path)
    try:
        own = resolve_tasks(own_spec, given, catalog)
        changed = resolve_tasks(spec, given, catalog) if spec.options != own_spec.options else own
    except UnknownName as error:
        raise UnknownName(*(_unknown(record, fault) for fault in error.faults)) from error
    check_tasks(own.tasks, spec.options)
    changes = spec.options.scoring
    tasks = _as_recorded(record, [rescored_task(task, changes, known_names().metrics) for task in changed.tasks])
    own = replace(own, tasks=_as_recorded(record, own.tasks))
    return own, replace(changed, tasks=tasks), (*catalog.notices, *changed.notices, *_unscorable_tasks(tasks, changes))


def _as_recorded(record: RunRecord, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks as the run built them: for a language model, or for a head."""
    known = record.tasks
    return tuple(task_as_recorded(task, known.get(task.card.name, {}).get("config", {})) for task in tasks)


def _unknown(record: RunRecord, fault: Fault) -> Fault:
    """A name that the catalog does not have: its file is gone."""
    names = [name for name in record.tasks if f'"{name}"' in fault.found]
    source = str(record.tasks[names[0]].get("source", "")) if names else ""
    came = f"; it came from {source}" if source else ""
    return Fault(_where(record), fault.found + came, "the tasks of the run", "Put the task file back where it was")


def object_task_text(record: RunRecord, name: str) -> str:
    """The message for a task that was a Python object and must be passed in again."""
    source = next((entry.get("source") for other, entry in record.tasks.items() if task_family(other) == name), "")
    return f'the task "{name}" was an object in Python ({source})'


def as_argument(names: Sequence[str]) -> str:
    """The argument that passes task objects of these names."""
    return f"tasks=[{', '.join(name if name.isidentifier() else 'my_task' for name in dict.fromkeys(names))}]"


def python_call(verb: str, store: Store, runs: Sequence[RunRecord], *arguments: str) -> str:
    """A call of a public function on recorded runs, as one would type it."""
    place = () if Path(store.path) == default_path() else (f'store="{store.path}"',)
    return f"assay.{verb}({', '.join([*(repr(run.id) for run in runs), *arguments, *place])})"


def _objects_fault(store: Store, record: RunRecord, lacking: Sequence[str], given: Sequence[Task]) -> Fault:
    names = [*(item.card.name for item in given), *lacking]
    found = "; ".join(object_task_text(record, name) for name in lacking)
    advice = f"From Python: {python_call('rescore', store, [record], as_argument(names))}"
    return Fault(_where(record), found, "the object" if len(lacking) == 1 else "the objects", advice)


def _unscorable_tasks(tasks: Sequence[Task], changes: Mapping[str, Any]) -> list[str]:
    """Which tasks no metric of the changes can score: a notice, or an error if that is all of them."""
    wanted = [entry["metric"] for entry in changes.get("metric_list", ())]
    if not wanted:
        return []
    kept = [task.card.name for task in tasks if not _takes(task, wanted)]
    names = ", ".join(wanted)
    if len(kept) == len(tasks):
        shapes = ", ".join(sorted({task.scoring.scorer for task in tasks}))
        raise UserError(Fault("--metrics", f"no task of the run can be scored by {names}", f"metrics for {shapes}"))
    return [f"{names} cannot score the answers of {', '.join(kept)}: they keep their own metrics"] if kept else []


def _takes(task: Task, wanted: Sequence[str]) -> bool:
    return not {ALL, *(spec.name for spec in task.scoring.metrics)}.isdisjoint(wanted)


def _check_names(record: RunRecord, tasks: Sequence[Task], left_out: Sequence[str]) -> None:
    then = [name for name in record.tasks if task_family(name) not in left_out]
    now = [task.card.name for task in tasks]
    lost, new = [name for name in then if name not in now], [name for name in now if name not in then]
    if lost or new:
        parts = [f"without {', '.join(lost)}"] if lost else []
        parts += [f"with {', '.join(new)} besides"] if new else []
        found = f"its names mean other tasks today: {' and '.join(parts)}"
        raise DataError(Fault(_where(record), found, "the tasks of the run", "Was a group or folder changed since?"))


def _build(record: RunRecord, own: Task, changed: Task, spec: RunSpec) -> tuple[BuiltTask, BuiltTask]:
    """The task with the requests that the changes need, and with those of the run: built once if they agree."""
    digest = record.fingerprint.digest
    built = build_task(changed, spec, digest)
    if own is changed or built.keys.prompts == record.tasks[own.card.name]["prompts_fingerprint"]:
        return built, built
    return built, build_task(own, spec, digest)


def _changes_since(record: RunRecord, built: BuiltTask) -> list[Fault]:
    """The difference from the recorded run: the documents, or else the prompts built from them."""
    then = record.tasks[built.task.card.name]
    where, source = f"{_where(record)}, task {built.task.card.name}", built.task.card.source
    if built.fingerprint != then["documents_fingerprint"]:
        count, was = len(built.documents), then["documents"]
        size = f" ({was:,} then, {count:,} now)" if count != was else ""
        found = f"its documents are not those of the run{size}: the data, or how {source} reads them, was changed since"
        return [Fault(where, found, "the same data", "Put the data back, or rerun the task")]
    if built.keys.prompts != then["prompts_fingerprint"]:
        version = record.manifest.get("assay_version")
        newer = (
            f" Or Assay asks otherwise: the run was made by {version}, this is {__version__}."
            if version != __version__
            else ""
        )
        like = RunSpec.from_json(record.spec).options.like
        profile = f' or the profile "{like}"' if like is not None else ""
        found = f"its documents are the same, but not its prompts: {source}{profile} was changed since"
        return [Fault(where, found, "the same prompts", f"Put the file back, or rerun the task.{newer}")]
    return []


def open_recorded(record: RunRecord, spec: RunSpec, listener: Listener, store: Store) -> Model:
    """The model of a recorded run, opened with its recorded settings. Weights are loaded with the first request."""
    where = _where(record)
    check_secrets(record, spec.model_args, "opened")
    if not is_known(spec.model) and store.fitted.get(spec.model) is None:
        objects = [as_argument(lacking)] if (lacking := missing_task_objects(record, ())) else []
        call = python_call("rescore", store, [record], *objects, "complete=True", "model=my_model")
        advice = f"From Python: {call}"
        raise ModelError(Fault(where, f'its model "{spec.model}" was an object in Python', "the object", advice))
    return opened_model(spec, listener, store)


def check_secrets(record: RunRecord, settings: Mapping[str, Any], verb: str) -> None:
    """Raises for settings whose recorded values are redacted secrets: only the user knows them."""
    hidden = [name for name, value in settings.items() if is_hidden(value)]
    if hidden:
        names = ",".join(f"{name}=…" for name in hidden)
        found = f"its model was {verb} with {', '.join(hidden)}, which no record keeps"
        raise ModelError(Fault(_where(record), found, "the value", f"Add --model_args {names}"))
