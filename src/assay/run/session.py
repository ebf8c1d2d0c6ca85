"""The story of a run: resolve → pose → plan → execute → score → aggregate. No stage calls an earlier one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from assay.core.protocols import Advises, Describes, Model
from assay.core.requests import Request
from assay.core.responses import NOTE_TEXTS, Failure
from assay.core.results import GroupResult, RequestCounts, RunResult, TaskResult
from assay.core.sparing import Reference, Stop
from assay.core.specs import Axes, RunSpec
from assay.core.variance_axes import TaskVariance, base_name
from assay.plan.planning import Plan, make_plan
from assay.run.combining import best_of
from assay.run.events import Listener, Noticed, Planned, StageStarted
from assay.run.execute import Executed, execute
from assay.run.manifest import make_manifest, redacted
from assay.run.posing import PosedTask, counted, pose_task
from assay.run.prompting import prompt_axes
from assay.run.resolve import Setup, resolve
from assay.run.scoring import score_task
from assay.run.shared_texts import shared_text_notices
from assay.scoring.aggregate import aggregate_groups
from assay.scoring.drawing import draw_notices
from assay.scoring.keeping import kept_values
from assay.store.responses import ResponseWriter
from assay.store.runs import FAILED, FINISHED, INCOMPLETE, INTERRUPTED
from assay.store.store import Store
from assay.tasks.harness.task import HarnessTask
from assay.tasks.selection import Wanted
from assay.tasks.styles import OWN, find_style, is_style

# Begins the notice that names the tasks of which not all documents were asked.
LIMITED = "only a part of the documents was asked, which is no random sample: "
# Fewer documents may well have the right choice at one place by chance.
_FEW_DOCUMENTS = 10


@dataclass(slots=True)
class Session:
    """What the stages of one run share: the specification, the open store, the listener and the clock."""

    spec: RunSpec
    store: Store
    listener: Listener
    timings: dict[str, float] = field(default_factory=dict)
    references: Mapping[str, Reference] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, detail: str = "") -> Iterator[None]:
        """Announces a stage and takes its time."""
        self.listener(StageStarted(name, detail))
        started = time.perf_counter()
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - started


def run(session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None) -> RunResult:
    """A whole run.

    Args:
        session: specification, store and listener.
        tasks: names or task objects; the specification's names when empty.
        model: a model object; the specification's model is opened when None.
    """
    if session.spec.sparing.may_stop:
        from assay.run.stopping import run_in_laps  # most runs have no use for it

        return run_in_laps(session, tasks, model)
    with prepared(session, tasks, model) as (setup, posed, plan):
        if session.spec.sparing.reference is not None:
            _take_references(session, session.spec.sparing.reference, posed)
        manifest = make_manifest(session.spec, setup.model.fingerprint, posed)
        return conduct(session, setup, posed, plan, manifest)


def _take_references(session: Session, run: str, posed: Sequence[PosedTask]) -> None:
    """The runs that stand in for what a sample leaves out. The record keeps the whole name: `last` changes."""
    from assay.run.sparing import sample_references

    session.references = sample_references(session.store, run, posed)
    name = session.store.runs.get(run).id
    session.spec = replace(session.spec, sparing=replace(session.spec.sparing, reference=name))


def conduct(
    session: Session, setup: Setup, posed: Sequence[PosedTask], plan: Plan, manifest: Mapping[str, Any]
) -> RunResult:
    """The stages from the first question on, under a record of their own: execute, score, aggregate."""
    run_id = session.store.runs.begin(setup.model.fingerprint, redacted(session.spec.to_json()), manifest)
    with recorded(session, run_id):
        # The last answers are committed while the first are scored; leaving the writer waits for them all.
        with ResponseWriter(session.store.responses, setup.model.fingerprint) as writer:
            with session.stage("execute"):
                executed = execute(plan, setup.model, writer, session.listener)
            if executed.failures:
                session.store.runs.add_failures(run_id, executed.failures.items())
            with session.stage("score"):
                results = score(session, setup, posed, executed)
                groups = aggregate_groups(setup.groups, results)
        result = make_result(session, run_id, setup, plan, executed, results, groups, manifest)
    end_record(session, result, posed, executed)
    return result


def end_record(session: Session, result: RunResult, posed: Sequence[PosedTask], executed: Executed) -> None:
    """Marks a run as ended, with what it found and the values of its documents."""
    kept = [
        values
        for item, found in zip(posed, result.tasks, strict=True)
        for values in kept_values(item.task.scoring, found)
    ]
    status = INCOMPLETE if executed.failures else FINISHED
    speed = {executed.unit: executed.work, "seconds": executed.seconds}
    session.store.runs.end(result.run_id, status, {**result.summary(), "speed": speed}, kept)


@contextmanager
def prepared(
    session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None
) -> Iterator[tuple[Setup, list[PosedTask], Plan]]:
    """The stages before asking: resolve, pose, plan. Also the dry run."""
    with resolved(session, tasks, model) as setup:
        posed = []
        for task in setup.tasks:
            with session.stage("pose", task.card.name):
                posed.append(pose_task(task, session.spec, setup.model.fingerprint.digest))
        with session.stage("plan"):
            plan = plan_missing(session, posed)
        yield setup, posed, plan


@contextmanager
def resolved(session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None) -> Iterator[Setup]:
    """Tasks and model. A model opened here is closed afterwards."""
    with session.stage("resolve"):
        setup = resolve(session.spec, tasks, model, session.listener, session.store)
    try:
        for notice in (*setup.notices, *session.store.notices):
            session.listener(Noticed(notice))
        yield setup
    finally:
        if model is None:
            setup.model.close()


def plan_missing(session: Session, posed: Sequence[PosedTask]) -> Plan:
    """What is asked that the store cannot answer."""
    requests: dict[bytes, Request] = {}
    for item in posed:
        requests.update(item.keys.requests)
    known = session.store.responses.known(requests)
    plan = make_plan(sum(item.keys.posed for item in posed), requests, known)
    session.listener(Planned(plan.posed, plan.unique, plan.known, len(plan.missing), sum(plan.works)))
    return plan


@contextmanager
def recorded(session: Session, run_id: str) -> Iterator[None]:
    """Marks the run's record when it does not get to its end; a killed run stays `running`."""
    try:
        yield
    except KeyboardInterrupt:
        session.store.runs.end(run_id, INTERRUPTED)
        raise
    except Exception:
        session.store.runs.end(run_id, FAILED)
        raise


def score(session: Session, setup: Setup, posed: Sequence[PosedTask], executed: Executed) -> tuple[TaskResult, ...]:
    """Every task's result, from the store and what this run brought."""
    iterations, sparing = session.spec.bootstrap_iters, session.spec.sparing
    results = tuple(
        score_task(item, scorer, session.store.responses, executed, iterations)
        for item, scorer in zip(posed, setup.scorers, strict=True)
    )
    if sparing.sample is None and not sparing.may_stop:
        return results
    from assay.run.sparing import with_spared

    return with_spared(posed, results, sparing, session.references)


def make_result(
    session: Session,
    run_id: str,
    setup: Setup,
    plan: Plan,
    executed: Executed,
    results: tuple[TaskResult, ...],
    groups: tuple[GroupResult, ...],
    manifest: Mapping[str, Any],
) -> RunResult:
    """All that a run found, with what the user ought to know of it."""
    asked = len(plan.missing)
    counts = RequestCounts(plan.posed, plan.unique, plan.known, asked, len(executed.failures))
    notices = (*setup.notices, *session.store.notices, *_model_notices(setup.model, asked))
    notices += (*_task_notices(results), *_part_notices(results, session.spec))
    notices += best_of(setup.combined, results, groups)
    notices += tuple(line for task in setup.tasks if isinstance(task, Advises) for line in task.notices())
    return RunResult(
        run_id=run_id,
        spec=session.spec,
        tasks=results,
        groups=groups,
        counts=counts,
        failures=_failure_counts(executed.failures),
        notices=notices,
        manifest=manifest,
        timings=dict(session.timings),
        store=session.store.path,
        model_run=_model_run(setup.model, executed) if asked else {},
        prompts=prompt_axes(setup.tasks, results),
        variance=_variance(session, setup, results),
    )


def _variance(session: Session, setup: Setup, results: tuple[TaskResult, ...]) -> tuple[TaskVariance, ...]:
    """Where scores vary, of tasks that were asked in several ways; most runs have none and pay nothing."""
    is_varied = session.spec.options.axes != Axes()
    if not is_varied and not any(isinstance(t, HarnessTask) and t.definition.prompt for t in setup.tasks):
        return ()
    from assay.run.varying import task_variances

    return task_variances(setup.tasks, setup.scorers, results)


def _failure_counts(failures: Mapping[bytes, Failure]) -> dict[str, tuple[int, str]]:
    counts = Counter(failure.kind for failure in failures.values())
    first = {failure.kind: failure.message for failure in reversed(list(failures.values()))}
    return {kind: (count, first[kind]) for kind, count in counts.items()}


def _model_run(model: Model, executed: Executed) -> dict[str, Any]:
    """How the model ran: what was measured, and what it tells of itself."""
    measured = {"tokens": executed.tokens, "seconds": executed.seconds} if executed.tokens else {}
    return {**measured, **(model.description() if isinstance(model, Describes) else {})}


def _model_notices(model: Model, asked: int) -> list[str]:
    """What a model says of itself; it has only something to say when it was loaded."""
    return list(model.notices()) if asked and isinstance(model, Advises) else []


def _task_notices(results: Sequence[TaskResult]) -> list[str]:
    """What the numbers do not show: truncation, oddities of prompts, answers not found, limits."""
    notices = []
    for result in results:
        counts = result.denominators
        if counts.failed:
            told = f"{counts.failed} of {counts.total} documents failed and count in no score"
            notices.append(f"{result.name}: {told} ({counts.scored} do)")
        if counts.truncated:
            notices.append(f"{result.name}: {counts.truncated} of {counts.total} documents were cut to fit the model")
        place = _constant_place(result)
        if place is not None:
            told = f"the right choice stands at place {place} in all {counts.total} documents, so listing them tells it"
            notices.append(f"{result.name}: {told}; ask in all orders with --rotations")
        for note, count in counts.notes.items():
            text = _NOTE_TEXTS.get(note, f"{note}")
            notices.append(f"{result.name}: {text} ({count})")
        for pipeline, count in counts.unparsed.items():
            if count:
                notices.append(f"{result.name}: no answer was found in {count} of {counts.scored} ({pipeline})")
        notices += draw_notices(result)
        clusters = [metric.estimate.clusters for metric in result.metrics if metric.estimate.clusters is not None]
        if clusters:
            notices += _cluster_notices(result.name, min(clusters))
    return notices + shared_text_notices(results)


def _cluster_notices(name: str, clusters: int) -> list[str]:
    from assay.stats.clustered import FEW  # most runs have no use for it

    told = f"its documents lie in {clusters} clusters; with fewer than {FEW}"
    return [f"{name}: {told}, error and interval are themselves known badly"] if clusters < FEW else []


def _part_notices(results: Sequence[TaskResult], spec: RunSpec) -> list[str]:
    """Which tasks were asked in part, and how that part was chosen."""
    parts = [result for result in results if result.denominators.total < result.denominators.available]
    limited, shared, drawn = [], [], {}
    for result in parts:
        # A run that may stop draws at random from what a limit leaves.
        if result.spared is None or spec.limit is not None:
            limited.append(result)
        elif _is_of_another(result.denominators.available, result.spared.stop, spec.sparing.sample):
            shared.append(result)
        else:
            drawn[base_name(result.name)] = result.spared
    notices = [LIMITED + _named(limited)] if limited else []
    if shared:
        notices.append(f"only documents that run {spec.sparing.until_decided} has were asked: {_named(shared)}")
    if drawn:
        counts = ", ".join(f"{name} {spared.asked:,} of {spared.available:,}" for name, spared in drawn.items())
        notices.append(f"a random sample of the documents was asked (seed {next(iter(drawn.values())).seed}): {counts}")
    return notices + _stop_notices(results)


def _named(results: Sequence[TaskResult]) -> str:
    return ", ".join(dict.fromkeys(base_name(result.name) for result in results))


def _is_of_another(available: int, stop: Stop | None, sample: float | None) -> bool:
    """Whether the run that a task was held against has fewer documents than would have been asked."""
    return stop is not None and stop.most < (available if sample is None else counted(sample, available))


def _stop_notices(results: Sequence[TaskResult]) -> list[str]:
    stops = {result.name: result.spared.stop for result in results if result.spared is not None}
    # A task that was asked to its end has the numbers of a run that never looked.
    early = [name for name, stop in stops.items() if stop is not None and stop.documents < stop.most]
    told = "the intervals in the table do not hold after stopping by looking at the answers; the anytime-valid do"
    return [f"{', '.join(early)}: {told}"] if early else []


def _constant_place(result: TaskResult) -> int | None:
    """The place that is right in every document of a task whose style lists the choices in one order; None for none.

    Some benchmarks leave the order of the choices to the reader: the right one always comes first.
    """
    style = str(result.card.config.get("style") or OWN)
    if style == OWN or len(result.answered) < _FEW_DOCUMENTS or not is_style(style):
        return None
    found = find_style(style)
    if found.rotates or not found.shows_options:
        return None
    instances = [item.instance for item in result.answered]
    found_places = {item.right_places for item in instances if item.choices}
    places = found_places.pop() if len(found_places) == 1 else ()
    return places[0] if len(places) == 1 and isinstance(places[0], int) and places[0] >= 0 else None


_NOTE_TEXTS = {
    **NOTE_TEXTS,
    "invalid_gold": "the right answer is none of the choices, so documents count as wrong",
    "equal_choices": "documents have equal choices, of which only the first can be picked",
    "empty_choice": "documents have an empty choice, which no score by length picks",
    "single_choice": "documents have one choice only, so every answer to them is the same",
}
