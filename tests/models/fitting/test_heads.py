"""Encoders learn with the head that their lessons need: labels, choices or spans."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.fitting import FitReport, FitSettings, Lesson
from assay.core.protocols import Trainable
from assay.core.requests import HEAD_KINDS, Choosing, Classification, Request, SpanExtraction
from assay.core.responses import LabelScores, Text
from assay.core.specs import ModelSettings
from assay.models.encoder_heads import CHOICES, LABELS, SPANS
from assay.models.families import open_hf
from assay.models.fitting.courses import Parent
from assay.models.fitting.head_lessons import AS_CHOICES, head_course, needed_head

Fit = Callable[..., FitReport]
Encoders = Callable[..., Path]
Tensors = Callable[[Path], dict[str, Any]]
NOUNS = ("fox", "sky", "girl", "dog")
NAMES = ("quick", "blue", "little", "lazy")
# Without dropout, which a network this small would need many steps for.
YOUNG = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def opened(folder: Path) -> Any:
    return open_hf({"pretrained": str(folder)}, ModelSettings("auto", "cpu"))


def labelled(labels: tuple[str, ...] = NAMES) -> list[Lesson]:
    return [
        Lesson((Classification(f"Question {number}: what was the {noun}?", labels),), labels.index(name))
        for number in range(8)
        for noun, name in zip(NOUNS, NAMES, strict=True)
    ]


def chosen() -> list[Lesson]:
    """Of two or four choices; the right one is not always at the same place."""
    found = []
    for number in range(32):
        count, right = (4, number % 4) if number % 3 else (2, number % 2)
        noun = number // 4 % 4
        others = [name for name in NAMES if name != NAMES[noun]][: count - 1]
        choices = (*others[:right], NAMES[noun], *others[right:])
        found.append(Lesson((Choosing(f"what was the {NOUNS[noun]}?", choices),), right))
    return found


def spans() -> list[Lesson]:
    """Which word stands behind the noun that is asked for."""
    context = "the fox was quick and the sky was blue and the girl was little and the dog was lazy"
    found = []
    for number in range(32):
        noun, name = NOUNS[number % 4], NAMES[number % 4]
        text = f"time {number}: {context}"
        found.append(Lesson((SpanExtraction(f"the {noun}?", text),), answer=name, start=text.index(name)))
    return found


def course_of(folder: Path, lessons: list[Lesson], **settings: Any) -> Any:
    model = opened(folder)
    parent = Parent(model.checkpoint, model.arguments, "", model.capabilities, head_course)  # type: ignore[arg-type]
    return head_course(model.tokenizer, parent, lessons, lessons, FitSettings(**settings))


def right_answers(folder: Path, lessons: list[Lesson]) -> int:
    """How many lessons the model of a folder answers rightly when it is asked."""
    requests: list[Request] = [lesson.requests[0] for lesson in lessons]
    found = dict(opened(folder).respond(requests))
    total = 0
    for place, lesson in enumerate(lessons):
        answer = found[place]
        if isinstance(answer, LabelScores):
            total += answer.scores.index(max(answer.scores)) == lesson.right
        else:
            assert isinstance(answer, Text), answer
            total += answer.text == lesson.answer
    return total


def test_an_encoder_says_what_it_learns(encoders: Encoders) -> None:
    model = opened(encoders("Bert", "Model"))
    assert model.capabilities.learns == set(HEAD_KINDS)
    assert isinstance(model, Trainable)


@pytest.mark.parametrize("lessons", [labelled(), chosen(), spans()], ids=["labels", "choices", "spans"])
def test_an_encoder_learns_its_lessons(lessons: list[Lesson], encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    parent = encoders("Bert", "Model", **YOUNG)
    report = fitted(parent, tmp_path / "new", lessons, lessons, epochs=20)
    assert report.value is not None and report.value > 0.95
    assert right_answers(tmp_path / "new", lessons) > 0.95 * 32


@pytest.mark.parametrize("kind", ["Roberta", "DistilBert"])
def test_other_encoders_learn_too(kind: str, encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    for name, lessons in (("labels", labelled()), ("choices", chosen()), ("spans", spans())):
        report = fitted(encoders(kind, "Model"), tmp_path / name, lessons, lessons[:8], max_steps=2)
        assert report.steps == 2
        assert right_answers(tmp_path / name, lessons) >= 0


def test_the_new_head_has_the_labels_of_the_lessons(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    fitted(encoders("Bert", "Model"), tmp_path / "new", labelled(), max_steps=1)
    assert opened(tmp_path / "new").capabilities.labels == NAMES


def test_the_loss_of_a_batch_is_that_of_each_lesson_alone(encoders: Encoders) -> None:
    """Padding, and choices that a question lacks, change nothing."""
    for lessons in (labelled(), chosen(), spans()):
        course = course_of(encoders("Bert", "Model"), lessons)
        module = course.load().module
        together = course.loss(module, course.collate(course.rows[:5])).item()
        alone = sum(course.loss(module, course.collate([row])).item() for row in course.rows[:5])
        assert together == pytest.approx(alone, rel=1e-5)


def test_the_examination_is_what_asking_gives(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    for name, lessons in (("labels", labelled()), ("choices", chosen()), ("spans", spans())):
        parent = encoders("Bert", "Model")
        report = fitted(parent, tmp_path / name, lessons, lessons, max_steps=3)
        assert report.value == right_answers(tmp_path / name, lessons) / 32
    scores = dict(opened(tmp_path / "labels").respond([lesson.requests[0] for lesson in labelled()]))
    loss = -sum(scores[place].scores[lesson.right] for place, lesson in enumerate(labelled())) / 32
    course = course_of(tmp_path / "labels", labelled())
    assert course.examine(course.load().module, "cpu", True).loss == pytest.approx(loss, rel=1e-5)


def test_a_head_is_kept_by_the_correlation_of_its_labels(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    options = {"metric": "mcc", "check_every": 4, "max_steps": 12}
    report = fitted(encoders("Bert", "Model", **YOUNG), tmp_path / "new", labelled(), labelled(), **options)
    assert (report.metric, report.value) == ("mcc", max(entry["mcc"] for entry in report.history))
    with pytest.raises(ModelError, match='found "f1", but validation lesson 1 has no choices'):
        fitted(encoders("Bert", "Model"), tmp_path / "other", spans(), spans(), metric="f1")


def test_a_span_head_is_kept_by_the_words_it_shares(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    options = {"metric": "squad_f1", "check_every": 4, "max_steps": 12}
    report = fitted(encoders("Bert", "Model", **YOUNG), tmp_path / "new", spans(), spans(), **options)
    assert (report.metric, report.value) == ("squad_f1", max(entry["squad_f1"] for entry in report.history))
    assert all(entry["accuracy"] <= entry["squad_f1"] for entry in report.history)
    with pytest.raises(ModelError, match='found "squad_f1", but validation lesson 1 does not ask for a span'):
        fitted(encoders("Bert", "Model"), tmp_path / "other", labelled(), labelled(), metric="squad_f1")


def test_a_head_with_the_same_labels_is_kept_in_its_own_order(encoders: Encoders, tensors: Tensors) -> None:
    folder = encoders("Bert", "ForSequenceClassification", id2label=dict(enumerate(NAMES)))
    course = course_of(folder, labelled(NAMES[::-1]))
    module = course.load().module
    assert module.classifier.weight.equal(tensors(folder)["classifier.weight"])
    # "lazy" is the first label of these lessons and the last output of the head.
    assert [row.targets for row in course.rows[:4]] == [(0,), (1,), (2,), (3,)]
    assert list(module.config.id2label.values()) == list(NAMES)
    assert course.load().notices == ()


def test_a_head_for_other_labels_gives_way_and_that_is_said(encoders: Encoders, tensors: Tensors) -> None:
    others = ("one", "two", "three", "four")
    folder = encoders("Bert", "ForSequenceClassification", id2label=dict(enumerate(others)))
    loaded = course_of(folder, labelled()).load()
    old = tensors(folder)
    assert not loaded.module.classifier.weight.equal(old["classifier.weight"])
    body = "bert.encoder.layer.0.output.dense.weight"
    assert loaded.module.state_dict()[body].equal(old[body])
    text = "the parent's head has other labels (one, two, three, four): the new model has a new head"
    assert loaded.notices == (text,)


def test_a_head_of_another_kind_gives_way(encoders: Encoders) -> None:
    folder = encoders("Bert", "ForSequenceClassification", id2label=dict(enumerate(NAMES)))
    loaded = course_of(folder, chosen()).load()
    assert loaded.notices == ("the parent's classification head gives way to a multiple-choice head",)
    assert loaded.module.classifier.weight.shape[0] == 1


def test_which_head_lessons_need() -> None:
    assert needed_head(labelled()) == (LABELS, None)
    assert needed_head(chosen()) == (CHOICES, None)
    assert needed_head(spans()) == (SPANS, None)
    assert needed_head([*labelled(), *chosen()]) == (CHOICES, AS_CHOICES)
    assert needed_head([*labelled(), *labelled(NAMES[::-1])]) == (CHOICES, AS_CHOICES)
    with pytest.raises(ModelError, match="spans beside classification: no head learns both"):
        needed_head([*labelled(), *spans()])


def test_lessons_of_several_labels_are_learnt_as_choices(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    lessons = [*labelled()[:4], *labelled(NAMES[::-1])[:4], *chosen()[:4]]
    report = fitted(encoders("Bert", "Model"), tmp_path / "new", lessons, max_steps=1)
    assert AS_CHOICES in report.notices
    assert opened(tmp_path / "new").capabilities.kinds == {"choosing"}


def span_lesson(answer: str, start: int = 0, words: int = 60) -> Lesson:
    context = " ".join(["once upon a time"] * words) + " the sky was blue " + " ".join(["the dog"] * words)
    return Lesson((SpanExtraction("the sky?", context, may_lack=True),), answer=answer, start=start)


def test_a_span_is_learnt_in_a_window_that_holds_it(encoders: Encoders) -> None:
    lesson = span_lesson("sky was blue")
    course = course_of(encoders("Bert", "Model"), [lesson])
    (row,) = course.rows
    context = lesson.requests[0].context  # type: ignore[union-attr]
    first, last = row.targets
    (window,) = row.rows
    assert len(row.read.rows) > 3
    assert context[window.offsets[first][0] : window.offsets[last][1]] == "sky was blue"
    # Not at the edge of the window, where half of what tells it would be missing.
    assert min(first - window.first_context_token, len(window.ids) - last) > 3


def test_no_answer_is_learnt_as_the_token_for_none(encoders: Encoders) -> None:
    (row,) = course_of(encoders("Bert", "Model"), [span_lesson("")]).rows
    assert row.rows == row.read.rows[:1]
    assert row.targets == (row.rows[0].null_token,) * 2 == (0, 0)


def test_answers_that_are_not_in_the_context_are_left_out_and_counted(encoders: Encoders) -> None:
    course = course_of(encoders("Bert", "Model"), [*spans(), span_lesson("Paris")])
    assert len(course.rows) == 32
    assert course.notices[0] == "1 of 33 lessons were left out: the answer does not stand in the context"


def test_long_texts_are_cut_and_that_is_said(encoders: Encoders) -> None:
    course = course_of(encoders("Bert", "Model"), labelled(), max_length=8)
    assert {len(row.rows[0].ids) for row in course.rows} == {8}
    assert course.notices == ["32 of 32 lessons were cut to 8 tokens"]
