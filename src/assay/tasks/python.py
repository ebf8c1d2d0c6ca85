"""Tasks in Python: a function that poses one row, and a decorator that makes it a task.

@assay.task("capitals", rows=[{"country": "France", "capital": "Paris"}, …])
def capitals(row):
    return assay.Complete(f"The capital of {row['country']} is", " " + row["capital"])
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Union

from assay.core.documents import Document
from assay.core.errors import DataError, Fault
from assay.core.formats import Question as Format
from assay.core.metric_names import settled
from assay.core.requests import Generation, Instance, Loglikelihood, Prompt, Request, RollingLoglikelihood, Sampling
from assay.core.specs import PLAIN_PIPELINES, FilterSpec, MetricSpec, PipelineSpec, Scoring, TaskCard
from assay.tasks.formats import infer, infer_classes

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Choose:
    """Which of these continuations is likeliest after the prompt? `answer` is the right one's place."""

    prompt: Prompt
    choices: Sequence[str]
    answer: int
    delimiter: str = " "


@dataclass(frozen=True, slots=True)
class Complete:
    """How likely is exactly this continuation?"""

    prompt: Prompt
    continuation: str


@dataclass(frozen=True, slots=True)
class Write:
    """What does the model write after the prompt? Compared with the answer, or with any of several.

    White space at the ends of what is written and of the answers does not count, unless the task names filters of its
    own: a model that continues "2 + 2 =" writes " 4".
    """

    prompt: Prompt
    answer: str | Sequence[str]
    stop: Sequence[str] = ("\n\n",)
    max_tokens: int = 256
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True, slots=True)
class Read:
    """How likely is this whole text?"""

    text: str


Question = Union[Choose, Complete, Write, Read]

# What becomes of a written answer where a task names no filters.
STRIPPED_PIPELINES = (PipelineSpec("none", (FilterSpec("remove_whitespace"), FilterSpec("take_first"))),)

_SHAPES: dict[type, tuple[str, tuple[str, ...]]] = {
    Choose: ("multiple_choice", ("acc", "acc_norm")),
    Complete: ("loglikelihood", ("perplexity", "acc")),
    Write: ("generate_until", ("exact_match",)),
    Read: ("loglikelihood_rolling", ("word_perplexity", "byte_perplexity", "bits_per_byte")),
}


class PythonTask:
    """A task made of rows and a function. Satisfies the `Task` protocol."""

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
        return TaskCard(self._name, self._version, self._name, self._shape[0], 0, config, source or "python")

    @cached_property
    def scoring(self) -> Scoring:
        kind, defaults = self._shape
        metrics = tuple(m if isinstance(m, MetricSpec) else MetricSpec(m) for m in self._metrics or defaults)
        usual = STRIPPED_PIPELINES if self._shape is _SHAPES[Write] else PLAIN_PIPELINES
        return Scoring(kind, settled(metrics, f"task {self._name}"), tuple(self._filters) or usual)

    def documents(self) -> Sequence[Document]:
        return self._documents

    def pose(self, document: Document) -> Instance:
        question = self._ask(document.fields)
        if type(question) not in _SHAPES or _SHAPES[type(question)] != self._shape:
            raise DataError(
                Fault(
                    f"task {self._name}, document {document.id}",
                    f"was posed as a {type(question).__name__}",
                    f"the same shape as the first document ({self._shape[0]})",
                )
            )
        return _pose(self._name, document.id, question, self.scoring)

    def question(self, document: Document) -> Format | None:
        """The document as a question, found in its prompt; None where none can be found in it."""
        asked = self._ask(document.fields)
        if not isinstance(asked, Choose) or not isinstance(asked.prompt, str):
            return None
        find = infer_classes if self._has_classes else infer
        try:
            return find(asked.prompt, tuple(asked.choices), asked.answer, f"task {self._name}, document {document.id}")
        except DataError:
            return None

    @cached_property
    def _has_classes(self) -> bool:
        """Whether all documents have the same choices, which are classes then."""
        asked = [self._ask(document.fields) for document in self._documents]
        found = {tuple(item.choices) for item in asked if isinstance(item, Choose)}
        return len(found) == 1 < len(asked)

    @cached_property
    def _documents(self) -> list[Document]:
        rows = list(self._given() if callable(self._given) else self._given)
        if not rows:
            raise DataError(Fault(f"task {self._name}", "has no rows", "at least one document"))
        return [Document(self._name, place, row) for place, row in enumerate(rows)]

    @cached_property
    def _shape(self) -> tuple[str, tuple[str, ...]]:
        question = self._ask(self._documents[0].fields)
        if type(question) not in _SHAPES:
            raise DataError(
                Fault(
                    f"task {self._name}",
                    f"its function gave a {type(question).__name__}",
                    "Choose, Complete, Write or Read",
                )
            )
        return _SHAPES[type(question)]


def _pose(task: str, place: int, question: Question, scoring: Scoring) -> Instance:
    if isinstance(question, Choose):
        return _pose_choice(task, place, question, scoring)
    if isinstance(question, Complete):
        request = Loglikelihood(question.prompt, question.continuation)
        return Instance(task, place, (request,), target=question.continuation, gold=question.continuation)
    if isinstance(question, Read):
        return Instance(task, place, (RollingLoglikelihood(question.text),), target=question.text, gold=question.text)
    gold = question.answer if isinstance(question.answer, str) else tuple(question.answer)
    if scoring.pipelines is STRIPPED_PIPELINES:
        gold = gold.strip() if isinstance(gold, str) else tuple(answer.strip() for answer in gold)
    asked = Generation(question.prompt, tuple(question.stop), question.max_tokens, question.sampling)
    return Instance(task, place, (asked,), target=question.answer, gold=gold)


def _pose_choice(task: str, place: int, question: Choose, scoring: Scoring) -> Instance:
    """A question with choices, and whatever else the metrics need of it."""
    where, size = f"task {task}, document {place}", len(question.choices)
    if not 0 <= question.answer < size:
        raise DataError(Fault(where, f"has the answer {question.answer!r}", f"a place among its {size} choices"))
    answers = [question.delimiter + choice for choice in question.choices]
    requests: list[Request] = [Loglikelihood(question.prompt, answer) for answer in answers]
    requests += [Loglikelihood(null, answer) for null in scoring.nulls for answer in answers]
    if scoring.reads_prompts:
        if not isinstance(question.prompt, str):
            raise DataError(Fault(where, "acc_opencompass reads the whole prompt, which is no plain text", "text"))
        requests.append(RollingLoglikelihood(question.prompt, stands_on_prefix=False))
    return Instance(
        task,
        place,
        tuple(requests),
        choices=tuple(question.choices),
        target=question.answer,
        gold=question.answer,
        nulls=scoring.nulls,
        prompts=int(scoring.reads_prompts),
    )


def task(
    name: str,
    rows: Iterable[Row] | Callable[[], Iterable[Row]],
    *,
    version: Any = 1,
    metrics: Sequence[str | MetricSpec] = (),
    filters: Sequence[PipelineSpec] = (),
) -> Callable[[Callable[[Row], Question]], PythonTask]:
    """Makes a function that poses one row into a task.

    Args:
        name: the task's name.
        rows: the documents, or a function that loads them.
        version: raise it when a change makes scores incomparable.
        metrics: metric names; the question's shape has defaults.
        filters: pipelines for generated text; without any, white space at the ends of answers does not count.
    """

    def wrap(ask: Callable[[Row], Question]) -> PythonTask:
        return PythonTask(name, rows, ask, version, metrics, filters)

    return wrap
