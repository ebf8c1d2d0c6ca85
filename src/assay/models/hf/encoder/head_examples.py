"""Training examples of encoder heads: which head they need, and the position of the right answer in its row.

In: training examples with one request each. Out: a `HeadRecipe`. Examples with one common set of labels train a
classification head, other labels and choices a multiple-choice head, spans a span head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.core.errors import Fault, ModelError
from assay.core.requests import (
    ChoiceSelection,
    Classification,
    Generation,
    Loglikelihood,
    Rating,
    RollingLoglikelihood,
    SpanExtraction,
)
from assay.core.training import FitSettings, TrainingExample
from assay.models.hf.encoder.head_encoding import HeadInput, HeadRow, PairTokenizer, encode_head
from assay.models.hf.encoder.head_recipes import HeadRecipe, HeadTrainingExample
from assay.models.hf.encoder.heads import CHOICES, LABELS, NUMBER, SPANS, HeadKind
from assay.models.hf.encoder.new_heads import HeadPlan, plan_head
from assay.models.loading.checkpoint import max_length
from assay.models.training.recipes import Parent, skipped_notice, truncated_notice

UNLIMITED = 1 << 30
_OF_LANGUAGE_MODELS = (Loglikelihood, RollingLoglikelihood, Generation)
AS_CHOICES = "the training examples have different labels: all are trained as multiple choice, with labels as choices"


def head_recipe(
    tokenizer: PairTokenizer,
    parent: Parent,
    training_examples: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    settings: FitSettings,
) -> HeadRecipe:
    """The training recipe of an encoder."""
    head, notice = needed_head([*training_examples, *validation])
    if head is CHOICES:
        training_examples, validation = (
            [_as_choosing(training_example) for training_example in group] for group in (training_examples, validation)
        )
    labels = _labels(training_examples[0]) if head is LABELS else ()
    plan = plan_head(parent.checkpoint, parent.arguments, head, labels)
    longest = min(settings.max_length or UNLIMITED, max_length(parent.checkpoint, parent.arguments))
    trained, refused = _read(tokenizer, training_examples, plan, longest)
    validated, refused_validation = _read(tokenizer, validation, plan, longest)
    cut = sum(training_example.read.truncated > 0 for training_example in trained)
    notices = [
        notice,
        skipped_notice("training example", len(refused), len(training_examples), "".join(refused[:1])),
        skipped_notice("validation example", len(refused_validation), len(validation), "".join(refused_validation[:1])),
        truncated_notice(cut, len(trained), longest),
    ]
    return HeadRecipe(
        parent=parent,
        settings=settings,
        plan=plan,
        tokenizer=tokenizer,
        rows=trained,
        validated=validated,
        notices=[text for text in notices if text],
    )


def needed_head(training_examples: Sequence[TrainingExample]) -> tuple[HeadKind, str | None]:
    """The head that can be trained on all examples, and a notice if it is not the one of their own kind.

    Raises:
        ModelError: if spans or numbers are mixed with other kinds.
    """
    kinds = {training_example.requests[0].kind for training_example in training_examples}
    for kind, name, head in ((SpanExtraction.kind, "spans", SPANS), (Rating.kind, "numbers", NUMBER)):
        if kinds == {kind}:
            return head, None
        if kind in kinds:
            others = ", ".join(sorted(kinds - {kind}))
            found = f"{name} mixed with {others}: no head can be trained on both"
            raise ModelError(Fault("training examples", found, f"{name} only, or no {name}"))
    if kinds == {ChoiceSelection.kind}:
        return CHOICES, None
    if (
        kinds == {Classification.kind}
        and len({_labels(training_example) for training_example in training_examples}) == 1
    ):
        return LABELS, None
    return CHOICES, AS_CHOICES


def _labels(training_example: TrainingExample) -> tuple[str, ...]:
    request = training_example.requests[0]
    return request.labels if isinstance(request, Classification) else ()


def _as_choosing(training_example: TrainingExample) -> TrainingExample:
    """The same training example with its labels as choices."""
    request = training_example.requests[0]
    if not isinstance(request, Classification):
        return training_example
    return replace(training_example, requests=(ChoiceSelection(request.text.strip(), request.labels),))


def _read(
    tokenizer: PairTokenizer, training_examples: Sequence[TrainingExample], plan: HeadPlan, longest: int
) -> tuple[list[HeadTrainingExample], list[str]]:
    """Training examples as rows, and the reasons why others cannot be used."""
    read: list[HeadTrainingExample] = []
    refused: list[str] = []
    for training_example in training_examples:
        found = _read_one(tokenizer, training_example, plan, longest)
        if isinstance(found, str):
            refused.append(found)
        else:
            read.append(found)
    return read, refused


def _read_one(
    tokenizer: PairTokenizer, training_example: TrainingExample, plan: HeadPlan, longest: int
) -> HeadTrainingExample | str:
    request = training_example.requests[0]
    assert not isinstance(request, _OF_LANGUAGE_MODELS)  # ensured by check_training_examples
    read = encode_head(tokenizer, request, longest)
    if isinstance(request, SpanExtraction):
        found = find_span(request, read, training_example)
        if isinstance(found, str):
            return found
        row, targets = found
        return HeadTrainingExample(request, read, (row,), targets, training_example.right, training_example.answer)
    if isinstance(request, Rating):
        value = (float(training_example.answer),)
        return HeadTrainingExample(request, read, read.rows, value, training_example.right, training_example.answer)
    target = (
        plan.label_positions[training_example.right] if isinstance(request, Classification) else training_example.right
    )
    return HeadTrainingExample(request, read, read.rows, (target,), training_example.right, training_example.answer)


def find_span(
    request: SpanExtraction, read: HeadInput, training_example: TrainingExample
) -> tuple[HeadRow, tuple[int, int]] | str:
    """The window that has the answer with the most context on its shorter side, and the answer's first and last token.

    For a context without the answer, the first window and its "no answer" token. A string is the reason for failure.
    """
    if not training_example.answer:
        first = read.rows[0]
        return first, (first.null_token, first.null_token)
    start = training_example.start
    if not request.context.startswith(training_example.answer, start):
        start = request.context.find(training_example.answer)
        if start < 0:
            return "the answer is not in the context"
    found = [(row, place) for row in read.rows if (place := _span_in(row, start, start + len(training_example.answer)))]
    if not found:
        return "the answer is longer than a window"
    return max(found, key=lambda entry: _room(*entry))


def _span_in(row: HeadRow, start: int, end: int) -> tuple[int, int] | None:
    """First and last token of a character range of the context; None if the window does not contain all of it."""
    inside = [(place, offset) for place, offset in enumerate(row.offsets) if offset and offset[0] < offset[1]]
    if not inside or inside[0][1][0] > start or inside[-1][1][1] < end:
        return None
    touched = [place for place, offset in inside if offset[0] < end and offset[1] > start]
    return (touched[0], touched[-1]) if touched else None


def _room(row: HeadRow, place: tuple[int, int]) -> int:
    """Number of context tokens on the shorter side of a span."""
    inside = [number for number, offset in enumerate(row.offsets) if offset]
    return min(place[0] - inside[0], inside[-1] - place[1])
