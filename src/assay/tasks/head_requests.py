"""Tasks for a model with a classifier head: one request per document, built from its format instead of a prompt.

Takes a task whose documents have a format, gives a task that builds requests for heads and scores their answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.core.documents import Document
from assay.core.errors import DataError, Fault
from assay.core.formats import (
    LabelledText,
    MultipleChoice,
    Question,
    RatedText,
    SpanQuestion,
    TextToText,
    as_multiple_choice,
)
from assay.core.metric_names import family_of
from assay.core.protocols import (
    DataRead,
    HasFormat,
    ProvidesTrainingExamples,
    ReadsDataset,
    ReportsNotices,
    Task,
)
from assay.core.requests import ChoiceSelection, Classification, Instance, Rating, Request, SpanExtraction
from assay.core.specs import MetricSpec, Scoring, TaskCard
from assay.core.training import TrainingExample

# Key of a task's recorded definition: the kind of requests that a head answered.
HEAD_KEY = "head"
# The output types of heads' answers, as named in scoring.
_SCORES, _TEXT = "label_scores", "generate_until"
_NAMES = {
    LabelledText: "texts with classes",
    MultipleChoice: "multiple-choice questions",
    SpanQuestion: "questions answered by a span of a text",
    TextToText: "texts to be turned into others",
    RatedText: "texts with a number",
}
# Metrics of the heads whose answers are texts.
_OF_TEXTS = {SpanExtraction.kind: ("squad_em", "squad_f1"), Rating.kind: ("pearson", "spearman")}


def head_request_kind(question: Question, kinds: Collection[str]) -> str | None:
    """Request kind, of those that a model answers, that fits a question; None if none does."""
    if isinstance(question, SpanQuestion):
        wanted: tuple[str, ...] = (SpanExtraction.kind,)
    elif isinstance(question, RatedText):
        wanted = (Rating.kind,)
    elif isinstance(question, LabelledText):
        wanted = (Classification.kind, ChoiceSelection.kind)
    else:
        wanted = (ChoiceSelection.kind,) if isinstance(question, MultipleChoice) else ()
    return next((kind for kind in wanted if kind in kinds), None)


def head_request(question: Question, kind: str) -> Request | None:
    """A question as a request of a kind; None if it has another format."""
    if isinstance(question, SpanQuestion) and kind == SpanExtraction.kind:
        return SpanExtraction(question.question, question.context, question.may_lack)
    if isinstance(question, RatedText):
        return Rating(question.text, question.pair) if kind == Rating.kind else None
    if isinstance(question, LabelledText) and kind == Classification.kind:
        return Classification(question.text, _stripped(question.labels), question.pair)
    chosen = as_multiple_choice(question)
    if chosen is None or kind != ChoiceSelection.kind:
        return None
    return ChoiceSelection(f"{chosen.context}\n{chosen.question}".strip(), _stripped(chosen.choices))


def _stripped(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(text.strip() for text in texts)


def as_head_task(task: Task, kinds: Collection[str], metrics: Mapping[str, Collection[str]]) -> HeadTask | None:
    """The task as requests to a head; None if it has no format, or none of these kinds fits it.

    Args:
        task: the task. Its first document determines the format of all.
        kinds: request kinds that the model answers.
        metrics: metric → output types that it scores.
    """
    question = _first_question(task)
    kind = None if question is None else head_request_kind(question, kinds)
    if question is None or kind is None:
        return None
    labels = _stripped(question.labels) if isinstance(question, LabelledText) else ()
    scoring, caveats = _scoring(task.scoring, kind, metrics)
    if task.card.num_fewshot:
        caveats += (f"a classifier head gets no few-shot examples (the task has {task.card.num_fewshot})",)
    return HeadTask(task, kind, labels, scoring, caveats)


def why_no_head_fits(task: Task, kinds: Collection[str]) -> str:
    """Reason why no head of these kinds can answer a task."""
    question = _first_question(task)
    if question is None:
        return "the task states no format, and none was found in its prompts, so its head cannot be queried"
    heads = ", ".join(sorted(kinds))
    return f"the task's documents are {_NAMES[type(question)]}, which a head for {heads} cannot answer"


def _first_question(task: Task) -> Question | None:
    documents = task.documents() if isinstance(task, HasFormat) else ()
    return task.question(documents[0]) if isinstance(task, HasFormat) and documents else None


def _scoring(own: Scoring, kind: str, metrics: Mapping[str, Collection[str]]) -> tuple[Scoring, tuple[str, ...]]:
    """Scoring of a head's answers, with caveats for the user."""
    if kind in _OF_TEXTS:
        return _text_scoring(own, _OF_TEXTS[kind]), ()
    if own.process is not None:
        caveat = "its own scoring (process_results) cannot read a head's scores; acc is reported instead"
        return Scoring(_SCORES, (MetricSpec("acc"),)), (caveat,)
    kept = tuple(
        spec for spec in own.metrics if spec.function is None and _SCORES in metrics.get(family_of(spec.name), ())
    )
    lost = [spec.name for spec in own.metrics if spec not in kept]
    message = f"a head's scores do not give {', '.join(lost)}: left out{'' if kept else ', acc is reported instead'}"
    return Scoring(_SCORES, kept or (MetricSpec("acc"),)), (message,) if lost else ()


def _text_scoring(own: Scoring, usual: Sequence[str]) -> Scoring:
    is_text = own.scorer == _TEXT and own.process is None
    names = {spec.name for spec in own.metrics}
    if is_text and not names.isdisjoint((*usual, "bypass")):
        return Scoring(_TEXT, own.metrics)
    return Scoring(_TEXT, tuple(map(MetricSpec, usual)))


@dataclass(frozen=True, slots=True)
class HeadTask:
    """A task whose documents become requests to a head. Satisfies the `Task` protocol.

    Attributes:
        task: the task in its form for language models.
        kind: kind of its requests.
        labels: names of its classes; empty for another format.
        scoring: how the head's answers are scored.
        caveats: caveats to report to the user.
    """

    task: Task
    kind: str
    labels: tuple[str, ...]
    scoring: Scoring
    caveats: tuple[str, ...] = ()

    @property
    def card(self) -> TaskCard:
        card = self.task.card
        config = {**card.config, "num_fewshot": 0, HEAD_KEY: self.kind}
        # A head reads the document's fields: no style, prompt, seed or order of the task reaches it.
        return replace(card, kind=self.kind, num_fewshot=0, config=config, variant=None)

    def documents(self) -> Sequence[Document]:
        return self.task.documents()

    def build(self, document: Document) -> Instance:
        """One request, built from the document's question."""
        question = self.question(document)
        request = None if question is None else head_request(question, self.kind)
        if question is None or request is None:
            where = f"task {document.task}, document {document.id}"
            found = f"no question for a {self.kind} request was found in it"
            raise DataError(Fault(where, found, "the same format in all documents", "State it with a key format:"))
        gold, target = _right(question)
        choices = _choices(request)
        return Instance(document.task, document.id, (request,), choices=choices, target=target, gold=gold)

    def question(self, document: Document) -> Question | None:
        return self.task.question(document) if isinstance(self.task, HasFormat) else None

    def open_data(self) -> None:
        if isinstance(self.task, ReadsDataset):
            self.task.open_data()

    def data_read(self) -> DataRead:
        return self.task.data_read() if isinstance(self.task, ReadsDataset) else DataRead({}, {}, {})

    def training_examples(self, part: str, kinds: frozenset[str]) -> Sequence[TrainingExample]:
        if isinstance(self.task, ProvidesTrainingExamples):
            return self.task.training_examples(part, kinds)
        raise DataError(Fault(f"task {self.task.card.name}", "has no documents to learn from", "a task file"))

    def notices(self) -> list[str]:
        own = list(self.task.notices()) if isinstance(self.task, ReportsNotices) else []
        return own + [f"{self.task.card.name}: {caveat}" for caveat in self.caveats]


def _choices(request: Request) -> tuple[str, ...]:
    if isinstance(request, Classification):
        return request.labels
    return request.choices if isinstance(request, ChoiceSelection) else ()


def _right(question: Question) -> tuple[Any, Any]:
    """The right answer as scorers read it, and as the sample log shows it."""
    if isinstance(question, SpanQuestion):
        return question.answers, list(question.answers)
    if isinstance(question, TextToText):
        return question.targets, list(question.targets)
    if isinstance(question, RatedText):
        return str(question.value), question.value
    answer = question.answer
    return answer, list(answer) if isinstance(answer, tuple) else answer
