"""Scores the answers of a recorded run: differently, as a new run (`rescore`), or as before (`load`).

In: a record and changes of metrics or filters. Out: a result. No model is loaded unless answers are missing and may
be requested.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from assay.core.errors import Fault, MissingAnswers, ModelError
from assay.core.identity import Fingerprint
from assay.core.protocols import Capabilities, Model, Task
from assay.core.requests import Instance, Request
from assay.core.responses import Failure, Output
from assay.core.results import RequestCounts, RunResult, TaskResult
from assay.core.secrets import is_hidden, redacted
from assay.core.specs import NULL_PROMPTS, WHOLE_PROMPT_METRICS, RunSpec, Scoring, null_prompt
from assay.core.version import __version__
from assay.run.build import BuiltTask
from assay.run.events import Listener, Noticed
from assay.run.execute import NOTHING_EXECUTED
from assay.run.manifest import make_manifest
from assay.run.plan import RequestPlan, work
from assay.run.reopen import ReopenedRun, check_objects, check_secrets, open_recorded, recorded_spec, reopen
from assay.run.resolve import Setup, check_model, checked_scorers, unscored_task
from assay.run.session import (
    PreparedBatch,
    RunFeatures,
    RunOutcome,
    Session,
    make_result,
    plan_missing,
    run_batches,
    score,
)
from assay.scoring.aggregate import aggregate_groups
from assay.store.run_records import FINISHED, RunRecord
from assay.store.store import Store


@dataclass(frozen=True, slots=True)
class RescoreOptions:
    """Options for rescoring a recorded run.

    Attributes:
        scoring: `metric_list` and `filter_list` in place of the run's; with `adds` besides the run's metrics.
        completes: whether the run's model is opened for missing answers.
        model_args: model settings that replace recorded ones (secrets are not recorded).
        bootstrap_iters: resamples for lm-eval's standard errors; None for as many as the run had.
        tasks: task objects, for a run of task objects.
        model: the model itself, for a run of a model object.
    """

    scoring: Mapping[str, Any]
    completes: bool = False
    model_args: Mapping[str, Any] | None = None
    bootstrap_iters: int | None = None
    tasks: Sequence[Task] = ()
    model: Model | None = None


def rescore(
    store: Store, run: str, wanted: RescoreOptions, listener: Listener, features: RunFeatures | None = None
) -> RunResult:
    """The answers of a recorded run, scored as requested, as a run of their own.

    Args:
        store: open store with the run.
        run: its name, the start of it, or `last`.
        wanted: what to score, and whether missing answers may be requested.
        listener: receives events.
        features: schedule and analyses of the new run.
    """
    record = store.runs.get(run)
    check_objects(record, wanted.tasks)
    spec = rescored_spec(recorded_spec(record), wanted)
    session = Session(spec, store, listener, features=features or RunFeatures())
    reopened = reopen(session, record, wanted.tasks, scores_all=True)
    lacking = _find_missing(session, reopened)
    notices = (*reopened.notices, *_lost_notices(reopened, lacking, wanted.completes))
    for notice in (*notices, *store.notices):
        listener(Noticed(notice))
    if lacking.new and not wanted.completes:
        raise MissingAnswers(*_missing_faults(session, reopened, lacking))
    with _model_for(session, reopened, wanted, lacking.plan) as model:
        tasks = tuple(item.task for item in reopened.built)
        setup = Setup(tasks, reopened.scorers, reopened.groups, model, notices, reopened.combined)
        manifest = {
            **make_manifest(session.spec, record.fingerprint, reopened.built),
            "parent": record.id,
            "rescored": redacted(wanted.scoring),
        }
        schedule = session.features.schedule(session, setup)
        schedule.next_batch()  # its only one, which is built already
        batch = PreparedBatch(reopened.built, lacking.to_execute(wanted.completes))
        return run_batches(session, setup, schedule, batch, manifest)


def load(
    store: Store, record: RunRecord, tasks: Sequence[Task], listener: Listener, features: RunFeatures
) -> RunResult:
    """A recorded run with its documents and answers, scored as it was. No request is sent, and nothing is recorded.

    Args:
        store: the store that holds it.
        record: the run.
        tasks: task objects, for a run of task objects.
        listener: receives events.
        features: schedule and analyses of the recorded run.
    """
    check_objects(record, tasks)
    session = Session(recorded_spec(record), store, listener, features=features)
    reopened = reopen(session, record, tasks)
    lacking = _find_missing(session, reopened)
    outcome = score_reopened(session, reopened)
    notices = (*reopened.notices, *_lost_notices(reopened, lacking, False), *_changed_scores(record, outcome.tasks))
    plan = lacking.to_execute(completes=False)
    result = make_result(session, record.id, outcome, plan, NOTHING_EXECUTED, record.manifest)
    return _as_recorded(result, record, notices)


def score_reopened(session: Session, reopened: ReopenedRun) -> RunOutcome:
    """A reopened run, scored from its stored answers alone."""
    built = reopened.built
    if session.spec.options.predict_only:
        built = tuple(replace(item, task=unscored_task(item.task)) for item in built)
    tasks, model = tuple(item.task for item in built), _StoreOnlyModel(reopened.record.fingerprint)
    setup = Setup(tasks, tuple(checked_scorers(tasks)), reopened.groups, model, (), reopened.combined)
    with session.stage("score"):
        schedule = session.features.schedule(session, setup)
        results = schedule.complete(built, score(session, setup, built, NOTHING_EXECUTED))
        groups = aggregate_groups(setup.groups, results)
    return RunOutcome(session.spec, session.store, setup, 0, results, groups)


def _as_recorded(result: RunResult, record: RunRecord, notices: Sequence[str]) -> RunResult:
    """A loaded run with the recorded facts of the run itself: requests, failures, times, and its notices."""
    summary = record.summary or {}
    counts = summary.get("requests")
    failures = summary.get("failures", {})
    return replace(
        result,
        counts=result.counts if counts is None else RequestCounts.from_json(counts),
        failures={kind: (entry["count"], entry["example"]) for kind, entry in failures.items()},
        notices=(*(summary.get("notices", result.notices)), *notices),
        timings=summary.get("timings", {}),
        model_run=summary.get("model_run", {}),
    )


def _changed_scores(record: RunRecord, results: Sequence[TaskResult]) -> list[str]:
    """Notices of scores that differ from the recorded ones: scoring code or a package has changed since."""
    notices = []
    for task in results:
        known = {(item["metric"], item["filter"]): item for item in record.numbers(task.name).get("metrics", ())}
        for metric in task.metrics:
            then = known.get((metric.metric, metric.filter), {}).get("estimate", {}).get("value")
            now = metric.estimate.value
            if then is None or now is None:
                continue
            if not math.isclose(then, now, rel_tol=1e-9, abs_tol=1e-12):
                version = record.manifest.get("assay_version")
                notices.append(
                    f"{task.name}: {metric.metric} is {now:.6g}, and the run recorded {then:.6g}: the scoring has "
                    f"changed since (Assay {version} then, {__version__} now)"
                )
    return notices


def rescored_spec(spec: RunSpec, wanted: RescoreOptions) -> RunSpec:
    """The run's specification with the changes. A run that only recorded answers is scored too."""
    given = wanted.model_args or {}
    asked_with = [name for name, value in spec.options.generation.items() if is_hidden(value)]
    options = replace(
        spec.options,
        scoring=_combined(spec.options.scoring, wanted.scoring),
        predict_only=False,
        generation={**spec.options.generation, **{name: given[name] for name in asked_with if name in given}},
        metadata={**spec.options.metadata, **given},
    )
    iterations = spec.bootstrap_iters if wanted.bootstrap_iters is None else wanted.bootstrap_iters
    own = {name: value for name, value in given.items() if name not in asked_with or name in spec.model_args}
    arguments = {**spec.model_args, **(own if wanted.completes else {})}
    return replace(spec, options=options, bootstrap_iters=iterations, model_args=arguments)


def _combined(earlier: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes on top of changes: `adds` means besides what the run itself reported."""
    found = {**earlier, **changes}
    if changes.get("adds") and earlier.get("metric_list"):
        found["metric_list"] = [*earlier["metric_list"], *changes.get("metric_list", ())]
        found["adds"] = earlier.get("adds", False)
    elif "metric_list" in changes and not changes.get("adds"):
        found.pop("adds", None)
    return found


# Missing answers


@dataclass(frozen=True, slots=True)
class _MissingRequests:
    """Requests without an answer.

    Attributes:
        plan: all of them, and the total number of requests.
        new: keys of requests that only the changes need.
        lost: keys of requests that the run itself made, or would have made.
    """

    plan: RequestPlan
    new: frozenset[bytes]
    lost: frozenset[bytes]

    def to_execute(self, completes: bool) -> RequestPlan:
        """The plan of requests to send to the model: everything that is missing, or nothing."""
        return self.plan if completes else replace(self.plan, missing={}, works=())


def _find_missing(session: Session, reopened: ReopenedRun) -> _MissingRequests:
    with session.stage("plan"):
        plan = plan_missing(session, reopened.built)
    if not plan.missing:
        return _MissingRequests(plan, frozenset(), frozenset())
    own = {key for item in reopened.own for keys in item.keys.by_instance for key in keys}
    return _MissingRequests(plan, frozenset(plan.missing.keys() - own), frozenset(plan.missing.keys() & own))


def _lost_notices(reopened: ReopenedRun, lacking: _MissingRequests, completes: bool) -> list[str]:
    """A notice for an unfinished run: how many of its documents have no score."""
    if not lacking.lost:
        return []
    record, notices = reopened.record, []
    state = (
        f"run {record.id} is {record.status}" if record.status != FINISHED else f"answers of run {record.id} are gone"
    )
    for item in reopened.own:
        count = sum(not lacking.lost.isdisjoint(keys) for keys in item.keys.by_instance)
        if count and completes:
            notices.append(
                f"{item.task.card.name}: {state}: {count:,} of {len(item.documents):,} documents are completed"
            )
        elif count:
            rest = "they count as failed and are in no score; --complete requests what is missing"
            notices.append(
                f"{item.task.card.name}: {state}: {count:,} of {len(item.documents):,} documents lack answers; {rest}"
            )
    return notices


def _missing_faults(session: Session, reopened: ReopenedRun, lacking: _MissingRequests) -> list[Fault]:
    """Per task, the missing requests, their purpose and their cost."""
    faults, rest = [], set(lacking.plan.missing)
    for item in reopened.built:
        purposes: Counter[str] = Counter()
        size = 0
        for key, purpose, request in _missing_requests(item, rest):
            purposes[f"{request.kind} requests for {purpose}"] += 1
            size += work(request)
            rest.discard(key)
        if purposes:
            found = ", ".join(f"{count:,} {purpose}" for purpose, count in purposes.items())
            cost = f"they would cost {size:,} characters of work{_seconds(session, reopened, size)}"
            where = f"run {reopened.record.id}, task {item.task.card.name}"
            faults.append(Fault(where, f"the store lacks the answers to {found}; {cost}"))
    last = replace(faults[-1], next="Add --complete to ask the run's model for these and nothing else")
    return [*faults[:-1], last]


def _missing_requests(built: BuiltTask, missing: set[bytes]) -> Iterator[tuple[bytes, str, Request]]:
    seen: set[bytes] = set()
    for keys, instance in zip(built.keys.by_instance, built.instances, strict=True):
        for index, key in enumerate(keys):
            if key in missing and key not in seen:
                seen.add(key)
                yield key, _purpose(instance, index, built.task.scoring), instance.requests[index]


def _purpose(instance: Instance, index: int, scoring: Scoring) -> str:
    """The purpose of a document's request, in words."""
    kind, null = instance.part(index)
    if kind == "prompt":
        names = [spec.name for spec in scoring.metrics if spec.name in WHOLE_PROMPT_METRICS]
        return f"{', '.join(names)} (whole prompts)"
    if kind == "choice":
        return "the choices" if instance.choices else "the questions"
    names = [spec.name for spec in scoring.metrics if spec.name in NULL_PROMPTS and null_prompt(spec) == null]
    return f"{', '.join(names)} (choices {f'after {null!r} alone' if null else 'without a question'})"


def _seconds(session: Session, reopened: ReopenedRun, size: int) -> str:
    """The estimated time, if the store has the model's speed; from the run itself if that sent every request."""
    record, runs = reopened.record, session.store.runs
    speed = runs.speed(record.fingerprint)
    summary = record.summary or {}
    if speed is None and summary.get("requests", {}).get("known") == 0:
        seconds = summary.get("speed", {}).get("seconds", 0)
        requests = {key: request for item in reopened.own for key, request in item.keys.requests.items()}
        speed = sum(map(work, requests.values())) / seconds if seconds > 0 else None
    if speed is None:
        return ""
    seconds = size / speed
    return f", about {seconds:.0f} s at the model's speed so far" if seconds >= 1 else ", less than a second"


# The model


class _StoreOnlyModel:
    """Replaces a model that is not loaded: it has the fingerprint, and answers nothing."""

    def __init__(self, fingerprint: Fingerprint) -> None:
        self.fingerprint = fingerprint
        self.capabilities = Capabilities(frozenset(), family="store")

    def respond(self, requests: Sequence[Request]) -> Iterator[tuple[int, Output | Failure]]:
        return iter(())

    def close(self) -> None:
        pass


@contextmanager
def _model_for(session: Session, reopened: ReopenedRun, wanted: RescoreOptions, plan: RequestPlan) -> Iterator[Model]:
    """The run's model if requests are to be executed, else its replacement."""
    record = reopened.record
    if not wanted.completes or not plan.missing:
        yield _StoreOnlyModel(record.fingerprint)
        return
    model = wanted.model
    check_secrets(record, session.spec.options.generation, "asked")
    if model is None:
        model = open_recorded(record, session.spec, session.listener, session.store)
    try:
        _check_same(record, model)
        check_model(model, [item.task for item in reopened.built], session.spec.options.chat)
        yield model
    finally:
        if wanted.model is None:
            model.close()


def _check_same(record: RunRecord, model: Model) -> None:
    differences = record.fingerprint.differences(model.fingerprint)
    if not differences:
        return
    shown = "; ".join(f"{name} was {then!r}, is {now!r}" for name, (then, now) in differences.items())
    advice = "Put the model back as it was, or rerun the tasks with this one"
    raise ModelError(Fault(f"run {record.id}", f"its model has changed: {shown}", "the same model", advice))
