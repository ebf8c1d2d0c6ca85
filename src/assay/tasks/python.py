"""Tasks in Python: a function that turns one row into a question, and a decorator that turns it into a task.

@assay.task("capitals", rows=[{"country": "France", "capital": "Paris"}, …])
def capitals(row):
    return assay.Complete(f"The capital of {row['country']} is", " " + row["capital"])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Union

from assay.core.annotations import coerce_fields, shown, shown_list
from assay.core.call_checks import checked, checked_dataclass
from assay.core.documents import Document
from assay.core.errors import ArgumentError, DataError, Fault, UserError
from assay.core.formats import Question as Format
from assay.core.metric_names import expanded_specs
from assay.core.requests import Generation, Instance, Loglikelihood, Prompt, Request, RollingLoglikelihood, Sampling
from assay.core.specs import PLAIN_PIPELINES, FilterSpec, MetricSpec, PipelineSpec, Scoring, TaskCard
from assay.tasks.question_detection import infer, infer_classes

Row = Mapping[str, Any]


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Choose:
    """Which of these continuations is most likely after the prompt?

    `answer` is the right one's index, counted from 0, or its text.
    """

    prompt: Prompt
    choices: Sequence[str]
    answer: int | str | bool
    delimiter: str = " "


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Complete:
    """How likely is exactly this continuation?"""

    prompt: Prompt
    continuation: str


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Write:
    """What does the model generate after the prompt? Compared with the answer, or with any of several.

    White space at the ends of the generated text and of the answers is ignored, unless the task has its own filters:
    a model that continues "2 + 2 =" writes " 4".
    """

    prompt: Prompt
    answer: str | Sequence[str]
    stop: str | Sequence[str] = ("\n\n",)
    max_tokens: int = 256
    sampling: Sampling = field(default_factory=Sampling)


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Read:
    """How likely is this whole text?"""

    text: str


Question = Union[Choose, Complete, Write, Read]

# Filters of a generated answer if a task names none.
STRIPPED_PIPELINES = (PipelineSpec("none", (FilterSpec("remove_whitespace"), FilterSpec("take_first"))),)

_SHAPES: dict[type, tuple[str, tuple[str, ...]]] = {
    Choose: ("multiple_choice", ("acc", "acc_norm")),
    Complete: ("loglikelihood", ("perplexity", "acc")),
    Write: ("generate_until", ("exact_match",)),
    Read: ("loglikelihood_rolling", ("word_perplexity", "byte_perplexity", "bits_per_byte")),
}


class PythonTask:
    """A task that consists of rows and a function. Satisfies the `Task` protocol."""

    def __init__(
        self,
        name: str,
        rows: Iterable[Row] | Callable[[], Iterable[Row]],
        ask: Callable[[Row], Question],
        version: Any = 1,
        metrics: Sequence[str | MetricSpec] = (),
        filters: Sequence[PipelineSpec] = (),
    ) -> None:
        self._name = name
        self._given = rows
        self._ask = ask
        self._version = version
        self._metrics = metrics
        self._filters = filters

    def __call__(self, row: Row) -> Question:
        """The decorated function itself."""
        return self._ask(row)

    @cached_property
    def card(self) -> TaskCard:
        source = inspect.getsourcefile(self._ask) if inspect.isfunction(self._ask) else None
        config = {"task": self._name, "output_type": self._shape[0], "function": getattr(self._ask, "__qualname__", "")}
        return TaskCard(
            name=self._name,
            version=self._version,
            alias=self._name,
            kind=self._shape[0],
            num_fewshot=0,
            config=config,
            source=source or "python",
        )

    @cached_property
    def scoring(self) -> Scoring:
        kind, defaults = self._shape
        metrics = tuple(m if isinstance(m, MetricSpec) else MetricSpec(m) for m in self._metrics or defaults)
        usual = STRIPPED_PIPELINES if self._shape is _SHAPES[Write] else PLAIN_PIPELINES
        return Scoring(kind, expanded_specs(metrics, f"task {self._name}"), tuple(self._filters) or usual)

    def documents(self) -> Sequence[Document]:
        return self._documents

    def build(self, document: Document) -> Instance:
        question = self._make_question(document)
        if _SHAPES[type(question)] != self._shape:
            raise DataError(
                Fault(
                    self._where(document),
                    f"was built as a {type(question).__name__}",
                    f"the same shape as the first document ({self._shape[0]})",
                )
            )
        return _build(self._name, document.id, question, self.scoring)

    def question(self, document: Document) -> Format | None:
        """The document as a question, inferred from its prompt; None if none can be found in it."""
        asked = self._make_question(document)
        if not isinstance(asked, Choose) or not isinstance(asked.prompt, str):
            return None
        find, where = infer_classes if self._has_classes else infer, self._where(document)
        try:
            return find(asked.prompt, tuple(asked.choices), right_choice_index(asked, where), where)
        except DataError:
            return None

    def _where(self, document: Document) -> str:
        return f"task {self._name}, document {document.id}"

    def _make_question(self, document: Document) -> Question:
        """The question that the function returns for a document, with fields of the declared types."""
        where = self._where(document)
        try:
            question = self._ask(document.fields)
        except Exception as error:  # the user's function may raise anything
            raise _raised(where, error, document.fields) from error
        if type(question) not in _SHAPES:
            advice = "Does it end with a return?" if question is None else ""
            expected = "assay.Choose, Complete, Write or Read"
            raise DataError(Fault(where, f"its function returned {shown(question)}", expected, advice))
        fit, faults = coerce_fields(question, where)
        if faults:
            raise DataError(*faults)
        return fit

    @cached_property
    def _has_classes(self) -> bool:
        """Whether all documents have the same choices, which are then classes."""
        asked = [self._make_question(document) for document in self._documents]
        found = {tuple(item.choices) for item in asked if isinstance(item, Choose)}
        return len(found) == 1 < len(asked)

    @cached_property
    def _documents(self) -> list[Document]:
        return [Document(self._name, place, row) for place, row in enumerate(_checked_rows(self._name, self._given))]

    @cached_property
    def _shape(self) -> tuple[str, tuple[str, ...]]:
        return _SHAPES[type(self._make_question(self._documents[0]))]


def _raised(where: str, error: Exception, row: Row) -> DataError:
    """The error for an exception of the user's function, with the document that it was called on."""
    if isinstance(error, UserError):
        return DataError(*(replace(fault, where=f"{where}, {fault.where}") for fault in error.faults))
    advice = f"The row has: {', '.join(map(str, row))}" if isinstance(error, KeyError) else ""
    return DataError(Fault(where, f"its function raised {type(error).__name__}: {error}", next=advice))


def _checked_rows(name: str, given: Any) -> list[Row]:
    """The loaded rows of a task; each maps column names to values."""
    where = f"task {name}"
    rows = given() if callable(given) else given
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes, Mapping)):
        raise DataError(Fault(where, f"its rows are {shown(rows)}", "a list of dicts, or a function that gives one"))
    listed = list(rows)
    if not listed:
        raise DataError(Fault(where, "has no rows", "at least one document"))
    wrong = [place for place, row in enumerate(listed) if not isinstance(row, Mapping) or not all(map(_is_text, row))]
    if wrong:
        row = listed[wrong[0]]
        found = f"has the columns {list(row)}" if isinstance(row, Mapping) else f"is {shown(row)}"
        advice = 'Give rows=frame.to_dict("records")' if hasattr(rows, "to_dict") else ""
        raise DataError(Fault(f"{where}, row {wrong[0]}", found, 'a dict such as {"question": "2 + 2 ="}', advice))
    return listed


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _build(task: str, place: int, question: Question, scoring: Scoring) -> Instance:
    if isinstance(question, Choose):
        return _build_choice(task, place, question, scoring)
    if isinstance(question, Complete):
        if not question.continuation:
            raise DataError(Fault(f"task {task}, document {place}", "the continuation is empty", "some text"))
        request = Loglikelihood(question.prompt, question.continuation)
        return Instance(task, place, (request,), target=question.continuation, gold=question.continuation)
    if isinstance(question, Read):
        return Instance(task, place, (RollingLoglikelihood(question.text),), target=question.text, gold=question.text)
    if not isinstance(question.answer, str) and not question.answer:
        raise DataError(Fault(f"task {task}, document {place}", "has no answer", "a string, or a list of strings"))
    gold = question.answer if isinstance(question.answer, str) else tuple(question.answer)
    stop = (question.stop,) if isinstance(question.stop, str) else tuple(question.stop)
    if scoring.pipelines is STRIPPED_PIPELINES:
        gold = gold.strip() if isinstance(gold, str) else tuple(answer.strip() for answer in gold)
    asked = Generation(question.prompt, stop, question.max_tokens, question.sampling)
    return Instance(task, place, (asked,), target=question.answer, gold=gold)


def right_choice_index(question: Choose, where: str) -> int:
    """The index of the right choice, which may be given by its text."""
    answer, choices = question.answer, list(question.choices)
    if isinstance(answer, str):
        if choices.count(answer) == 1:
            return choices.index(answer)
        found = "is not one of the choices" if answer not in choices else "is more than one of the choices"
        expected = f"the index of the right choice, from 0, or one of {shown_list(choices)}"
        raise DataError(Fault(where, f'the answer "{answer}" {found}', expected))
    if not 0 <= answer < len(choices):
        expected = f"an index from 0 to {len(choices) - 1}" if choices else "some choices"
        raise DataError(Fault(where, f"has the answer {answer} and {len(choices)} choices", expected))
    return int(answer)


def _build_choice(task: str, place: int, question: Choose, scoring: Scoring) -> Instance:
    """A question with choices, with all requests that the metrics need."""
    where = f"task {task}, document {place}"
    right = right_choice_index(question, where)
    answers = [question.delimiter + choice for choice in question.choices]
    requests: list[Request] = [Loglikelihood(question.prompt, answer) for answer in answers]
    requests += [Loglikelihood(null, answer) for null in scoring.nulls for answer in answers]
    if scoring.reads_prompts:
        if not isinstance(question.prompt, str):
            raise DataError(Fault(where, "acc_opencompass reads the whole prompt, which is a conversation", "text"))
        requests.append(RollingLoglikelihood(question.prompt, stands_on_prefix=False))
    return Instance(
        task,
        place,
        tuple(requests),
        choices=tuple(question.choices),
        target=right,
        gold=right,
        nulls=scoring.nulls,
        prompts=int(scoring.reads_prompts),
    )


@checked()
def task(
    name: str,
    rows: Iterable[Row] | Callable[[], Iterable[Row]],
    *,
    version: Any = 1,
    metrics: str | Sequence[str | MetricSpec] = (),
    filters: Sequence[PipelineSpec] = (),
) -> Callable[[Callable[[Row], Question]], PythonTask]:
    """Decorator that turns a function from a row to a question into a task.

    Args:
        name: the task's name.
        rows: the documents, or a function that loads them.
        version: version of the task; raise it when a change makes scores incomparable.
        metrics: metric names, as a list or with commas; the defaults depend on the kind of question.
        filters: pipelines for generated text; without any, white space at the ends of answers is ignored.
    """

    if not name.strip():
        raise UserError(Fault("task()", "name is empty", "the task's name"))
    named = metrics.split(",") if isinstance(metrics, str) else metrics
    wanted = [item.strip() if isinstance(item, str) else item for item in named]

    def wrap(ask: Callable[[Row], Question]) -> PythonTask:
        if not callable(ask):
            raise ArgumentError(
                Fault("task()", f"decorates {shown(ask)}", "a function that turns a row into a question")
            )
        return PythonTask(name, rows, ask, version, wanted, filters)

    return wrap
