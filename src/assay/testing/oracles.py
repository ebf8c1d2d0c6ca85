"""Models that know a task's right answers: they answer every request rightly, wrongly, or as a random choice would.

In: a document as asked. Out: an answer to each of its requests, and a model that gives them in an ordinary run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from assay.core.documents import Document
from assay.core.identity import request_digest
from assay.core.requests import ChoiceSelection, Classification, Generation, Instance, Rating, Request, SpanExtraction
from assay.core.responses import LabelScores, Logprob, Output, Text
from assay.core.specs import Scoring
from assay.scoring.document_scorer import DocumentScorer
from assay.testing.metric_ranges import goodness
from assay.testing.pattern_texts import matching_text
from assay.testing.scripted import ScriptedModel

# Per character, so that a wrong choice stays unlikely under every normalisation.
_UNLIKELY, _LEAST_LIKELY = -1000.0, -3000.0
# A text that is no answer to any question.
NONSENSE = "zxqv"
# Columns that may hold an answer in the form of the benchmark, for tasks that score by code.
_ANSWER_COLUMNS = ("answer", "solution", "target", "completion", "final_decision", "output", "best_answer", "answers")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
# Ways in which benchmarks ask for an answer, beside those that the task's own filters state.
_FORMS = (
    *("{0}", " {0}", "The answer is {0}.", "the answer is ({0})", "#### {0}", "({0})", "${0}$", "\\boxed{{{0}}}"),
    *("Final Answer: The final answer is ${0}$. I hope it is correct.", "Answer: {0}", "**{0}**"),
)

Answers = dict[bytes, Output]


def right_choices(instance: Instance) -> frozenset[int]:
    """The indices of the right choices; empty if there are no choices, or no right one among them."""
    return frozenset(gold for gold in instance.gold_indices if type(gold) is int and 0 <= gold < len(instance.choices))


def wrong_choice(instance: Instance) -> int | None:
    """A choice that is not right; None if there is none."""
    right, size = right_choices(instance), len(instance.choices)
    start = min(right, default=0)
    return next(((start + step) % size for step in range(size) if (start + step) % size not in right), None)


def random_choice(instance: Instance, seed: int = 0) -> int:
    """A choice drawn uniformly, by document and seed."""
    digest = sha256(f"{seed}/{instance.document_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % len(instance.choices)


def answers_for_choices(instance: Instance, chosen: frozenset[int], last: frozenset[int] = frozenset()) -> list[Output]:
    """Answers by which a model is certain of some choices.

    Args:
        instance: the document as asked.
        chosen: the choices that it takes; asked for a text without any, it writes nonsense.
        last: choices that it finds less likely than all others.
    """
    return [_choice_output(instance, index, chosen, last) for index in range(len(instance.requests))]


def _choice_output(instance: Instance, index: int, chosen: frozenset[int], last: frozenset[int]) -> Output:
    request = instance.requests[index]
    likely = -math.log(max(len(chosen), 1))
    if isinstance(request, (Classification, ChoiceSelection)):
        rest = [_LEAST_LIKELY if place in last else _UNLIKELY for place in range(len(instance.choices))]
        return LabelScores(tuple(likely if place in chosen else rest[place] for place in range(len(rest))))
    if isinstance(request, Generation):
        return Text(instance.choices[_place(instance, index, min(chosen))] if chosen else NONSENSE)
    if instance.part(index).kind != "choice":
        return Logprob(-1.0, 1, False)
    choice = _shown_choice(instance, index)
    text = getattr(request, "continuation", "")
    words = max(len(text.split()), 1)
    if choice in chosen:
        return Logprob(likely, words, True)
    return Logprob((_LEAST_LIKELY if choice in last else _UNLIKELY) * (1 + len(text)), words, False)


def _block(instance: Instance) -> int:
    """Requests of one order of the choices."""
    return max(len(instance.requests) // max(len(instance.orders), 1), 1)


def _shown_choice(instance: Instance, index: int) -> int:
    """The choice of the document that a request scores; orders show the choices in other places."""
    size, block = len(instance.choices), _block(instance)
    place = (index % block) // instance.draws % size
    return instance.orders[index // block][place] if instance.orders else place


def _place(instance: Instance, index: int, choice: int) -> int:
    """The place at which an order shows a choice, which has that place's label."""
    return instance.orders[index // _block(instance)].index(choice) if instance.orders else choice


def certain_answers(instance: Instance, text: str, is_right: bool) -> list[Output]:
    """Answers to a question without choices: a text to every generation, certainty to every likelihood."""
    return [_free_output(request, text, is_right) for request in instance.requests]


def _free_output(request: Request, text: str, is_right: bool) -> Output:
    if isinstance(request, (Generation, SpanExtraction, Rating)):
        stop = request.stop if isinstance(request, Generation) else ()
        return Text(cut_at_stop(text, stop), token_count=len(text.split()))
    if isinstance(request, (Classification, ChoiceSelection)):
        size = len(request.labels if isinstance(request, Classification) else request.choices)
        return LabelScores((-math.log(size),) * size)  # no right choice is known
    scored = str(getattr(request, "continuation", None) or getattr(request, "text", ""))
    words = max(len(scored.split()), 1)
    return Logprob(0.0 if is_right else -50.0 * words, words, is_right)


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop string, as a model gives it."""
    places = [text.index(mark) for mark in stop if mark and mark in text]
    return text[: min(places)] if places else text


# Right answers as texts


def right_text(document: Document, instance: Instance, scorer: DocumentScorer, scoring: Scoring) -> dict[str, str]:
    """Filter pipeline → a text from which it reads a right answer; the best one found where none is perfect."""
    best: dict[str, tuple[float, str]] = {}
    names = [pipeline.name for pipeline in scoring.pipelines]
    for text in _candidates(document, instance, scoring):
        outputs = certain_answers(instance, text, is_right=True)
        for sample in scorer.score(document, instance, outputs):
            value = goodness(sample.values)
            if sample.filter not in best or value > best[sample.filter][0]:
                best[sample.filter] = value, text
        if all(name in best and best[name][0] >= 1.0 for name in names):
            break
    return {name: text for name, (_, text) in best.items()}


def _candidates(document: Document, instance: Instance, scoring: Scoring) -> Iterator[str]:
    """Texts that may be read as a right answer, the likeliest first."""
    answers = list(dict.fromkeys(_answers(document, instance)))
    yield from answers[:2] or [""]
    patterns = [
        str(step.options["regex_pattern"])
        for pipeline in scoring.pipelines
        for step in pipeline.steps
        if "regex_pattern" in step.options
    ]
    for answer in answers[:8]:
        yield from filter(None, (matching_text(pattern, answer) for pattern in patterns))
        yield from (form.format(answer) for form in _FORMS)
    yield ""


def _answers(document: Document, instance: Instance) -> Iterator[str]:
    """Right answers as the task and the document state them, and the essential parts of longer ones."""
    for value in _texts((instance.target, instance.gold, [document.fields.get(name) for name in _ANSWER_COLUMNS])):
        yield value
        yield value.strip()
        for start in _BOXED.finditer(value):
            yield _braced(value, start.end())
        if "####" in value:
            yield value.split("####")[-1].strip()


def _texts(value: Any) -> Iterator[str]:
    """Every text and number within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Mapping):
        yield from (text for inner in value.values() for text in _texts(inner))
    elif isinstance(value, Iterable):
        yield from (text for inner in value for text in _texts(inner))


def _braced(text: str, start: int) -> str:
    """The text up to the brace that closes the one before `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return text[start:place]
    return text[start:]


# The model


def answers_by_request(instance: Instance, outputs: Sequence[Output]) -> Answers:
    """Digest of a request → its answer."""
    return {request_digest(request): output for request, output in zip(instance.requests, outputs, strict=True)}


def oracle(name: str, answers: Mapping[bytes, Output], kinds: Sequence[str], labels: tuple[str, ...]) -> ScriptedModel:
    """A model that gives these answers."""
    return ScriptedModel(lambda request: answers[request_digest(request)], name=name, kinds=kinds, labels=labels)
