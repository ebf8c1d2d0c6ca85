"""Brings instances and answers together by key, scores them, and makes a task's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from assay.core.answers import is_above_one
from assay.core.interrupts import received
from assay.core.reporting import Report, reported, unheard
from assay.core.requests import Instance
from assay.core.responses import Failure, Text
from assay.core.results import Answered, Problem, TaskResult
from assay.core.scores import Denominators, Sample
from assay.guard.clock import many_limited
from assay.run.execute import Executed
from assay.run.golds import has_invalid_gold
from assay.run.posing import PosedTask, left_out_count
from assay.scoring.aggregate import aggregate_task, clusters_of, directions
from assay.scoring.documents import DocumentScorer
from assay.scoring.drawing import draw_counts
from assay.scoring.failing import with_bounds
from assay.scoring.problems import nothing_scored, problem_of
from assay.scoring.rates import answer_rates, misses_by_space
from assay.scoring.reliability import asks_reliability, task_reliability
from assay.scoring.texts import text_counts
from assay.store.responses import Responses

_DOCUMENTS_AT_ONCE = 5000
_MISSING = Failure("missing", "the store holds no answer to this request")


def score_task(
    posed: PosedTask,
    scorer: DocumentScorer,
    responses: Responses,
    executed: Executed,
    bootstrap_iters: int,
    report: Report = unheard,
) -> TaskResult:
    """A task's samples, metrics and denominators; whatever scoring raises is raised."""
    return _scored(posed, scorer, answered_documents(posed, responses, executed), bootstrap_iters, report)


def scored_task(
    posed: PosedTask,
    scorer: DocumentScorer,
    responses: Responses,
    executed: Executed,
    bootstrap_iters: int,
    report: Report = unheard,
) -> TaskResult:
    """The same for a task among others: what cannot be scored has a `problem` in place of metrics."""
    answered, where = answered_documents(posed, responses, executed), f"task {posed.task.card.name}"
    try:
        result = _scored(posed, scorer, answered, bootstrap_iters, report)
    except Exception as error:  # code of tasks and plugins may raise anything, and the other tasks are to be reported
        if received() is not None:  # a library made something else of a signal
            raise
        return _unscored(posed, answered, problem_of(error, where))
    return replace(result, problem=nothing_scored(result.denominators, where))


def _unscored(posed: PosedTask, answered: list[Answered], problem: Problem) -> TaskResult:
    failed = sum(any(isinstance(output, Failure) for output in item.outputs) for item in answered)
    counts = Denominators(posed.available, len(answered), 0, failed, left_out=left_out_count(posed.task))
    prompts, pipelines = posed.keys.prompts, posed.task.scoring.pipelines
    return TaskResult(
        posed.task.card, (), counts, posed.fingerprint, prompts, answered, pipelines=pipelines, problem=problem
    )


def without_score(result: TaskResult, problem: Problem) -> TaskResult:
    """A result whose numbers do not hold after all."""
    counts = replace(result.denominators, scored=0)
    return replace(result, metrics=(), rates=(), samples=(), denominators=counts, problem=problem)


def _scored(
    posed: PosedTask, scorer: DocumentScorer, answered: list[Answered], bootstrap_iters: int, report: Report
) -> TaskResult:
    samples, scoring = _samples(posed, answered, scorer, report), posed.task.scoring
    clusters = clusters_of(answered)
    metrics = aggregate_task(scoring, samples, bootstrap_iters, f"task {posed.task.card.name}", clusters, report)
    denominators = _denominators(posed, scorer, answered, samples)
    return TaskResult(
        card=posed.task.card,
        metrics=with_bounds(scoring, metrics, samples, denominators.failed),
        denominators=denominators,
        fingerprint=posed.fingerprint,
        prompts=posed.keys.prompts,
        answered=answered,
        samples=samples,
        directions=directions(scoring, metrics),
        rates=answer_rates(posed.task.card.kind, scorer, answered, samples, clusters),
        pipelines=scoring.pipelines,
        texts=text_counts(posed.task.card.kind, answered, samples),
        reliability=task_reliability(answered) if asks_reliability(metrics) else None,
    )


def score_documents(
    posed: PosedTask, scorer: DocumentScorer, responses: Responses, executed: Executed, report: Report = unheard
) -> tuple[list[Answered], list[Sample]]:
    """A task's documents with their answers, and the samples of those without a failure."""
    answered = answered_documents(posed, responses, executed)
    return answered, _samples(posed, answered, scorer, report)


def _samples(posed: PosedTask, answered: list[Answered], scorer: DocumentScorer, report: Report) -> list[Sample]:
    samples: list[Sample] = []
    with many_limited():
        for item in reported(answered, f"scoring {posed.task.card.name}", report):
            outputs = [output for output in item.outputs if not isinstance(output, Failure)]
            if len(outputs) == len(item.outputs):
                samples.extend(scorer.score(item.document, item.instance, outputs))
    return samples


def answered_documents(posed: PosedTask, responses: Responses, executed: Executed) -> list[Answered]:
    """A task's documents with their answers."""
    return list(_answered(posed, responses, executed))


def _answered(posed: PosedTask, responses: Responses, executed: Executed) -> Iterator[Answered]:
    """Documents with their answers: those of this run are at hand, the others come from the store."""
    at_hand, keys = executed.answers, posed.keys.by_instance
    for start in range(0, len(posed.documents), _DOCUMENTS_AT_ONCE):
        part = range(start, min(start + _DOCUMENTS_AT_ONCE, len(posed.documents)))
        found = responses.get(list({key for place in part for key in keys[place] if key not in at_hand}))
        for place in part:
            outputs = tuple([at_hand.get(key) or found.get(key) or _lost(responses, key) for key in keys[place]])
            yield Answered(posed.documents[place], posed.instances[place], outputs)


def _lost(responses: Responses, key: bytes) -> Failure:
    """Why the store has no answer."""
    fault = responses.unreadable.get(key)
    return _MISSING if fault is None else Failure("unreadable", f"the stored answer cannot be read: {fault}")


def _denominators(
    posed: PosedTask, scorer: DocumentScorer, answered: list[Answered], samples: list[Sample]
) -> Denominators:
    notes: Counter[str] = Counter()
    failed = truncated = cut_off = 0
    for item in answered:
        outputs = [output for output in item.outputs if not isinstance(output, Failure)]
        odd = [output for output in outputs if output.truncated or output.notes]
        if any(map(is_above_one, outputs)):
            notes["positive_logprob"] += 1
        failed += len(outputs) < len(item.outputs)
        truncated += any(output.truncated for output in odd)
        if outputs and type(outputs[0]) is Text:
            cut_off += any(output.is_cut_off for output in outputs if isinstance(output, Text))
        for output in odd:
            notes.update(output.notes)
        if item.instance.notes:
            notes.update(item.instance.notes)
        if item.instance.nulls:
            notes -= _meant(item)
        if item.instance.choices and not _is_usual(item.instance):
            notes.update(_choice_notes(item.instance))
    unparsed = dict.fromkeys(scorer.extracting, 0)
    for sample in samples if unparsed else ():
        if scorer.is_unparsed(sample):
            unparsed[sample.filter] += 1
    return Denominators(
        available=posed.available,
        total=len(answered),
        scored=len(answered) - failed,
        failed=failed,
        truncated=truncated,
        unparsed=unparsed,
        notes=dict(notes),
        draws=draw_counts(answered, samples),
        cut_off=cut_off,
        left_out=left_out_count(posed.task),
        misses_by_space=_misses_by_space(scorer, answered, samples),
    )


def _misses_by_space(scorer: DocumentScorer, answered: list[Answered], samples: list[Sample]) -> dict[str, int]:
    instances = {item.document.id: item.instance for item in answered}
    return dict(
        Counter(sample.filter for sample in samples if misses_by_space(scorer, instances[sample.document_id], sample))
    )


def _meant(item: Answered) -> Counter[str]:
    """Notes of prompts that are empty because a metric wants them so."""
    meant = [output for place, output in enumerate(item.outputs) if item.instance.part(place) == ("null", "")]
    return Counter(note for output in meant if not isinstance(output, Failure) for note in output.notes)


def _is_usual(instance: Instance) -> bool:
    """Whether a question has several different choices and one right place among them: nearly every one, told fast."""
    choices, gold = instance.choices, instance.gold
    size = len(choices)
    return size > 1 and type(gold) is int and 0 <= gold < size and len({"", *choices}) > size


def _choice_notes(instance: Instance) -> list[str]:
    """What is odd about a multiple-choice question."""
    choices = instance.choices
    found = ["invalid_gold"] if has_invalid_gold(instance) else []
    if len(choices) == 1:
        found.append("single_choice")
    if len(set(choices)) < len(choices):
        found.append("equal_choices")
    if "" in choices:
        found.append("empty_choice")
    return found
