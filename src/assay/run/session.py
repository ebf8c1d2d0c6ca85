"""The story of a run: resolve → pose → plan → execute → score → aggregate. No stage calls an earlier one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from assay.core.protocols import Advises, Describes, Model
from assay.core.requests import Request
from assay.core.responses import NOTE_TEXTS, Failure
from assay.core.results import GroupResult, RequestCounts, RunResult, TaskResult
from assay.core.specs import RunSpec
from assay.plan.planning import Plan, make_plan
from assay.run.combining import best_of
from assay.run.events import Listener, Noticed, Planned, StageStarted
from assay.run.execute import Executed, execute
from assay.run.manifest import make_manifest, redacted
from assay.run.posing import PosedTask, pose_task
from assay.run.prompting import prompt_axes
from assay.run.resolve import Setup, resolve
from assay.run.scoring import score_task
from assay.scoring.aggregate import aggregate_groups
from assay.scoring.keeping import kept_values
from assay.store.responses import ResponseWriter
from assay.store.runs import FAILED, FINISHED, INCOMPLETE, INTERRUPTED
from assay.store.store import Store
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
    with prepared(session, tasks, model) as (setup, posed, plan):
        manifest = make_manifest(session.spec, setup.model.fingerprint, posed)
        return conduct(session, setup, posed, plan, manifest)


def conduct(
    session: Session, setup: Setup, posed: Sequence[PosedTask], plan: Plan, manifest: Mapping[str, Any]
) -> RunResult:
    """The stages from the first question on, under a record of their own: execute, score, aggregate."""
    run_id = session.store.runs.begin(setup.model.fingerprint, redacted(session.spec.to_json()), manifest)
    with _record(session, run_id):
        # The last answers are committed while the first are scored; leaving the writer waits for them all.
        with ResponseWriter(session.store.responses, setup.model.fingerprint) as writer:
            with session.stage("execute"):
                executed = execute(plan, setup.model, writer, session.listener)
            if executed.failures:
                session.store.runs.add_failures(run_id, executed.failures.items())
            with session.stage("score"):
                results = score(session, setup, posed, executed)
                groups = aggregate_groups(setup.groups, results)
                kept = [
                    values
                    for item, found in zip(posed, results, strict=True)
                    for values in kept_values(item.task.scoring, found)
                ]
        result = _result(session, run_id, setup, plan, executed, results, groups, manifest)
    status = INCOMPLETE if executed.failures else FINISHED
    speed = {executed.unit: executed.work, "seconds": executed.seconds}
    session.store.runs.end(run_id, status, {**result.summary(), "speed": speed}, kept)
    return result


@contextmanager
def prepared(
    session: Session, tasks: Sequence[Wanted] = (), model: Model | None = None
) -> Iterator[tuple[Setup, list[PosedTask], Plan]]:
    """The stages before asking: resolve, pose, plan. Also the dry run. A model opened here is closed afterwards."""
    with session.stage("resolve"):
        setup = resolve(session.spec, tasks, model, session.listener, session.store)
    try:
        for notice in (*setup.notices, *session.store.notices):
            session.listener(Noticed(notice))
        posed = []
        for task in setup.tasks:
            with session.stage("pose", task.card.name):
                posed.append(pose_task(task, session.spec, setup.model.fingerprint.digest))
        with session.stage("plan"):
            plan = plan_missing(session, posed)
        yield setup, posed, plan
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
def _record(session: Session, run_id: str) -> Iterator[None]:
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
    iterations = session.spec.bootstrap_iters
    return tuple(
        score_task(item, scorer, session.store.responses, executed, iterations)
        for item, scorer in zip(posed, setup.scorers, strict=True)
    )


def _result(
    session: Session,
    run_id: str,
    setup: Setup,
    plan: Plan,
    executed: Executed,
    results: tuple[TaskResult, ...],
    groups: tuple[GroupResult, ...],
    manifest: Mapping[str, Any],
) -> RunResult:
    asked = len(plan.missing)
    counts = RequestCounts(plan.posed, plan.unique, plan.known, asked, len(executed.failures))
    notices = (*setup.notices, *session.store.notices, *_model_notices(setup.model, asked), *_task_notices(results))
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
    )


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
    limited = [result.name for result in results if result.denominators.total < result.denominators.available]
    if limited:
        notices.append(LIMITED + ", ".join(limited))
    return notices


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
