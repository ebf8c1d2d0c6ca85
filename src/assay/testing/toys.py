"""Small tasks without files or data: they satisfy the Task protocol and are the same every time.

In: the number of documents. Out: a task, mostly about small sums; there is one for each output type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.core.documents import Document
from assay.core.requests import Generation, Instance, Loglikelihood, RollingLoglikelihood
from assay.core.specs import MetricSpec, Scoring, TaskCard

COLOURS = ("red", "green", "blue", "white", "black", "brown", "grey")


@dataclass(frozen=True)
class ToyTask:
    """A task made of values: its documents and a function that builds one.

    Attributes:
        card: the task's description.
        scoring: names of scorer, metrics and filters.
        rows: the documents.
        builder: document → instance; must be pure.
    """

    card: TaskCard
    scoring: Scoring
    rows: tuple[Document, ...]
    builder: Callable[[Document], Instance]

    def documents(self) -> Sequence[Document]:
        return self.rows

    def build(self, document: Document) -> Instance:
        return self.builder(document)


def _card(name: str, kind: str, size: int) -> TaskCard:
    return TaskCard(
        name=name,
        version=1,
        alias=name,
        kind=kind,
        num_fewshot=0,
        config={"task": name, "output_type": kind, "size": size},
        source="assay.testing.toys",
    )


def toy_choice_task(n: int, name: str = "toy_choice") -> ToyTask:
    """Sums with four choices; the right one has index `id % 4`."""
    rows = tuple(
        Document(name, number, {"left": number, "right": 2 * number + 1, "sum": 3 * number + 1}) for number in range(n)
    )
    # Scorers are named in the words of lm-eval's output_type, as cards are.
    scoring = Scoring("multiple_choice", (MetricSpec("acc"), MetricSpec("acc_norm")))
    return ToyTask(_card(name, "multiple_choice", n), scoring, rows, _build_choice)


def _build_choice(document: Document) -> Instance:
    fields, gold = document.fields, document.id % 4
    # Shifted so that the right sum falls on `gold`; some wrong sums may be negative.
    choices = tuple(str(fields["sum"] + index - gold) for index in range(4))
    prompt = f"Question: What is {fields['left']} + {fields['right']}?\nAnswer:"
    requests = tuple(Loglikelihood(prompt, f" {choice}") for choice in choices)
    return Instance(document.task, document.id, requests, choices=choices, target=gold, gold=gold)


def toy_generation_task(n: int, name: str = "toy_generation", draws: int = 1) -> ToyTask:
    """Sums to be answered by generating text, up to the end of the line.

    With several draws, the requests of a document differ only in `draw`, which a greedy model ignores.
    """
    rows = tuple(Document(name, number, {"left": number, "right": 7, "sum": number + 7}) for number in range(n))
    scoring = Scoring("generate_until", (MetricSpec("exact_match"),))

    def build(document: Document) -> Instance:
        prompt = f"{document.fields['left']} + {document.fields['right']} ="
        requests = tuple(Generation(prompt, stop=("\n",), max_tokens=16, draw=draw) for draw in range(draws))
        answer = str(document.fields["sum"])
        return Instance(document.task, document.id, requests, draws=draws, target=answer, gold=answer)

    return ToyTask(_card(name, "generate_until", n), scoring, rows, build)


def toy_perplexity_task(n: int, name: str = "toy_perplexity") -> ToyTask:
    """Short texts; each is scored as a whole."""
    rows = tuple(Document(name, number, {"text": _sentence(number)}) for number in range(n))
    metrics = (MetricSpec("word_perplexity"), MetricSpec("byte_perplexity"), MetricSpec("bits_per_byte"))
    scoring = Scoring("loglikelihood_rolling", metrics)
    return ToyTask(_card(name, "loglikelihood_rolling", n), scoring, rows, _build_text)


def _sentence(number: int) -> str:
    colour = COLOURS[number % len(COLOURS)]
    return f"House number {number} has a {colour} door and {number % 5 + 1} windows."


def _build_text(document: Document) -> Instance:
    text = str(document.fields["text"])
    return Instance(document.task, document.id, (RollingLoglikelihood(text),), target=text, gold=text)
