"""Encoders are trained with the head that their training examples need: labels, choices or spans."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.protocols import Trainable
from assay.core.requests import HEAD_KINDS, ChoiceSelection, Classification, Rating, Request, SpanExtraction
from assay.core.responses import LabelScores, Text
from assay.core.specs import ModelSettings
from assay.core.training import FitReport, FitSettings, TrainingExample
from assay.models.hf.encoder.head_examples import AS_CHOICES, head_recipe, needed_head
from assay.models.hf.encoder.heads import CHOICES, LABELS, NUMBER, SPANS
from assay.models.hf.families import open_hf
from assay.models.training.recipes import Parent

Fit = Callable[..., FitReport]
Encoders = Callable[..., Path]
Tensors = Callable[[Path], dict[str, Any]]
NOUNS = ("fox", "sky", "girl", "dog")
NAMES = ("quick", "blue", "little", "lazy")
# Without dropout, which a network this small would need many steps for.
YOUNG = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def opened(folder: Path) -> Any:
    return open_hf({"pretrained": str(folder)}, ModelSettings("auto", "cpu"))


def labelled(labels: tuple[str, ...] = NAMES) -> list[TrainingExample]:
    return [
        TrainingExample((Classification(f"Question {number}: what was the {noun}?", labels),), labels.index(name))
        for number in range(8)
        for noun, name in zip(NOUNS, NAMES, strict=True)
    ]


def chosen() -> list[TrainingExample]:
    """Of two or four choices; the right one is not always at the same place."""
    found = []
    for number in range(32):
        count, right = (4, number % 4) if number % 3 else (2, number % 2)
        noun = number // 4 % 4
        others = [name for name in NAMES if name != NAMES[noun]][: count - 1]
        choices = (*others[:right], NAMES[noun], *others[right:])
        found.append(TrainingExample((ChoiceSelection(f"what was the {NOUNS[noun]}?", choices),), right))
    return found


def spans() -> list[TrainingExample]:
    """Which word follows the noun in question."""
    context = "the fox was quick and the sky was blue and the girl was little and the dog was lazy"
    found = []
    for number in range(32):
        noun, name = NOUNS[number % 4], NAMES[number % 4]
        text = f"time {number}: {context}"
        found.append(TrainingExample((SpanExtraction(f"the {noun}?", text),), answer=name, start=text.index(name)))
    return found


def recipe_of(folder: Path, training_examples: list[TrainingExample], **settings: Any) -> Any:
    model = opened(folder)
    parent = Parent(model.checkpoint, model.arguments, "", model.capabilities, head_recipe)  # type: ignore[arg-type]
    return head_recipe(model.tokenizer, parent, training_examples, training_examples, FitSettings(**settings))


def right_answers(folder: Path, training_examples: list[TrainingExample]) -> int:
    """How many training examples the model of a folder answers correctly."""
    requests: list[Request] = [training_example.requests[0] for training_example in training_examples]
    found = dict(opened(folder).respond(requests))
    total = 0
    for place, training_example in enumerate(training_examples):
        answer = found[place]
        if isinstance(answer, LabelScores):
            total += answer.scores.index(max(answer.scores)) == training_example.right
        else:
            assert isinstance(answer, Text), answer
            total += answer.text == training_example.answer
    return total


def test_an_encoder_says_what_it_learns(encoders: Encoders) -> None:
    model = opened(encoders("Bert", "Model"))
    assert model.capabilities.learns == set(HEAD_KINDS)
    assert isinstance(model, Trainable)


@pytest.mark.parametrize("training_examples", [labelled(), chosen(), spans()], ids=["labels", "choices", "spans"])
def test_an_encoder_learns_its_training_examples(
    training_examples: list[TrainingExample], encoders: Encoders, fitted: Fit, tmp_path: Path
) -> None:
    parent = encoders("Bert", "Model", **YOUNG)
    report = fitted(parent, tmp_path / "new", training_examples, training_examples, epochs=20)
    assert report.value is not None and report.value > 0.95
    assert right_answers(tmp_path / "new", training_examples) > 0.95 * 32


@pytest.mark.parametrize("kind", ["Roberta", "DistilBert"])
def test_other_encoders_learn_too(kind: str, encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    for name, training_examples in (("labels", labelled()), ("choices", chosen()), ("spans", spans())):
        report = fitted(encoders(kind, "Model"), tmp_path / name, training_examples, training_examples[:8], max_steps=2)
        assert report.steps == 2
        assert right_answers(tmp_path / name, training_examples) >= 0


def test_the_new_head_has_the_labels_of_the_training_examples(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    fitted(encoders("Bert", "Model"), tmp_path / "new", labelled(), max_steps=1)
    assert opened(tmp_path / "new").capabilities.labels == NAMES


def test_the_loss_of_a_batch_is_that_of_each_training_example_alone(encoders: Encoders) -> None:
    """Padding, and choices that a question lacks, change nothing."""
    for training_examples in (labelled(), chosen(), spans()):
        recipe = recipe_of(encoders("Bert", "Model"), training_examples)
        module = recipe.load().module
        together = recipe.loss(module, recipe.collate(recipe.rows[:5])).item()
        alone = sum(recipe.loss(module, recipe.collate([row])).item() for row in recipe.rows[:5])
        assert together == pytest.approx(alone, rel=1e-5)


def test_validation_gives_what_inference_gives(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    for name, training_examples in (("labels", labelled()), ("choices", chosen()), ("spans", spans())):
        parent = encoders("Bert", "Model")
        report = fitted(parent, tmp_path / name, training_examples, training_examples, max_steps=3)
        assert report.value == right_answers(tmp_path / name, training_examples) / 32
    scores = dict(
        opened(tmp_path / "labels").respond([training_example.requests[0] for training_example in labelled()])
    )
    loss = -sum(scores[place].scores[training_example.right] for place, training_example in enumerate(labelled())) / 32
    recipe = recipe_of(tmp_path / "labels", labelled())
    assert recipe.validate(recipe.load().module, "cpu", True).loss == pytest.approx(loss, rel=1e-5)


def test_a_head_is_selected_by_the_correlation_of_its_labels(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    options = {"metric": "mcc", "check_every": 4, "max_steps": 12}
    report = fitted(encoders("Bert", "Model", **YOUNG), tmp_path / "new", labelled(), labelled(), **options)
    assert (report.metric, report.value) == ("mcc", max(entry["mcc"] for entry in report.history))
    with pytest.raises(ModelError, match='found "f1", but validation example 1 has no choices'):
        fitted(encoders("Bert", "Model"), tmp_path / "other", spans(), spans(), metric="f1")


def test_a_span_head_is_selected_by_the_words_it_shares(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    options = {"metric": "squad_f1", "check_every": 4, "max_steps": 12}
    report = fitted(encoders("Bert", "Model", **YOUNG), tmp_path / "new", spans(), spans(), **options)
    assert (report.metric, report.value) == ("squad_f1", max(entry["squad_f1"] for entry in report.history))
    assert all(entry["accuracy"] <= entry["squad_f1"] for entry in report.history)
    with pytest.raises(ModelError, match='found "squad_f1", but validation example 1 is not a span request'):
        fitted(encoders("Bert", "Model"), tmp_path / "other", labelled(), labelled(), metric="squad_f1")


def numbers() -> list[TrainingExample]:
    """How alike two nouns are: 5 if they are the same, else 1."""
    return [
        TrainingExample((Rating(f"number {n}: the {NOUNS[n % 4]}", f"a {NOUNS[n // 4 % 4]}"),), answer=value)
        for n in range(32)
        for value in ["5.0" if n % 4 == n // 4 % 4 else "1.0"]
    ]


def test_a_regression_head_is_trained_on_numbers(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    assert needed_head(numbers()) == (NUMBER, None)
    options = {"metric": "pearson", "check_every": 20, "max_steps": 40, "learning_rate": 3e-3}
    report = fitted(encoders("Bert", "Model", **YOUNG), tmp_path / "new", numbers(), numbers(), **options)
    assert (report.metric, report.value) == ("pearson", max(entry["pearson"] for entry in report.history))
    assert report.value > 0.8 and report.history[-1]["loss"] < report.history[0]["loss"]
    model = opened(tmp_path / "new")
    asked = [example.requests[0] for example in numbers()[:2]]
    alike, different = (float(answer.text) for _, answer in sorted(model.respond(asked)))
    assert model.capabilities.kinds == {Rating.kind} and alike > different


def test_numbers_have_a_correlation_and_no_accuracy(encoders: Encoders, fitted: Fit, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match='found "accuracy", but validation example 1 is a rating'):
        fitted(encoders("Bert", "Model"), tmp_path / "new", numbers(), numbers())
    with pytest.raises(ModelError, match='found "pearson", but validation example 1 is not a rating'):
        fitted(encoders("Bert", "Model"), tmp_path / "new", labelled(), labelled(), metric="pearson")
    with pytest.raises(ModelError, match="numbers mixed with classification"):
        needed_head([*numbers(), *labelled()])


def test_a_head_with_the_same_labels_is_reused_in_its_own_order(encoders: Encoders, tensors: Tensors) -> None:
    folder = encoders("Bert", "ForSequenceClassification", id2label=dict(enumerate(NAMES)))
    recipe = recipe_of(folder, labelled(NAMES[::-1]))
    module = recipe.load().module
    assert module.classifier.weight.equal(tensors(folder)["classifier.weight"])
    # "lazy" is the first label of these examples and the last output of the head.
    assert [row.targets for row in recipe.rows[:4]] == [(0,), (1,), (2,), (3,)]
    assert list(module.config.id2label.values()) == list(NAMES)
    assert recipe.load().notices == ()


def test_a_head_for_other_labels_is_replaced_and_that_is_reported(encoders: Encoders, tensors: Tensors) -> None:
    others = ("one", "two", "three", "four")
    folder = encoders("Bert", "ForSequenceClassification", id2label=dict(enumerate(others)))
    loaded = recipe_of(folder, labelled()).load()
    old = tensors(folder)
    assert not loaded.module.classifier.weight.equal(old["classifier.weight"])
    body = "bert.encoder.layer.0.output.dense.weight"
    assert loaded.module.state_dict()[body].equal(old[body])
    text = "the parent's head has other labels (one, two, three, four): training a new head"
    assert loaded.notices == (text,)


def test_a_head_of_another_kind_gives_way(encoders: Encoders) -> None:
    folder = encoders("Bert", "ForSequenceClassification", id2label=dict(enumerate(NAMES)))
    loaded = recipe_of(folder, chosen()).load()
    assert loaded.notices == ("the parent's classification head is replaced by a multiple-choice head",)
    assert loaded.module.classifier.weight.shape[0] == 1


def test_which_head_training_examples_need() -> None:
    assert needed_head(labelled()) == (LABELS, None)
    assert needed_head(chosen()) == (CHOICES, None)
    assert needed_head(spans()) == (SPANS, None)
    assert needed_head([*labelled(), *chosen()]) == (CHOICES, AS_CHOICES)
    assert needed_head([*labelled(), *labelled(NAMES[::-1])]) == (CHOICES, AS_CHOICES)
    with pytest.raises(ModelError, match="spans mixed with classification: no head can be trained on both"):
        needed_head([*labelled(), *spans()])


def test_training_examples_of_several_labels_are_trained_as_choices(
    encoders: Encoders, fitted: Fit, tmp_path: Path
) -> None:
    training_examples = [*labelled()[:4], *labelled(NAMES[::-1])[:4], *chosen()[:4]]
    report = fitted(encoders("Bert", "Model"), tmp_path / "new", training_examples, max_steps=1)
    assert AS_CHOICES in report.notices
    assert opened(tmp_path / "new").capabilities.kinds == {"choosing"}


def span_example(answer: str, start: int = 0, words: int = 60) -> TrainingExample:
    context = " ".join(["once upon a time"] * words) + " the sky was blue " + " ".join(["the dog"] * words)
    return TrainingExample((SpanExtraction("the sky?", context, may_lack=True),), answer=answer, start=start)


def test_a_span_is_trained_in_a_window_that_holds_it(encoders: Encoders) -> None:
    training_example = span_example("sky was blue")
    recipe = recipe_of(encoders("Bert", "Model"), [training_example])
    (row,) = recipe.rows
    context = training_example.requests[0].context  # type: ignore[union-attr]
    first, last = row.targets
    (window,) = row.rows
    assert len(row.read.rows) > 3
    assert context[window.offsets[first][0] : window.offsets[last][1]] == "sky was blue"
    # Not at the edge of the window, where half of what tells it would be missing.
    assert min(first - window.first_context_token, len(window.ids) - last) > 3


def test_no_answer_is_trained_as_the_token_for_none(encoders: Encoders) -> None:
    (row,) = recipe_of(encoders("Bert", "Model"), [span_example("")]).rows
    assert row.rows == row.read.rows[:1]
    assert row.targets == (row.rows[0].null_token,) * 2 == (0, 0)


def test_answers_that_are_not_in_the_context_are_left_out_and_counted(encoders: Encoders) -> None:
    recipe = recipe_of(encoders("Bert", "Model"), [*spans(), span_example("Paris")])
    assert len(recipe.rows) == 32
    assert recipe.notices[0] == "1 of 33 training examples was skipped: the answer is not in the context"


def test_long_texts_are_cut_and_that_is_reported(encoders: Encoders) -> None:
    recipe = recipe_of(encoders("Bert", "Model"), labelled(), max_length=8)
    assert {len(row.rows[0].ids) for row in recipe.rows} == {8}
    assert recipe.notices == ["32 of 32 training examples were truncated to 8 tokens"]
