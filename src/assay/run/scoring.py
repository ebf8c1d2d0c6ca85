"""Brings instances and answers together by key, scores them, and makes a task's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from assay.core.requests import Instance
from assay.core.responses import Failure, Text
from assay.core.results import Answered, TaskResult
from assay.core.scores import Denominators, Sample
from assay.run.execute import Executed
from assay.run.posing import PosedTask
from assay.scoring.aggregate import aggregate_task, clusters_of, directions
from assay.scoring.documents import DocumentScorer
from assay.scoring.drawing import draw_counts
from assay.scoring.rates import answer_rates
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
) -> TaskResult:
    """A task's samples, metrics and denominators."""
    answered, samples = score_documents(posed, scorer, responses, executed)
    scoring = posed.task.scoring
    clusters = clusters_of(answered)
    metrics = aggregate_task(scoring, samples, bootstrap_iters, f"task {posed.task.card.name}", clusters)
    return TaskResult(
        card=posed.task.card,
        metrics=metrics,
        denominators=_denominators(posed, scorer, answered, samples),
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
        failed += len(outputs) < len(item.outputs)
        truncated += any(output.truncated for output in odd)
        if outputs and type(outputs[0]) is Text:
            cut_off += any(output.is_cut_off for output in outputs if isinstance(output, Text))
        for output in odd:
            notes.update(output.notes)
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
    found = ["invalid_gold"] if _has_invalid_gold(instance) else []
    if len(choices) == 1:
        found.append("single_choice")
    if len(set(choices)) < len(choices):
        found.append("equal_choices")
    if "" in choices:
        found.append("empty_choice")
    return found


def _has_invalid_gold(instance: Instance) -> bool:
    """Whether a multiple-choice question's right answer is none of its choices (an unlabelled split, say)."""
    size = len(instance.choices)
    golds = instance.gold if isinstance(instance.gold, tuple) else (instance.gold,)
    places = [gold for gold in golds if isinstance(gold, int)]
    if places or not golds:
        return not golds or bool([place for place in places if not 0 <= place < size])
    # The right label of a generated answer is a text; where there is none, the target is still a place.
    return type(instance.target) is int and not -size <= instance.target < size
