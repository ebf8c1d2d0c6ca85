"""Matches instances with answers by key, scores them, and makes a task's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from assay.core.errors import Fault, UserError
from assay.core.interrupts import received_signal
from assay.core.output_checks import is_above_probability_one
from assay.core.protocols import ProgressCallback, ignore_progress
from assay.core.requests import ChoiceSelection, Classification, Generation, Instance, Rating, Request, SpanExtraction
from assay.core.responses import Failure, LabelScores, Logprob, Output, Text
from assay.core.results import AnsweredDocument, Problem, TaskResult
from assay.core.scores import Denominators, Sample
from assay.guard.time_limit import keep_limit_timer
from assay.run.build import BuiltTask, has_invalid_gold, left_out_count
from assay.run.events import with_progress
from assay.run.execute import Executed
from assay.scoring.aggregate import aggregate_task, directions, document_clusters
from assay.scoring.answer_counts import answer_rates, draw_counts, misses_by_space, text_counts
from assay.scoring.document_scorer import DocumentScorer
from assay.scoring.failure_bounds import with_bounds
from assay.scoring.problems import nothing_scored, problem_of, with_location
from assay.store.response_table import Responses

_DOCUMENTS_AT_ONCE = 5000
_UNLIKELY = -10.0
# Trial answers: scoring that fails for both fails for any answer.
_TEXTS = ("", "The answer is (A), 7.")


def scored_task(
    built: BuiltTask,
    scorer: DocumentScorer,
    responses: Responses,
    executed: Executed,
    bootstrap_iters: int,
    report: ProgressCallback = ignore_progress,
) -> TaskResult:
    """A task's samples, metrics and denominators; a task that cannot be scored has a `problem` instead of metrics."""
    answered, where = answered_documents(built, responses, executed), f"task {built.task.card.name}"
    try:
        result = _scored(built, scorer, answered, bootstrap_iters, report)
    except Exception as error:  # code of tasks and plugins may raise anything, and the other tasks are to be reported
        if received_signal() is not None:  # a library made something else of a signal
            raise
        return _unscored(built, answered, problem_of(error, where))
    is_scored = result.denominators.scored > 0
    return result if is_scored else replace(result, problem=nothing_scored(result.denominators, where))


def _unscored(built: BuiltTask, answered: list[AnsweredDocument], problem: Problem) -> TaskResult:
    failed = sum(any(isinstance(output, Failure) for output in item.outputs) for item in answered)
    counts = Denominators(built.available, len(answered), 0, failed, left_out=left_out_count(built.task))
    prompts, pipelines = built.keys.prompts, built.task.scoring.pipelines
    return TaskResult(
        built.task.card, (), counts, built.fingerprint, prompts, answered, pipelines=pipelines, problem=problem
    )


def without_score(result: TaskResult, problem: Problem) -> TaskResult:
    """A result without its numbers, which turned out to be invalid."""
    counts = replace(result.denominators, scored=0)
    return replace(result, metrics=(), rates=(), samples=(), denominators=counts, problem=problem)


def _scored(
    built: BuiltTask,
    scorer: DocumentScorer,
    answered: list[AnsweredDocument],
    bootstrap_iters: int,
    report: ProgressCallback,
) -> TaskResult:
    samples, scoring = _samples(built, answered, scorer, report), built.task.scoring
    clusters = document_clusters(answered)
    metrics = aggregate_task(scoring, samples, bootstrap_iters, f"task {built.task.card.name}", clusters, report)
    denominators = _denominators(built, scorer, answered, samples)
    return TaskResult(
        card=built.task.card,
        metrics=with_bounds(scoring, metrics, samples, denominators.failed) if denominators.failed else metrics,
        denominators=denominators,
        fingerprint=built.fingerprint,
        prompts=built.keys.prompts,
        answered=answered,
        samples=samples,
        directions=directions(scoring, metrics),
        rates=answer_rates(built.task.card.kind, scorer, answered, samples, clusters),
        pipelines=scoring.pipelines,
        texts=text_counts(built.task.card.kind, answered, samples),
    )


def score_documents(
    built: BuiltTask,
    scorer: DocumentScorer,
    responses: Responses,
    executed: Executed,
    report: ProgressCallback = ignore_progress,
) -> tuple[list[AnsweredDocument], list[Sample]]:
    """A task's documents with their answers, and the samples of those without a failure."""
    answered = answered_documents(built, responses, executed)
    return answered, _samples(built, answered, scorer, report)


def _samples(
    built: BuiltTask, answered: list[AnsweredDocument], scorer: DocumentScorer, report: ProgressCallback
) -> list[Sample]:
    samples: list[Sample] = []
    with keep_limit_timer():
        for item in with_progress(answered, f"scoring {built.task.card.name}", report):
            outputs = [output for output in item.outputs if not isinstance(output, Failure)]
            if len(outputs) == len(item.outputs):
                samples.extend(scorer.score(item.document, item.instance, outputs))
    return samples


def answered_documents(built: BuiltTask, responses: Responses, executed: Executed) -> list[AnsweredDocument]:
    """A task's documents with their answers."""
    return list(_answered(built, responses, executed))


def _answered(built: BuiltTask, responses: Responses, executed: Executed) -> Iterator[AnsweredDocument]:
    """Documents with their answers: those of this run are in memory, the others come from the store."""
    at_hand, keys = executed.answers, built.keys.by_instance
    for start in range(0, len(built.documents), _DOCUMENTS_AT_ONCE):
        part = range(start, min(start + _DOCUMENTS_AT_ONCE, len(built.documents)))
        found = responses.get(list({key for index in part for key in keys[index] if key not in at_hand}))
        for index in part:
            outputs = tuple(
                [at_hand.get(key) or found.get(key) or _missing_answer_reason(responses, key) for key in keys[index]]
            )
            yield AnsweredDocument(built.documents[index], built.instances[index], outputs)


def _missing_answer_reason(responses: Responses, key: bytes) -> Failure:
    """Why the store has no answer."""
    fault = responses.unreadable.get(key)
    if fault is None:
        return Failure("missing", "the store holds no answer to this request")
    return Failure("unreadable", f"the stored answer cannot be read: {fault}")


def _denominators(
    built: BuiltTask, scorer: DocumentScorer, answered: list[AnsweredDocument], samples: list[Sample]
) -> Denominators:
    notes: Counter[str] = Counter()
    failed = truncated = cut_off = 0
    for item in answered:
        outputs = [output for output in item.outputs if not isinstance(output, Failure)]
        odd = [output for output in outputs if output.truncated or output.notes]
        if any(map(is_above_probability_one, outputs)):
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
            notes -= _intended_notes(item)
        if item.instance.choices and not _is_standard_multiple_choice(item.instance):
            notes.update(_choice_notes(item.instance))
    unparsed = dict.fromkeys(scorer.extracting_pipelines, 0)
    for sample in samples if unparsed else ():
        if scorer.is_unparsed(sample):
            unparsed[sample.filter] += 1
    return Denominators(
        available=built.available,
        total=len(answered),
        scored=len(answered) - failed,
        failed=failed,
        truncated=truncated,
        unparsed=unparsed,
        notes=dict(notes),
        draws=draw_counts(answered, samples),
        cut_off=cut_off,
        left_out=left_out_count(built.task),
        misses_by_space=_misses_by_space(scorer, answered, samples),
    )


def _misses_by_space(scorer: DocumentScorer, answered: list[AnsweredDocument], samples: list[Sample]) -> dict[str, int]:
    instances = {item.document.id: item.instance for item in answered}
    return dict(
        Counter(sample.filter for sample in samples if misses_by_space(scorer, instances[sample.document_id], sample))
    )


def _intended_notes(item: AnsweredDocument) -> Counter[str]:
    """Notes of prompts that are empty because a metric requires it."""
    intended = [output for index, output in enumerate(item.outputs) if item.instance.part(index) == ("null", "")]
    return Counter(note for output in intended if not isinstance(output, Failure) for note in output.notes)


def _is_standard_multiple_choice(instance: Instance) -> bool:
    """Whether a question has several different choices and one right index among them, as nearly all have."""
    choices, gold = instance.choices, instance.gold
    size = len(choices)
    return size > 1 and type(gold) is int and 0 <= gold < size and len({"", *choices}) > size


def _choice_notes(instance: Instance) -> list[str]:
    """The peculiarities of a multiple-choice question."""
    choices = instance.choices
    found = ["invalid_gold"] if has_invalid_gold(instance) else []
    if len(choices) == 1:
        found.append("single_choice")
    if len(set(choices)) < len(choices):
        found.append("equal_choices")
    if "" in choices:
        found.append("empty_choice")
    return found


# Trial scoring: made-up answers to the first document of every task.
#
# Only filters and metrics of Assay's own are tried, which are pure. Code of tasks and plugins is never run twice: it
# may draw at random, count, or call a service.


def check_scorers(built: Sequence[BuiltTask], scorers: Sequence[DocumentScorer]) -> None:
    """Rejects tasks whose filters or metrics cannot score their first document, whatever the answer."""
    faults = [fault for item, scorer in zip(built, scorers, strict=True) for fault in _scorer_faults(item, scorer)]
    if faults:
        raise UserError(*faults)


def _scorer_faults(built: BuiltTask, scorer: DocumentScorer) -> Iterator[Fault]:
    if not built.instances:
        return
    errors = [_raised(built, scorer.without_foreign_code(), text) for text in _TEXTS]
    error, where = errors[0], f"task {built.task.card.name}"
    if error is None or None in errors:  # some answers can be scored
        return
    if isinstance(error, UserError):
        yield from (with_location(fault, where) for fault in error.faults)
    else:  # settings of a wrong kind: a text for a number, a pattern that does not compile, …
        found = f"its filters or metrics cannot score an answer with their settings: {type(error).__name__}: {error}"
        advice = "Check filter_list and metric_list. See: assay ls filters, assay ls metrics"
        yield Fault(f"{where}, document {built.documents[0].id}", found, next=advice)


def _raised(built: BuiltTask, scorer: DocumentScorer, text: str) -> Exception | None:
    """The error of scoring the first document if a model generates this text."""
    instance = built.instances[0]
    try:
        scorer.score(built.documents[0], instance, [_fake_output(request, text) for request in instance.requests])
    except Exception as error:
        return error
    return None


def _fake_output(request: Request, text: str) -> Output:
    if isinstance(request, (Generation, SpanExtraction, Rating)):
        return Text(text)
    if isinstance(request, (Classification, ChoiceSelection)):
        size = len(request.labels if isinstance(request, Classification) else request.choices)
        return LabelScores((_UNLIKELY,) * size)
    return Logprob(_UNLIKELY, 1, False)
