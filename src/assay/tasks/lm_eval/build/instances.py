"""Builds documents of a task file into instances: renders prompt and examples, creates requests, finds the gold answer.

Pure after construction: the same document always gives the same instance.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from assay.core.documents import ChangedDocument, Document, is_changed
from assay.core.errors import DataError, Fault
from assay.core.requests import Demonstrated, Generation, Instance, Loglikelihood, Prompt, Request, RollingLoglikelihood
from assay.core.specs import ChatSpec
from assay.tasks.fewshot_overlap import CheckedSampler
from assay.tasks.lm_eval.build.fields import Row, choices_reader, optional_reader, target_reader, text_reader
from assay.tasks.lm_eval.build.generation_settings import GenerationSettings
from assay.tasks.lm_eval.build.mutated_documents import changed_document
from assay.tasks.lm_eval.file.definition import Rendering, TaskDefinition
from assay.tasks.templates import Delimiters, PromptPiece, WatchedNulls, as_messages, as_text, system_pieces, turn

INVALID_GOLD = -100
# Note of an instance: a field without a value appears in it as the word None.
NULL_WRITTEN = "null_written"
# Key of a row for the order of its choices and the original row.
ROTATION = "__rotation__"


class ReorderedRow(NamedTuple):
    """A row whose choices are listed in another order: their indices in displayed order, and the original row."""

    order: tuple[int, ...]
    row: Row


class Readers:
    """The compiled fields of one rendering: the evaluated document's or the examples'."""

    def __init__(self, rendering: Rendering, columns: Sequence[str], where: Mapping[str, str]) -> None:
        has_choices = rendering.choice is not None
        self.delimiters = rendering.delimiters
        self.has_code = any(map(_is_code, (rendering.text, rendering.target, rendering.choice)))
        self.text = text_reader(rendering.text, columns, has_choices, where["doc_to_text"])
        self.target = target_reader(rendering.target, columns, has_choices, where["doc_to_target"])
        self.choices = choices_reader(rendering.choice, columns, where["doc_to_choice"]) if has_choices else None
        self.prefix = optional_reader(rendering.prefix, where["gen_prefix"])


def _is_code(value: Any) -> bool:
    """Whether a value is task code; our own functions leave rows unchanged and are marked as pure."""
    return callable(value) and not getattr(value, "is_pure", False)


class InstanceBuilder:
    """Turns documents into instances.

    Args:
        definition: the task.
        first: the first evaluated document, from which two task-wide facts are read: whether prompts are one
            per choice (its `doc_to_text` is a number), and whether there are several right answers.
        pool: rows that examples are taken from.
        sampler: which of them precede a document; None for no examples.
        chat: conversation settings.
        generation: settings of generations.
    """

    def __init__(
        self,
        definition: TaskDefinition,
        first: Row,
        pool: Sequence[Row],
        sampler: CheckedSampler | None,
        chat: ChatSpec,
        generation: GenerationSettings | None,
    ) -> None:
        self._definition = definition
        self._pool = pool
        self._sampler = sampler
        self._chat = chat
        self._generation = generation
        self._own = Readers(definition.rendering, list(first), field_locations(definition, ()))
        self._shown = Readers(
            definition.fewshot.rendering, list(first), field_locations(definition, ("fewshot_config",))
        )
        self._describe = optional_reader(definition.description, definition.file.where("description"))
        row = deepcopy(first) if self._own.has_code else first
        self._has_many_prompts = self._own.choices is not None and isinstance(self._own.text(row), int)
        self._has_many_targets = isinstance(self._own.target(row), (list, tuple))
        self.delimiter = self._answer_delimiter()
        is_choice = definition.output_type == "multiple_choice"
        self._nulls = definition.scoring.nulls if is_choice else ()
        self._reads_prompts = is_choice and definition.scoring.reads_prompts
        # Each example is rendered once, no matter how many documents it precedes.
        self._example = lru_cache(maxsize=None)(self._watched_example)
        self._null_examples: set[int] = set()
        self._example_text = lru_cache(maxsize=None)(lambda index: as_text(self._example(index)))
        self._opening_text = lru_cache(maxsize=16)(self._render_opening_text)

    def build(self, document: Document) -> Instance:
        """Instance of a document, with notes on anything unusual about it."""
        # Task code may modify its row, so it gets a copy.
        own = replace(document, fields=deepcopy(document.fields)) if self._own.has_code else document
        with WatchedNulls() as nulls:
            instance = self._build_instance(own)
        if self._own.has_code and is_changed(own.fields, document.fields):
            instance = replace(instance, changed=self._changed(document.fields))
        notes = self._sampler.notes(document.id) if self._sampler is not None else ()
        is_null_written = self._definition.output_type == "generate_until" and instance.target is None
        if nulls or is_null_written or self._shows_nulls(document):
            notes += (NULL_WRITTEN,)
        return replace(instance, notes=notes) if notes else instance

    def _shows_nulls(self, document: Document) -> bool:
        if self._sampler is None or not self._null_examples:
            return False
        return not self._null_examples.isdisjoint(self._sampler.places(document.id))

    def _changed(self, row: Row) -> ChangedDocument:
        """The row after the task's code has changed it."""
        own = self._own
        choices = [] if own.choices is None else [own.choices]
        # lm-eval's own scoring reads choices and target; task code may read anything.
        scoring = [] if self._definition.scoring.process is not None else [*choices, own.target]
        return changed_document(row, [own.text, *choices, own.target], [*scoring, own.target])

    def _build_instance(self, document: Document) -> Instance:
        if self._definition.variant.order:
            document = self._in_order(document)
        row = document.fields
        choices = tuple(self._own.choices(row)) if self._own.choices is not None else ()
        target = self._own.target(row)
        draws = self._definition.repeats
        orders: tuple[tuple[int, ...], ...] = ()
        if self._definition.rotates:
            orders = rotations(len(choices))
            requests = self._rotated(document, target, orders)
        else:
            requests = self._requests(document, choices, target)
        if draws > 1:
            requests = [_draw(request, index) for request in requests for index in range(draws)]
        return Instance(
            document.task,
            document.id,
            tuple(requests),
            draws=draws,
            choices=choices,
            target=target,
            gold=right_answer(
                self._definition.output_type,
                self._own.text(row) if self._has_many_prompts else target,
                choices,
                self._has_many_targets,
            ),
            nulls=self._nulls,
            prompts=(len(choices) if self._has_many_prompts else 1) if self._reads_prompts else 0,
            orders=orders,
        )

    def _in_order(self, document: Document) -> Document:
        """A document with its choices in the order of the definition's variant."""
        size = len(self._own.choices(document.fields)) if self._own.choices is not None else 0
        order = listed_order(size, self._definition.variant.order, f"task {document.task}, document {document.id}")
        return _reordered(document, order)

    def _rotated(self, document: Document, target: Any, orders: Sequence[tuple[int, ...]]) -> list[Request]:
        """The requests of every rotation of the choices, one after the other."""
        requests = []
        for order in orders:
            reordered = _reordered(document, order)
            choices = tuple(self._own.choices(reordered.fields)) if self._own.choices is not None else ()
            requests += self._requests(reordered, choices, target)
        return requests

    def examples(self, document_id: int) -> list[tuple[int, Row]]:
        """The examples before a document: (index in the pool, row)."""
        places = self._sampler.places(document_id) if self._sampler is not None else ()
        return [(index, self._pool[index]) for index in places]

    # Requests

    def _requests(self, document: Document, choices: tuple[str, ...], target: Any) -> list[Request]:
        kind = self._definition.output_type
        if kind == "loglikelihood_rolling":
            return [RollingLoglikelihood(self._text_target(target), windows=self._definition.windows)]
        if kind == "multiple_choice":
            return self._choice_requests(document, choices, target)
        prompt = self._question_prompt(document, ())
        if kind == "loglikelihood":
            return [Loglikelihood(prompt, self._text_target(target))]
        settings = self._generation
        assert settings is not None, "generation tasks are made with their settings"
        return [Generation(prompt, settings.stop, settings.max_tokens, settings.sampling)]

    def _choice_requests(self, document: Document, choices: tuple[str, ...], target: Any) -> list[Request]:
        delimiter = self.delimiter
        if self._has_many_prompts:
            answer = delimiter + str(target)
            requests: list[Request] = [
                Loglikelihood(self._prompt(document, choice, is_choice=True), answer) for choice in choices
            ]
        else:
            prompt = self._question_prompt(document, choices)
            requests = [Loglikelihood(prompt, delimiter + choice) for choice in choices]
        requests += [Loglikelihood(null, delimiter + choice) for null in self._nulls for choice in choices]
        if self._reads_prompts:
            prompts = [request.prompt for request in requests[: len(choices)] if isinstance(request, Loglikelihood)]
            requests += map(self._whole, prompts if self._has_many_prompts else prompts[:1])
        return requests

    def _whole(self, prompt: Prompt) -> RollingLoglikelihood:
        """The request for the likelihood of a whole prompt."""
        if isinstance(prompt, str):
            return RollingLoglikelihood(prompt, stands_on_prefix=False)
        where = f"task {self._definition.name}, metric acc_opencompass"
        is_cut = isinstance(prompt, Demonstrated)
        found = f"reads the whole prompt, which {'with cut examples' if is_cut else 'in a conversation'} is known to"
        left = "the style" if is_cut else "--apply_chat_template"
        raise DataError(Fault(where, f"{found} the model alone", "a plain prompt", f"Leave out {left}, or the metric"))

    def _answer_delimiter(self) -> str:
        """The delimiter before answers; empty in a conversation, unless a prefix begins the answer's message."""
        rendering = self._definition.rendering
        if not self._chat.apply:
            return rendering.delimiters.target
        prefix = rendering.prefix
        return rendering.delimiters.target if prefix and not prefix[-1].isspace() else ""

    def _text_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        raise DataError(Fault(self._definition.file.where("doc_to_target"), f"gives {target!r} for a document", "text"))

    def _question(self, row: Row) -> str:
        question = self._own.text(row)
        if isinstance(question, str):
            return question
        where = self._definition.file.where("doc_to_text")
        raise DataError(Fault(where, f"gives {question!r} for a document", "text"))

    # Prompts

    def _question_prompt(self, document: Document, choices: tuple[str, ...]) -> Prompt:
        """The prompt of a question; with an example limit, the model truncates the examples."""
        question, limit = self._question(document.fields), self._definition.example_limit
        if limit is None:
            return self._prompt(document, question)
        shown = [self._example(index) for index, _ in self.examples(document.id)]
        opening = as_text(self._system(self._describe(document.fields)))
        between, after = self._own.delimiters.target, self._own.delimiters.example
        pairs = tuple((asked.text, answer.text) for asked, answer in shown)
        return Demonstrated(
            demonstrations=pairs,
            question=question,
            options=choices,
            limit=limit,
            between=between,
            after=after,
            opening=opening,
        )

    def _prompt(self, document: Document, question: str, is_choice: bool = False) -> Prompt:
        places = self._sampler.places(document.id) if self._sampler is not None else ()
        description, prefix = self._describe(document.fields), self._own.prefix(document.fields)
        if not self._chat.apply and not prefix:
            return self._opening_text(description, places) + question
        delimiters = Delimiters("", "") if is_choice else Delimiters(self._own.delimiters.target, "")
        final = turn(question, None, prefix or None, delimiters)
        if not self._chat.apply:
            return self._opening_text(description, places) + as_text(final)
        return as_messages([*self._opening(description, places), *final], self._chat.multiturn)

    def _opening(self, description: str, places: tuple[int, ...]) -> list[PromptPiece]:
        pieces = self._system(description)
        for index in places:
            pieces += self._example(index)
        return pieces

    def _system(self, description: str) -> list[PromptPiece]:
        return list(system_pieces(self._chat.system or "", description, self._own.delimiters.example))

    def _render_opening_text(self, description: str, places: tuple[int, ...]) -> str:
        return as_text(self._system(description)) + "".join(map(self._example_text, places))

    def _watched_example(self, index: int) -> tuple[PromptPiece, ...]:
        with WatchedNulls() as nulls:
            pieces = self._render_example(index)
        if nulls:
            self._null_examples.add(index)
        return pieces

    def _render_example(self, index: int) -> tuple[PromptPiece, ...]:
        row = deepcopy(self._pool[index]) if self._shown.has_code else self._pool[index]
        question, answer = self._shown.text(row), self._shown.target(row)
        choices = self._shown.choices(row) if self._shown.choices is not None else []
        if self._has_many_prompts:
            if not _is_choice_index(question, choices):
                where = self._definition.file.where("doc_to_text")
                expected = f"a place among {len(choices)} choices"
                raise DataError(Fault(where, f"gives {question!r} for an example", expected))
            question, choices = choices[question], []
        if not isinstance(question, str):
            where = self._definition.file.where("fewshot_config", "doc_to_text")
            raise DataError(Fault(where, f"gives {question!r} for an example", "text"))
        prefix = self._shown.prefix(row) or None
        return turn(question, self._answer_text(answer, choices), prefix, self._shown.delimiters)

    def _answer_text(self, answer: Any, choices: Sequence[str]) -> str | None:
        """An example's answer as shown in the prompt; None if it has none."""
        if answer is None or answer == "":
            return None
        if choices and isinstance(answer, int):
            if not _is_choice_index(answer, choices):
                raise self._answer_error(answer, f"a place among {len(choices)} choices")
            return choices[answer]
        text = answer[0] if isinstance(answer, (list, tuple)) and answer else answer
        if not isinstance(text, str):
            raise self._answer_error(text, "text")
        return text

    def _answer_error(self, answer: Any, expected: str) -> DataError:
        where = self._definition.file.where("doc_to_target")
        return DataError(Fault(where, f"gives {answer!r} for a few-shot example", expected))


def _reordered(document: Document, order: tuple[int, ...]) -> Document:
    return replace(document, fields={**document.fields, ROTATION: ReorderedRow(order, document.fields)})


def listed_order(size: int, index: int, where: str) -> tuple[int, ...]:
    """One of all orders of a number of choices, the same in every run; index 0 is the original order.

    Args:
        size: number of choices. A single choice has the same order for every index.
        index: index of the order.
        where: the document, for errors.
    """
    if size < 2 or index == 0:
        return tuple(range(size))
    count = math.factorial(min(size, 20))
    if index >= count:
        found = f"{size} choices have {count} orders"
        raise DataError(Fault(where, found, f"{index + 1} or more, as --orders requires", f"Use --orders {count}"))
    return _first_orders(size, index + 1)[index]


@lru_cache(maxsize=256)
def _first_orders(size: int, count: int) -> tuple[tuple[int, ...], ...]:
    """The first `count` distinct orders. A larger count begins with the same ones, so stored answers remain valid."""
    rng, found = random.Random(size), {tuple(range(size)): None}
    while len(found) < count:
        # Python guarantees a stable stream for `random`, but not for `shuffle`.
        keys = [rng.random() for _ in range(size)]
        found[tuple(sorted(range(size), key=keys.__getitem__))] = None
    return tuple(found)


@lru_cache(maxsize=64)
def rotations(size: int) -> tuple[tuple[int, ...], ...]:
    """All rotations of `size` positions; the first is the original order."""
    return tuple(tuple((start + step) % size for step in range(size)) for start in range(size))


def right_answer(output_type: str, target: Any, choices: tuple[str, ...], has_many: bool) -> Any:
    """The right answer as scorers read it.

    Args:
        output_type: output type of the task.
        target: the task's target: an index, a text, or a list of these.
        choices: the choices; empty for a free answer.
        has_many: whether the task has several right answers per document.
    """
    if output_type == "multiple_choice":
        if isinstance(target, (list, tuple)):
            return tuple(_choice_index(item, choices) for item in target)
        return _choice_index(target, choices)
    if output_type != "generate_until":
        return target
    if choices:
        places = target if isinstance(target, (list, tuple)) else [target]
        texts = tuple(choices[index] if _is_choice_index(index, choices) else str(index) for index in places)
        return texts if isinstance(target, (list, tuple)) else texts[0]
    if has_many:
        return tuple(map(str, target)) if isinstance(target, (list, tuple)) else (str(target),)
    return str(target)


def _is_choice_index(value: Any, choices: Sequence[str]) -> bool:
    size = len(choices)
    return isinstance(value, int) and not isinstance(value, bool) and -size <= value < size


def _choice_index(gold: Any, choices: tuple[str, ...]) -> int:
    """Index of the right choice; `INVALID_GOLD` if it is not among them. Negative labels are left unchanged."""
    if isinstance(gold, str):
        return choices.index(gold) if gold in choices else INVALID_GOLD
    if isinstance(gold, float) and gold.is_integer():
        gold = int(gold)
    # Task code may return numpy's whole numbers, which are no `int`; lm-eval compares them like one.
    return int(gold) if hasattr(gold, "__index__") and int(gold) < len(choices) else INVALID_GOLD


def _draw(request: Request, index: int) -> Request:
    """One of k draws. Greedy decoding has only one, so its repeats are the same request."""
    if isinstance(request, Generation) and not request.sampling.is_greedy and index:
        return replace(request, draw=index)
    return request


def field_locations(definition: TaskDefinition, above: tuple[str, ...]) -> dict[str, str]:
    """File location of each field; an example's field falls back to the task's own."""
    found = {}
    for key in ("doc_to_text", "doc_to_target", "doc_to_choice", "gen_prefix"):
        inner = (*above, key)
        found[key] = definition.file.where(*inner if inner in definition.file.places else (key,))
    return found
