"""Scores made-up answers to the first document of every task: settings that cannot work are an error before the run.

Only filters and metrics of Assay's own are tried, which are pure. Code of tasks and plugins is never run twice: it may
draw at random, count, or ask somebody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.core.errors import Fault, UserError
from assay.core.requests import ChoiceSelection, Classification, Generation, Request, SpanExtraction
from assay.core.responses import LabelScores, Logprob, Output, Text
from assay.run.build import BuiltTask
from assay.scoring.document_scorer import DocumentScorer
from assay.scoring.problems import with_location

_UNLIKELY = -10.0
# What a model may write: what fails for both fails whatever is answered.
_TEXTS = ("", "The answer is (A), 7.")


def check_scorers(built: Sequence[BuiltTask], scorers: Sequence[DocumentScorer]) -> None:
    """Refuses tasks whose filters or metrics cannot score their first document, whatever is answered."""
    faults = [fault for item, scorer in zip(built, scorers, strict=True) for fault in _faults(item, scorer)]
    if faults:
        raise UserError(*faults)


def _faults(built: BuiltTask, scorer: DocumentScorer) -> Iterator[Fault]:
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
    """What scoring the first document raises if this is what a model writes."""
    instance = built.instances[0]
    try:
        scorer.score(built.documents[0], instance, [_fake_output(request, text) for request in instance.requests])
    except Exception as error:
        return error
    return None


def _fake_output(request: Request, text: str) -> Output:
    if isinstance(request, (Generation, SpanExtraction)):
        return Text(text)
    if isinstance(request, (Classification, ChoiceSelection)):
        size = len(request.labels if isinstance(request, Classification) else request.choices)
        return LabelScores((_UNLIKELY,) * size)
    return Logprob(_UNLIKELY, 1, False)
