"""What models learn from a task's documents: of which split, with which requests, and what is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.errors import DataError
from assay.core.protocols import ProvidesTrainingExamples
from assay.core.requests import HEAD_KINDS, ChoiceSelection, Classification, Loglikelihood, SpanExtraction
from assay.core.specs import ChatSpec, TaskOptions
from assay.core.training import TrainingExample
from assay.tasks.head_requests import as_head_task
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.lm_eval.variants.style_variants import in_style

Make = Callable[..., LmEvalTask]

LANGUAGE = frozenset({"loglikelihood", "generation"})
HEADS = frozenset(HEAD_KINDS)
ROWS = {
    "test": [{"t": "test", "label": 0}],
    "dev": [{"t": "dev", "label": 0}],
    "train": [{"t": "one", "label": 1}, {"t": "two", "label": -1}, {"t": "three", "label": 0}],
}
CHOICE = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{t}}\nAnswer:",
    "doc_to_target": "label",
    "doc_to_choice": ["no", "yes"],
    "training_split": "train",
}
SPAN = {"kind": "span_qa", "question": "q", "context": "c", "answers": "a"}
SPANS = [
    {"q": "Who?", "c": "Ann met Ann.", "a": {"text": ["Ann"], "answer_start": [8]}},
    {"q": "Wrong place?", "c": "Ann met Bob.", "a": {"text": ["Bob"], "answer_start": [1]}},
    {"q": "Not there?", "c": "Ann met Bob.", "a": {"text": ["Eve"], "answer_start": [1]}},
    {"q": "Why?", "c": "Ann met Bob.", "a": {"text": [], "answer_start": []}},
]


def asked(made: LmEvalTask) -> LmEvalTask:
    return LmEvalTask(in_style(made.definition, None), made.options, made._source)


# Language models


def test_choices_are_learnt_with_the_right_one(make_task: Make) -> None:
    made = make_task(ROWS, TaskOptions(num_fewshot=2), **CHOICE)
    assert isinstance(made, ProvidesTrainingExamples)
    one, three = made.training_examples("training", LANGUAGE)
    prompt = "one\nAnswer:"
    assert one == TrainingExample(
        (Loglikelihood(prompt, " no"), Loglikelihood(prompt, " yes")), right=1, lengths=(2, 3)
    )
    assert (three.requests[0], three.right) == (Loglikelihood("three\nAnswer:", " no"), 0)
    assert made.notices() == ["toy: training: 1 of 3 documents gives no training example: no right answer is known"]


def test_requests_of_metrics_are_not_training_examples(make_task: Make) -> None:
    metrics = [{"metric": "acc_mutual_info"}, {"metric": "acc_opencompass"}]
    found = make_task(ROWS, **CHOICE, metric_list=metrics).training_examples("training", LANGUAGE)
    assert [len(training_example.requests) for training_example in found] == [2, 2]


def test_written_answers_follow_the_delimiter(make_task: Make) -> None:
    rows = {"test": [{"q": "a", "x": ["b", "c"]}], "train": [{"q": "d", "x": ["e", "f"]}, {"q": "g", "x": []}]}
    made = make_task(rows, doc_to_text="{{q}}:", doc_to_target="x", training_split="train")
    assert made.training_examples("training", LANGUAGE) == [TrainingExample((Loglikelihood("d:", " e"),))]
    assert len(made.notices()) == 1


def test_written_choices_without_a_label_are_left_out(make_task: Make) -> None:
    made = make_task(ROWS, **{**CHOICE, "output_type": "generate_until"})
    texts = [
        training_example.requests[0].continuation for training_example in made.training_examples("training", LANGUAGE)
    ]  # type: ignore[union-attr]
    assert texts == [" yes", " no"]


def test_continuations_are_trained_as_evaluated(make_task: Make) -> None:
    keys = {"output_type": "loglikelihood", "doc_to_text": "{{t}}", "doc_to_target": " x", "training_split": "dev"}
    assert make_task(ROWS, **keys).training_examples("training", LANGUAGE) == [
        TrainingExample((Loglikelihood("dev", " x"),))
    ]


def test_whole_texts_are_learnt_after_nothing(make_task: Make) -> None:
    keys = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "t", "training_split": "dev"}
    assert make_task(ROWS, **keys).training_examples("training", LANGUAGE) == [
        TrainingExample((Loglikelihood("", "dev"),))
    ]


def test_formats_are_written(make_task: Make) -> None:
    made = asked(make_task({"test": SPANS, "train": SPANS}, format={**SPAN, "may_lack": True}, training_split="train"))
    found = made.training_examples("training", LANGUAGE)
    texts = [training_example.requests[0].continuation for training_example in found]  # type: ignore[union-attr]
    assert texts == [" Ann", " Bob", " Eve", " unanswerable"]


def test_conversations_are_learnt_as_such(make_task: Make) -> None:
    made = make_task(ROWS, TaskOptions(chat=ChatSpec(apply=True)), **CHOICE)
    (request, _) = made.training_examples("training", LANGUAGE)[0].requests
    assert isinstance(request, Loglikelihood)
    assert (request.prompt[0].role, request.continuation) == ("user", "no")  # type: ignore[union-attr]


# Heads


def test_heads_learn_classes(make_task: Make) -> None:
    made = make_task(ROWS, **CHOICE)
    expected = [
        TrainingExample((Classification("one", ("no", "yes")),), right=1),
        TrainingExample((Classification("three", ("no", "yes")),), right=0),
    ]
    assert made.training_examples("training", HEADS) == expected
    (first, _) = made.training_examples("training", frozenset({"choosing"}))
    assert first == TrainingExample((ChoiceSelection("one", ("no", "yes")),), right=1)


def test_heads_learn_spans(make_task: Make) -> None:
    test = [{**SPANS[0], "q": "When?"}]
    made = make_task({"test": test, "train": SPANS}, format={**SPAN, "may_lack": True}, training_split="train")
    who, place, why = made.training_examples("training", HEADS)
    assert who == TrainingExample((SpanExtraction("Who?", "Ann met Ann.", True),), answer="Ann", start=8)
    assert (place.answer, place.start) == ("Bob", 8)
    assert (why.answer, why.start) == ("", 0)
    assert made.notices() == [
        "toy: training: 1 of 4 documents gives no training example: the answer does not occur in the context"
    ]


def test_a_span_that_must_be_there_is_not_learnt_from_nothing(make_task: Make) -> None:
    made = make_task({"test": SPANS, "train": SPANS}, format=SPAN, training_split="train")
    assert len(made.training_examples("training", HEADS)) == 2
    assert "toy: training: 1 of 4 documents gives no training example: no right answer is known" in made.notices()


def test_a_task_evaluated_by_a_head_has_the_same_training_examples(make_task: Make) -> None:
    made = make_task(ROWS, **CHOICE)
    wrapped = as_head_task(made, HEADS, {"acc": {"label_scores"}})
    assert wrapped is not None
    assert wrapped.training_examples("training", HEADS) == made.training_examples("training", HEADS)


@pytest.mark.parametrize(("keys", "kinds"), [({"doc_to_text": "t", "doc_to_target": "t"}, HEADS), (CHOICE, {"span"})])
def test_what_a_head_cannot_learn_is_an_error(make_task: Make, keys: dict[str, Any], kinds: Any) -> None:
    made = make_task(ROWS, **{**keys, "training_split": "train"})
    with pytest.raises(DataError, match="has no question that a model trained on .*span"):
        made.training_examples("training", frozenset(kinds))


# Splits


@pytest.mark.parametrize(
    ("splits", "training", "validation"),
    [
        ({"training_split": "train", "validation_split": "dev"}, "one", "dev"),
        ({"training_split": "train"}, "one", None),
        ({"training_split": "train", "test_split": None, "validation_split": "dev"}, "one", None),
        ({"training_split": None, "validation_split": "dev"}, "dev", None),
        ({"training_split": "test", "validation_split": "dev"}, "dev", None),
        ({"training_split": "dev", "validation_split": "dev"}, "dev", None),
    ],
)
def test_the_evaluated_split_is_never_learnt(
    make_task: Make, splits: dict[str, Any], training: str, validation: str | None
) -> None:
    made = make_task(ROWS, **{**CHOICE, **splits})
    first = made.training_examples("training", HEADS)[0].requests[0]
    assert isinstance(first, Classification)
    assert first.first == training
    held = made.training_examples("validation", HEADS)
    assert [training_example.requests[0].first for training_example in held] == ([validation] if validation else [])  # type: ignore[union-attr]


def test_no_split_to_learn_from_is_reported(make_task: Make) -> None:
    made = make_task(ROWS, **{**CHOICE, "training_split": None})
    expected = r'training_split: names no training split besides "test".*one of: dev, train\. Add training_split'
    with pytest.raises(DataError, match=expected):
        made.training_examples("training", LANGUAGE)
    assert made.training_examples("validation", LANGUAGE) == []


def test_documents_without_any_answer_are_an_error(make_task: Make) -> None:
    made = make_task({"test": ROWS["test"], "train": ROWS["train"][1:2]}, **CHOICE)
    with pytest.raises(DataError, match="1 of 1 documents gives no training example: no right answer is known"):
        made.training_examples("training", LANGUAGE)


@pytest.mark.parametrize("kinds", [LANGUAGE, HEADS])
def test_evaluated_documents_equal_training_examples_of_the_same_content(
    make_task: Make, kinds: frozenset[str]
) -> None:
    rows = {**ROWS, "test": [{"t": "three", "label": 0}, {"t": "one", "label": 0}]}
    made = make_task(rows, **CHOICE)
    learnt, evaluated = made.training_examples("training", kinds), made.training_examples("evaluated", kinds)
    assert (len(learnt), len(evaluated), len(set(learnt) & set(evaluated))) == (2, 2, 1)
