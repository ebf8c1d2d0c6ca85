"""Brings instances and answers together by key, scores them, and makes a task's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from assay.core.requests import Instance
from assay.core.responses import Failure, LabelScores, Logprob, Output, Text
from assay.core.results import Answered, TaskResult
from assay.core.scores import Denominators, Sample
from assay.run.execute import Executed
from assay.run.golds import has_invalid_gold
from assay.run.posing import PosedTask, left_out_count
from assay.scoring.aggregate import aggregate_task, clusters_of, directions
from assay.scoring.documents import DocumentScorer
from assay.scoring.drawing import draw_counts
from assay.scoring.failing import with_bounds
from assay.scoring.rates import answer_rates, misses_by_space
from assay.scoring.reliability import asks_reliability, task_reliability
from assay.scoring.texts import text_counts
from assay.store.responses import Responses

_DOCUMENTS_AT_ONCE = 5000
# What the log-probability of a token may be above 0 by rounding.
_ROUNDING = 1e-3
_MISSING = Failure("missing", "the store holds no answer to this request")


def score_task(
    posed: PosedTask,
    scorer: DocumentScorer,
    responses: Responses,
    executed: Executed,
    bootstrap_iters: int,
) -> TaskResult:
    """A task's samples, metrics and denominators."""
    answered, samples = score_documents(posed, scorer, responses, executed)
    scoring = posed.task.scoring
    clusters = clusters_of(answered)
    metrics = aggregate_task(scoring, samples, bootstrap_iters, f"task {posed.task.card.name}", clusters)
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
    posed: PosedTask, scorer: DocumentScorer, responses: Responses, executed: Executed
) -> tuple[list[Answered], list[Sample]]:
    """A task's documents with their answers, and the samples of those without a failure."""
    answered = list(_answered(posed, responses, executed))
    samples: list[Sample] = []
    for item in answered:
        outputs = [output for output in item.outputs if not isinstance(output, Failure)]
        if len(outputs) == len(item.outputs):
            samples.extend(scorer.score(item.document, item.instance, outputs))
    return answered, samples


def _answered(posed: PosedTask, responses: Responses, executed: Executed) -> Iterator[Answered]:
    """Documents with their answers: those of this run are at hand, the others come from the store."""
    at_hand, keys = executed.answers, posed.keys.by_instance
    for start in range(0, len(posed.documents), _DOCUMENTS_AT_ONCE):
        part = range(start, min(start + _DOCUMENTS_AT_ONCE, len(posed.documents)))
        found = responses.get(list({key for place in part for key in keys[place] if key not in at_hand}))
        for place in part:
            outputs = tuple([at_hand.get(key) or found.get(key) or _MISSING for key in keys[place]])
            yield Answered(posed.documents[place], posed.instances[place], outputs)


def _denominators(
    posed: PosedTask, scorer: DocumentScorer, answered: list[Answered], samples: list[Sample]
) -> Denominators:
    notes: Counter[str] = Counter()
    failed = truncated = cut_off = 0
    for item in answered:
        outputs = [output for output in item.outputs if not isinstance(output, Failure)]
        odd = [output for output in outputs if output.truncated or output.notes]
        if any(map(_is_above_one, outputs)):
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


def _is_above_one(output: Output) -> bool:
    """Whether a log-likelihood stands for a probability above 1; sums of rounded numbers may miss 0 by a little."""
    if isinstance(output, Logprob):
        return output.total > 0 and output.total > _ROUNDING * max(1, output.token_count)
    return isinstance(output, LabelScores) and any(score > _ROUNDING for score in output.scores)


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
