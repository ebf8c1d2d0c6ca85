"""Training examples: documents as a language model or a classifier head sees them, with the right answer.

A document that yields no training example yields the reason instead, as text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from assay.core.formats import Answer, Question, RatedText, SpanQuestion, as_multiple_choice
from assay.core.plural import verb
from assay.core.requests import Generation, Instance, Loglikelihood, RollingLoglikelihood
from assay.core.training import TrainingExample
from assay.tasks.head_requests import head_request
from assay.tasks.lm_eval.file.format_defaults import UNANSWERABLE

NO_ANSWER = "no right answer is known"
NO_QUESTION = "no question was found in them"
NOT_IN_CONTEXT = "the answer does not occur in the context"
NO_TEXT = "the text is empty"


def language_model_example(instance: Instance, delimiter: str, may_lack: bool) -> TrainingExample | str:
    """The training example of a language model.

    Args:
        instance: the document, built without few-shot examples.
        delimiter: the text between a prompt and a generated answer.
        may_lack: whether there may be no right answer, in which case the target is the word `unanswerable`.
    """
    request = instance.requests[0]
    if isinstance(request, RollingLoglikelihood):
        return TrainingExample((Loglikelihood("", request.text),)) if request.text else NO_TEXT
    if isinstance(request, Generation):
        text = _written(instance) or (UNANSWERABLE if may_lack else "")
        return TrainingExample((Loglikelihood(request.prompt, delimiter + text),)) if text else NO_ANSWER
    if not instance.choices:
        return TrainingExample((request,)) if instance.gold else NO_ANSWER
    right = _first_valid_index(instance.gold, len(instance.choices))
    # The requests of the choices come first, then those that some metrics need, and other orders.
    asked = instance.requests[:: instance.draws][: len(instance.choices)]
    return NO_ANSWER if right is None else TrainingExample(asked, right, lengths=tuple(map(len, instance.choices)))


def _written(instance: Instance) -> str:
    """The right text; the first of several; empty for none."""
    target, size = instance.target, len(instance.choices)
    if target is None or (isinstance(target, int) and size and not 0 <= target < size):
        return ""
    golds = instance.gold if isinstance(instance.gold, tuple) else (instance.gold,)
    return str(golds[0]) if golds else ""


def _first_valid_index(answer: Answer, size: int) -> int | None:
    places = answer if isinstance(answer, tuple) else (answer,)
    return next((place for place in places if isinstance(place, int) and 0 <= place < size), None)


def head_example(question: Question | None, kind: str) -> TrainingExample | str:
    """The training example of a classifier head that answers a kind of request."""
    request = None if question is None else head_request(question, kind)
    if question is None or request is None:
        return NO_QUESTION
    if isinstance(question, SpanQuestion):
        found = _span(question)
        return found if isinstance(found, str) else TrainingExample((request,), answer=found[0], start=found[1])
    if isinstance(question, RatedText):
        is_known = math.isfinite(question.value)
        return TrainingExample((request,), answer=str(question.value)) if is_known else NO_ANSWER
    chosen = as_multiple_choice(question)
    right = None if chosen is None else _first_valid_index(chosen.answer, len(chosen.choices))
    return NO_ANSWER if right is None else TrainingExample((request,), right)


def _span(question: SpanQuestion) -> tuple[str, int] | str:
    """The first right answer in the context, and its start; a stated start is used if it is correct."""
    if not question.answers:
        return ("", 0) if question.may_lack else NO_ANSWER
    starts = question.starts or (-1,) * len(question.answers)
    for answer, stated_start in zip(question.answers, starts, strict=True):
        is_there = stated_start >= 0 and question.context.startswith(answer, stated_start)
        start = stated_start if is_there else question.context.find(answer)
        if answer and start >= 0:
            return answer, start
    return NOT_IN_CONTEXT


def separate_skipped(found: Iterable[TrainingExample | str], what: str) -> tuple[Sequence[TrainingExample], list[str]]:
    """The training examples, and a line for every reason why documents yielded none.

    Args:
        found: training examples or reasons.
        what: the documents, in words: `toy: training`.
    """
    given = list(found)
    training_examples = [item for item in given if isinstance(item, TrainingExample)]
    reasons = Counter(item for item in given if isinstance(item, str))
    size = len(given)
    return training_examples, [
        f"{what}: {count} of {size} documents {verb(count, 'gives', 'give')} no training example: {why}"
        for why, count in reasons.items()
    ]
