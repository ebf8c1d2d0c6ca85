"""Lessons for heads as courses: which head they need, and where in which row the right answer stands.

Takes lessons with one request each; gives a `HeadCourse`. Lessons of one set of labels train a classification head,
other labels and choices a multiple-choice head, spans a span head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.core.errors import Fault, ModelError
from assay.core.fitting import FitSettings, Lesson
from assay.core.requests import Choosing, Classification, SpanExtraction
from assay.models.checkpoints import max_length
from assay.models.encoder_heads import CHOICES, LABELS, SPANS, Head
from assay.models.fitting.courses import Parent, left_out
from assay.models.fitting.heads import HeadCourse, HeadLesson
from assay.models.fitting.new_heads import HeadPlan, plan_head
from assay.models.head_encoding import HeadInput, HeadRow, PairTokenizer, encode_head

UNLIMITED = 1 << 30
AS_CHOICES = "the lessons do not share one list of labels: all are learnt as choices, with the labels as choices"


def head_course(
    tokenizer: PairTokenizer, parent: Parent, lessons: Sequence[Lesson], checks: Sequence[Lesson], settings: FitSettings
) -> HeadCourse:
    """The course of an encoder."""
    head, notice = needed_head([*lessons, *checks])
    if head is CHOICES:
        lessons, checks = ([_as_choosing(lesson) for lesson in group] for group in (lessons, checks))
    labels = _labels(lessons[0]) if head is LABELS else ()
    plan = plan_head(parent.checkpoint, parent.arguments, head, labels)
    longest = min(settings.max_length or UNLIMITED, max_length(parent.checkpoint, parent.arguments))
    learnt, refused = _read(tokenizer, lessons, plan, longest)
    checked, refused_checks = _read(tokenizer, checks, plan, longest)
    cut = sum(lesson.read.truncated > 0 for lesson in learnt)
    notices = [
        notice,
        left_out("lessons", len(refused), len(lessons), "".join(refused[:1])),
        left_out("validation lessons", len(refused_checks), len(checks), "".join(refused_checks[:1])),
        f"{cut} of {len(learnt)} lessons were cut to {longest} tokens" if cut else None,
    ]
    return HeadCourse(parent, settings, plan, tokenizer, learnt, checked, [text for text in notices if text])


def needed_head(lessons: Sequence[Lesson]) -> tuple[Head, str | None]:
    """The head that can learn all lessons, and a notice where that is not the one of their own kind.

    Raises:
        ModelError: for spans beside other kinds.
    """
    kinds = {lesson.requests[0].kind for lesson in lessons}
    if kinds == {SpanExtraction.kind}:
        return SPANS, None
    if SpanExtraction.kind in kinds:
        others = ", ".join(sorted(kinds - {SpanExtraction.kind}))
        found = f"spans beside {others}: no head learns both"
        raise ModelError(Fault("lessons", found, "lessons of spans alone, or none of them"))
    if kinds == {Choosing.kind}:
        return CHOICES, None
    if kinds == {Classification.kind} and len({_labels(lesson) for lesson in lessons}) == 1:
        return LABELS, None
    return CHOICES, AS_CHOICES


def _labels(lesson: Lesson) -> tuple[str, ...]:
    request = lesson.requests[0]
    return request.labels if isinstance(request, Classification) else ()


def _as_choosing(lesson: Lesson) -> Lesson:
    """The same lesson with its labels as choices."""
    request = lesson.requests[0]
    if not isinstance(request, Classification):
        return lesson
    return replace(lesson, requests=(Choosing(request.text.strip(), request.labels),))


def _read(
    tokenizer: PairTokenizer, lessons: Sequence[Lesson], plan: HeadPlan, longest: int
) -> tuple[list[HeadLesson], list[str]]:
    """Lessons as rows, and why others cannot be used."""
    read: list[HeadLesson] = []
    refused: list[str] = []
    for lesson in lessons:
        found = _read_one(tokenizer, lesson, plan, longest)
        if isinstance(found, str):
            refused.append(found)
        else:
            read.append(found)
    return read, refused


def _read_one(tokenizer: PairTokenizer, lesson: Lesson, plan: HeadPlan, longest: int) -> HeadLesson | str:
    request = lesson.requests[0]
    assert isinstance(request, (Classification, Choosing, SpanExtraction))  # check_lessons has seen to it
    read = encode_head(tokenizer, request, longest)
    if isinstance(request, SpanExtraction):
        found = find_span(request, read, lesson)
        if isinstance(found, str):
            return found
        row, targets = found
        return HeadLesson(request, read, (row,), targets, lesson.right, lesson.answer)
    target = plan.places[lesson.right] if isinstance(request, Classification) else lesson.right
    return HeadLesson(request, read, read.rows, (target,), lesson.right, lesson.answer)


def find_span(request: SpanExtraction, read: HeadInput, lesson: Lesson) -> tuple[HeadRow, tuple[int, int]] | str:
    """The window that holds the answer with the most context on its shorter side, and its first and last token there.

    Of a context without the answer, the first window and its token for "no answer". A text says why there is none.
    """
    if not lesson.answer:
        first = read.rows[0]
        return first, (first.null_token, first.null_token)
    start = lesson.start
    if not request.context.startswith(lesson.answer, start):
        start = request.context.find(lesson.answer)
        if start < 0:
            return "the answer does not stand in the context"
    found = [(row, place) for row in read.rows if (place := _span_in(row, start, start + len(lesson.answer)))]
    if not found:
        return "the answer is longer than a window"
    return max(found, key=lambda entry: _room(*entry))


def _span_in(row: HeadRow, start: int, end: int) -> tuple[int, int] | None:
    """First and last token of some characters of the context; None where the window does not hold them all."""
    inside = [(place, offset) for place, offset in enumerate(row.offsets) if offset and offset[0] < offset[1]]
    if not inside or inside[0][1][0] > start or inside[-1][1][1] < end:
        return None
    touched = [place for place, offset in inside if offset[0] < end and offset[1] > start]
    return (touched[0], touched[-1]) if touched else None


def _room(row: HeadRow, place: tuple[int, int]) -> int:
    """Tokens of context on the shorter side of a span."""
    inside = [number for number, offset in enumerate(row.offsets) if offset]
    return min(place[0] - inside[0], inside[-1] - place[1])
