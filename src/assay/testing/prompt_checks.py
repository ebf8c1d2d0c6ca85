"""Checks of a benchmark's prompts as text: template marks, white space, given answers, examples, equal choices.

In: documents as asked. Out: findings. Text that comes from a document or a few-shot example is never at fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assay.core.documents import Document
from assay.core.formats import LabelledText, MultipleChoice, Question, SpanQuestion
from assay.core.protocols import FewShotExample
from assay.core.requests import (
    ChoiceSelection,
    Classification,
    Demonstrated,
    Generation,
    Instance,
    Loglikelihood,
    Request,
    RollingLoglikelihood,
)
from assay.testing.benchmark_values import FindingList
from assay.testing.oracles import right_choices

_MARKS = ("{{", "}}", "{%", "%}")
# A list or a mapping that a template has inserted as it is.
_PYTHON_VALUE = re.compile(r"\{'\w+': |\['[^'\n]*'(?:, '|\])|<[\w.]+ object at 0x")
_ODD_SPACE = re.compile(r"(?<=\S)[ \t]{2,}(?=\S)|[ \t]+(?=\n)|\n{4,}")
_AROUND = 8
_SHORTEST_ANSWER = 4
# A larger share of documents whose prompt holds the right answer alone is no coincidence.
_MOST_GIVEN = 0.34
_QUOTED = 60


@dataclass(frozen=True)
class AskedDocument:
    """A document with its requests, its question if the task has a format, and its few-shot examples."""

    document: Document
    instance: Instance
    question: Question | None = None
    examples: Sequence[FewShotExample] = ()

    @cached_property
    def own_texts(self) -> Sequence[str]:
        """Every text of the document and its examples."""
        return list(_texts([self.document.fields, *(example.fields for example in self.examples)]))

    @cached_property
    def own_text(self) -> str:
        """All of them as one."""
        return "\n".join(self.own_texts)

    def is_own(self, text: str) -> bool:
        """Whether a text occurs in the document or in an example."""
        return text in self.own_text

    @cached_property
    def edges(self) -> tuple[Sequence[str], Sequence[str]]:
        """Texts of the document and its examples that begin, and that end, with white space."""
        texts = dict.fromkeys(self.own_texts)
        return [own for own in texts if own != own.lstrip()], [own for own in texts if own != own.rstrip()]

    def has_edge(self, text: str, start: int, end: int) -> bool:
        """Whether white space in a text is, in part, that at the beginning or at the end of a field."""
        leading, trailing = self.edges
        places = range(start, end + 1)
        return any(text.endswith(own, 0, place) for own in trailing for place in places) or any(
            text.startswith(own, place) for own in leading for place in places
        )


def check_prompts(asked: Sequence[AskedDocument], config: Mapping[str, Any], findings: FindingList) -> None:
    """All checks of prompts.

    Args:
        asked: the documents.
        config: the task's definition.
        findings: receives what is found.
    """
    if not any(map(_has_prompt, asked)):
        if any(isinstance(request, RollingLoglikelihood) for item in asked for request in item.instance.requests):
            findings.done.add("template")
            _check_each(asked, findings, "template", _null_fault)
        return
    findings.done.update(("template", "space", "leak", "distinct"))
    _check_each(asked, findings, "template", _template_fault)
    _check_each(asked, findings, "space", _space_fault)
    _check_each(asked, findings, "distinct", _equal_requests, strict=True)
    _check_each(asked, findings, "distinct", _equal_choices)
    if any(item.examples for item in asked):
        findings.done.add("examples")
        _check_each(asked, findings, "examples", _own_example)
    _check_leak(asked, str(config.get("fewshot_delimiter") or "\n\n"), findings)


def _has_prompt(item: AskedDocument) -> bool:
    return any(isinstance(request, (Loglikelihood, Generation)) for request in item.instance.requests)


def _check_each(
    asked: Sequence[AskedDocument],
    findings: FindingList,
    check: str,
    fault_of: Callable[[AskedDocument], str],
    strict: bool = False,
) -> None:
    """Reports the documents in which a check finds something, with the words of the first."""
    found = [(item.document.id, fault) for item in asked if (fault := fault_of(item))]
    if found:
        findings.add_documents(check, found[0][1], [document for document, _ in found], strict)


def prompt_text(request: Request) -> str:
    """The prompt of a request as one text; empty for a head's request."""
    prompt = getattr(request, "prompt", "")
    if isinstance(prompt, Demonstrated):
        return prompt.text
    return prompt if isinstance(prompt, str) else "\n".join(message.text for message in prompt)


def _asked_text(request: Request) -> str:
    """Everything of a request that a model reads."""
    if isinstance(request, RollingLoglikelihood):
        return ""
    return prompt_text(request) + getattr(request, "continuation", "")


def _null_fault(item: AskedDocument) -> str:
    is_written = "null_written" in item.instance.notes
    return 'a prompt, choice or text contains the word "None" in place of a field without a value' if is_written else ""


def _template_fault(item: AskedDocument) -> str:
    if null := _null_fault(item):
        return null
    for request in item.instance.requests:
        text = _asked_text(request)
        mark = next((mark for mark in _MARKS if mark in text and not item.is_own(mark)), None)
        if mark is not None:
            return f"the template mark {mark} is in the prompt: {_around(text, text.index(mark))}"
        value = _PYTHON_VALUE.search(text)
        if value is not None and not item.is_own(value[0]):
            return f"a list or mapping is inserted as it is: {_around(text, value.start())}"
    return ""


def _space_fault(item: AskedDocument) -> str:
    for request in item.instance.requests:
        if not isinstance(request, (Loglikelihood, Generation)):
            continue
        prompt, text = prompt_text(request), _asked_text(request)
        if _is_odd(item, prompt, len(prompt.rstrip(" \t")), len(prompt)):
            return f"the prompt ends with white space: {prompt[-_QUOTED:]!r}"
        if isinstance(request, Loglikelihood) and _is_odd(item, text, len(text.rstrip()), len(text)):
            return f"the scored text ends with white space: {request.continuation[-_QUOTED:]!r}"
        if _is_odd(item, prompt, 0, len(prompt) - len(prompt.lstrip())):
            return f"the prompt begins with white space: {prompt[:_QUOTED]!r}"
        for odd in _ODD_SPACE.finditer(text):
            if _is_odd(item, text, *odd.span()):
                return f"doubled white space: {text[max(odd.start() - _AROUND, 0) : odd.end() + _AROUND]!r}"
    return ""


def _is_odd(item: AskedDocument, text: str, start: int, end: int) -> bool:
    """Whether white space in a text comes from neither the document nor its examples."""
    if start == end:
        return False
    # White space alone says nothing: it is in every document.
    around = [text[max(start - _AROUND, 0) : end] if start else "", text[start : end + _AROUND] if text[end:] else ""]
    return not (any(own and item.is_own(own) for own in around) or item.has_edge(text, start, end))


def _equal_requests(item: AskedDocument) -> str:
    instance = item.instance
    size = len(instance.choices)
    if size < 2 or instance.orders or len(instance.requests) < size * instance.draws:
        return ""
    seen: dict[Any, int] = {}
    for place in range(size):
        request = instance.requests[place * instance.draws]
        if not isinstance(request, Loglikelihood):
            return ""
        key = (prompt_text(request), request.continuation)
        other = seen.setdefault(key, place)
        if other != place and instance.choices[other] != instance.choices[place]:
            return f"the choices {other} and {place} differ, but their requests are the same"
    return ""


def _equal_choices(item: AskedDocument) -> str:
    choices, request = item.instance.choices, item.instance.requests[0]
    if isinstance(request, (Classification, ChoiceSelection, Generation)) or item.instance.orders:
        return ""
    requests = item.instance.requests[: len(choices)]
    shown = [(choice, _asked_text(request)) for choice, request in zip(choices, requests, strict=False)]
    twice = next((choice for place, (choice, text) in enumerate(shown) if (choice, text) in shown[:place]), None)
    return "" if twice is None else f"two choices are equal: {twice[:_QUOTED]!r}"


def _own_example(item: AskedDocument) -> str:
    if "own_example_shown" in item.instance.notes:
        return "the document is among its own few-shot examples"
    own = dict(item.document.fields)
    same = next((example for example in item.examples if dict(example.fields) == own), None)
    if same is None:
        return ""
    return f"a few-shot example equals the document: row {same.place} of {same.origin}"


# Answers given away


def _check_leak(asked: Sequence[AskedDocument], delimiter: str, findings: FindingList) -> None:
    """Whether the right answer stands in the question of more documents than wrong ones do."""
    if sum(_is_continued(item, delimiter) for item in asked) > len(asked) / 2:
        return
    given = [(item.document.id, *shares) for item in asked if (shares := _given(item, delimiter)) is not None]
    answers = {str(item.instance.gold) for item in asked if not item.instance.choices}
    if len(given) < 2 or 0 < len(answers) <= len(given) / 2:
        return  # a few answers that recur are classes, which a question may name
    right = [document for document, is_right, _ in given if is_right]
    excess = len(right) - sum(wrong for _, _, wrong in given)
    if len(right) >= 2 and excess > _MOST_GIVEN * len(given):
        findings.add_documents("leak", "the question contains the right answer, and not the wrong ones", right)


def _is_continued(item: AskedDocument, delimiter: str) -> bool:
    """Whether the question is a text without an end, whose next words are asked for: words recur in a text."""
    if item.instance.choices or isinstance(item.question, SpanQuestion) or not _has_prompt(item):
        return False
    return (_question_part(item, delimiter) or "")[-1:].isalnum()


def _given(item: AskedDocument, delimiter: str) -> tuple[bool, float] | None:
    """Whether the question holds the right answer and no other, and the share of wrong ones held so.

    None for documents that say nothing: the answer is a span of the text, a number or a short word.
    """
    instance = item.instance
    if isinstance(item.question, SpanQuestion) or not _has_prompt(item):
        return None
    question = _question_part(item, delimiter)
    if question is None:
        return None
    if instance.choices:
        return _given_choice(instance, question, isinstance(item.question, LabelledText))
    golds = instance.gold if isinstance(instance.gold, (list, tuple)) else (instance.gold,)
    texts = [gold.strip() for gold in golds if isinstance(gold, str)]
    telling = [text for text in texts if len(text) >= _SHORTEST_ANSWER and not text.replace(".", "").isdigit()]
    return (any(_holds(question, text) for text in telling), 0.0) if telling else None


def _given_choice(instance: Instance, question: str, is_classified: bool) -> tuple[bool, float] | None:
    right = right_choices(instance)
    held = [_holds(question, choice.strip()) for choice in instance.choices]
    if is_classified or len(right) != 1 or len(held) < 2 or min(map(len, instance.choices)) < 2:
        return None
    (gold,) = right
    alone = sum(held) == 1
    return alone and held[gold], float(alone and not held[gold]) / (len(held) - 1)


def _question_part(item: AskedDocument, delimiter: str) -> str | None:
    """The prompt without its few-shot examples; None if every choice has its own prompt."""
    requests = [request for request in item.instance.requests if isinstance(request, (Loglikelihood, Generation))]
    prompts = {prompt_text(request) for request in requests[: max(len(item.instance.choices), 1)]}
    if len(prompts) != 1:
        return None
    prompt = prompts.pop()
    context = item.question.context if isinstance(item.question, MultipleChoice) else ""
    # A text to read may hold the right answer word by word.
    prompt = prompt.replace(context, "") if context else prompt
    return prompt.rsplit(delimiter, 1)[-1] if item.examples else prompt


def _holds(text: str, answer: str) -> bool:
    """Whether a text contains an answer as whole words, in any case."""
    if not answer:
        return False
    return re.search(rf"(?<!\w){re.escape(answer.lower())}(?!\w)", text.lower()) is not None


def _around(text: str, place: int) -> str:
    return repr(text[max(place - _QUOTED // 2, 0) : place + _QUOTED // 2])


def _texts(value: Any) -> Iterator[str]:
    """Every text within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for inner in value.values() for text in _texts(inner))
    elif isinstance(value, Iterable):
        yield from (text for inner in value for text in _texts(inner))
