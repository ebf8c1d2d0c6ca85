"""Ways of picking: scores worked out by hand, and the rules of OpenCompass and HELM worked out from a real model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.core.requests import Instance, Loglikelihood
from assay.core.responses import Logprob
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.metrics.value_types import brier_scores
from assay.scoring.registry import metric_definition
from assay.scoring.scorers.choice_methods import METHODS
from assay.scoring.scorers.multiple_choice import ChoiceView, argmax, choice_view

# "é" is one character and two bytes, "世界" two characters and six bytes.
CHOICES = ("é", "世界", "four")
COUNTS = (2, 3, 1)
TOTALS = (-2.0, -3.0, -4.0)


def view(
    totals: Sequence[float] = TOTALS,
    choices: Sequence[str] = CHOICES,
    gold: Any = 0,
    counts: Sequence[int] = COUNTS,
    nulls: tuple[str, ...] = (),
    alone: Sequence[float] = (),
    prompts: Sequence[Logprob] = (),
) -> ChoiceView:
    results = [Logprob(total, count, False) for total, count in zip(totals, counts, strict=True)]
    results += [Logprob(total, 1, False) for total in alone]
    asked = tuple(Loglikelihood("Q", f" {choice}") for choice in choices)
    instance = Instance("t", 0, asked, choices=tuple(choices), gold=gold, nulls=nulls, prompts=len(prompts))
    return choice_view(instance, [*results, *prompts])


def scores(method: str, shown: ChoiceView, **options: Any) -> list[float]:
    return list(METHODS[method].scores(shown, options))


def value(metric: str, shown: ChoiceView) -> Any:
    return metric_definition(metric).values["multiple_choice"](shown, {})


def test_scores_by_length() -> None:
    assert scores("raw", view()) == [-2.0, -3.0, -4.0]
    assert scores("token", view()) == [-1.0, -1.0, -4.0]
    assert scores("character", view()) == [-2.0, -1.5, -1.0]
    assert scores("continuation", view()) == [-1.0, -1.0, -0.8]
    assert scores("byte", view()) == [-1.0, -0.5, -1.0]


def test_the_metrics_predict_by_these_scores() -> None:
    picks = {"acc": 0, "acc_tokens": 0, "acc_norm": 2, "acc_per_char": 2, "acc_bytes": 1}
    for metric, picked in picks.items():
        assert [value(metric, view(gold=gold)) for gold in range(3)] == [float(gold == picked) for gold in range(3)]


def test_the_blank_before_a_choice_can_change_the_prediction() -> None:
    """OLMES divides by the characters of " ab" and " abcdef": −3/3 against −6.5/7; without the blank −1.5, −1.08."""
    shown = view((-3.0, -6.5), ("ab", "abcdef"), counts=(1, 1))
    assert scores("continuation", shown) == [-1.0, pytest.approx(-6.5 / 7)]
    closer = view((-2.9, -6.9), ("ab", "abcdef"), counts=(1, 1))
    assert [argmax(scores(name, closer)) for name in ("character", "continuation")] == [1, 0]


def test_mutual_information() -> None:
    shown = view(nulls=("", "So:"), alone=(-1.0, -9.0, -2.0, -5.0, -1.0, -1.0))
    assert scores("mutual", shown) == [-1.0, 6.0, -2.0]
    assert scores("mutual-phrase", shown, phrase="So:") == [3.0, -2.0, -3.0]
    assert value("acc_mutual_info", view(gold=1, nulls=("",), alone=(-1.0, -9.0, -2.0))) == 1.0


def test_the_phrase_is_answer_unless_another_is_named() -> None:
    assert scores("mutual-phrase", view(nulls=("Answer:",), alone=(-1.0, -1.0, -9.0))) == [-1.0, -2.0, 5.0]


def test_the_whole_prompt() -> None:
    """A prompt of 5 tokens, 4 of them scored: -10. (−10 − 2)/(5 + 2), (−10 − 3)/(5 + 3), (−10 − 4)/(5 + 1)."""
    shown = view(prompts=[Logprob(-10.0, 4, False, prompt_tokens=1)])
    assert scores("opencompass", shown) == pytest.approx([-12 / 7, -13 / 8, -14 / 6])
    assert value("acc_opencompass", shown._replace(golds=(1,))) == 1.0


def test_whole_prompts_of_each_choice() -> None:
    prompts = [Logprob(-10.0, 4, False, prompt_tokens=1), Logprob(-1.0, 1, False, prompt_tokens=1)]
    shown = view((-2.0, -3.0), ("a", "b"), 1, (1, 1), prompts=prompts)
    assert scores("opencompass", shown) == pytest.approx([-12 / 6, -4 / 3])


def test_every_request_has_its_place() -> None:
    prompt = Logprob(-10.0, 4, False, prompt_tokens=1)
    shown = view(nulls=("", "Answer:"), alone=(-1, -2, -3, -4, -5, -6), prompts=[prompt])
    assert {null: [item.total for item in found] for null, found in shown.alone.items()} == {
        "": [-1, -2, -3],
        "Answer:": [-4, -5, -6],
    }
    assert list(shown.prompts) == [prompt] * 3
    assert list(shown.totals) == list(TOTALS)


# Odd input

EVERY = ["acc", "acc_norm", "acc_bytes", "acc_tokens", "exact_match", "greedy_choice"]


def test_an_empty_choice() -> None:
    shown = view((-0.5, -3.0), ("", "ab"), 0, (0, 2))
    assert scores("character", shown) == scores("byte", shown) == scores("token", shown) == [-math.inf, -1.5]
    assert value("acc", shown) == 1.0
    empty = view((0.0,), ("",), 0, (0,), prompts=[Logprob(0.0, 0, False)])
    assert scores("opencompass", empty) == [-math.inf]


@pytest.mark.parametrize("gold", [-1, -100, 7, ()])
def test_an_unknown_right_answer_is_wrong_everywhere(gold: Any) -> None:
    shown = view(gold=gold)
    assert [value(metric, shown) for metric in EVERY] == [0.0] * len(EVERY)
    # Every choice is wrong, so all probabilities are off: the sum of their squares.
    weights = [math.exp(total) for total in TOTALS]
    squares = sum((weight / sum(weights)) ** 2 for weight in weights)
    assert brier_scores([value("brier_score", shown)]) == pytest.approx([squares])
    confidence, is_right = value("ece", shown)
    assert confidence == pytest.approx(weights[0] / sum(weights))
    assert is_right == 0.0
    assert value("position_bias", shown) == (-1, 0)
    assert value("choice_margin", shown) == 1.0
    assert value("choice_mass", shown) == pytest.approx(sum(weights))
    assert value("f1", shown)[1] == 0


def test_documents_without_a_right_answer_have_no_say_in_the_position_bias() -> None:
    """Right at 0, 0, 1; predicted at 0, 1, 1: one of three predictions would have to move."""
    bias = AGGREGATIONS["position_bias"]
    pairs = [(0, 0), (0, 1), (1, 1)]
    for values in (pairs, [*pairs, (-1, 2), (-1, 2)]):
        assert bias.estimate(bias.read(values)).value == pytest.approx(1 / 3)
    assert bias.estimate(bias.read([(-1, 0), (-1, 1)])).value is None


def test_the_first_choice_can_be_right() -> None:
    assert [value(metric, view(gold=0)) for metric in ("acc", "acc_tokens")] == [1.0, 1.0]
    assert value("position_bias", view(gold=0)) == (0, 0)


def test_a_single_choice() -> None:
    shown = view((-2.0,), ("x",), 0, (1,))
    assert [value(metric, shown) for metric in ("acc", "acc_norm", "acc_bytes", "acc_tokens")] == [1.0] * 4
    assert value("choice_margin", shown) is None
    assert value("ece", shown) == (1.0, 1.0)
    assert brier_scores([value("brier_score", shown)]) == [0.0]


def test_equal_choices_are_one_in_the_mass_and_the_first_is_predicted() -> None:
    shown = view((-1.0, -1.0), ("x", "x"), 1, (1, 1))
    assert value("acc", shown) == 0.0
    assert value("choice_margin", shown) == 0.0
    assert value("choice_mass", shown) == pytest.approx(math.exp(-1))


def test_impossible_choices_are_never_nan() -> None:
    shown = view((-math.inf, -math.inf), ("x", "y"), 0, (1, 1), nulls=("",), alone=(-math.inf, -1.0))
    assert scores("mutual", shown) == [-math.inf, -math.inf]
    assert value("choice_margin", shown) == 0.0
    assert value("ece", shown) == (0.5, 1.0)
    assert value("choice_mass", shown) == 0.0


# The rules of others, worked out from a model's own logits

DOCUMENTS = [
    ("Question: What colour is the sky?\nAnswer:", ("blue", "the lazy dog", "four questions about the world")),
    ("The quick brown fox", ("jumps over the girl", "answers", "is right.")),
    ("What is two plus two? Answer:", ("four", "five", "a little girl who liked to answer")),
    ("Once upon a time", ("there was a fox", "zzz", "é 世界")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT-2 whose tokenizer adds nothing."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([prompt for prompt, _ in DOCUMENTS] * 4, trainer)
    path = tmp_path_factory.mktemp("tiny")
    PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="<s>").save_pretrained(path)
    config = GPT2Config(vocab_size=300, n_embd=16, n_layer=1, n_head=2, n_positions=128, initializer_range=0.6)
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        GPT2LMHeadModel(config).save_pretrained(path)
    return path


class Reference:
    """The rules of others, straight from the network: no part of the code under test."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()

    def losses(self, ids: list[int]) -> list[float]:
        """Cross-entropy of tokens 2 … N of a text."""
        import torch

        with torch.no_grad():
            logits = self.model(torch.tensor([ids])).logits[0]
        given = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")
        return [float(loss) for loss in given]

    def opencompass(self, prompt: str, choice: str) -> float:
        """Its Hugging Face models: the losses of the whole text over all its tokens. The prediction is the lowest."""
        ids = self.tokenizer(f"{prompt} {choice}")["input_ids"]
        return sum(self.losses(ids)) / len(ids)

    def reference_sum(self, prompt: str, choice: str) -> tuple[float, int]:
        """HELM's separate adapters: log-likelihood of the last n tokens, n those of " " + reference."""
        count = len(self.tokenizer(f" {choice}")["input_ids"])
        losses = self.losses(self.tokenizer(f"{prompt} {choice}")["input_ids"])
        return -sum(losses[-count:]), count


@pytest.fixture(scope="module")
def answered(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[ChoiceView]:
    """Our own answers to the documents, under every method."""
    from assay.api import evaluate
    from assay.core.documents import Document
    from assay.core.requests import Loglikelihood, RollingLoglikelihood
    from assay.core.specs import MetricSpec, Scoring
    from assay.testing import ToyTask, toy_choice_task

    def build(document: Document) -> Instance:
        prompt, choices = DOCUMENTS[document.id]
        built = [Loglikelihood(given, f" {text}") for given in (prompt, "Answer:") for text in choices]
        whole = RollingLoglikelihood(prompt, stands_on_prefix=False)
        return Instance(
            "toy_choice", document.id, (*built, whole), choices=choices, gold=0, nulls=("Answer:",), prompts=1
        )

    toy = toy_choice_task(len(DOCUMENTS))
    names = ("acc", "acc_tokens", "acc_mutual_phrase", "acc_opencompass")
    task = ToyTask(toy.card, Scoring("multiple_choice", tuple(map(MetricSpec, names))), toy.rows, build)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_CACHE", str(tmp_path_factory.mktemp("cache")))
        result = evaluate("hf", [task], store=":memory:", model_args={"pretrained": str(folder)}, device="cpu")
    return [choice_view(item.instance, item.outputs) for item in result.tasks[0].answered]


def test_opencompass(folder: Path, answered: list[ChoiceView]) -> None:
    reference = Reference(folder)
    for (prompt, choices), shown in zip(DOCUMENTS, answered, strict=True):
        expected = [reference.opencompass(prompt, choice) for choice in choices]
        found = scores("opencompass", shown)
        assert [-score for score in found] == pytest.approx(expected, rel=1e-4)
        assert argmax(found) == expected.index(min(expected))


def test_helm_separate_original(folder: Path, answered: list[ChoiceView]) -> None:
    reference = Reference(folder)
    for (prompt, choices), shown in zip(DOCUMENTS, answered, strict=True):
        pairs = [reference.reference_sum(prompt, choice) for choice in choices]
        expected = [total / count for total, count in pairs]
        assert scores("token", shown) == pytest.approx(expected, rel=1e-4)
        assert argmax(scores("token", shown)) == expected.index(max(expected))


def test_helm_separate_calibrated(folder: Path, answered: list[ChoiceView]) -> None:
    reference = Reference(folder)
    for (prompt, choices), shown in zip(DOCUMENTS, answered, strict=True):
        expected = [
            reference.reference_sum(prompt, choice)[0] - reference.reference_sum("Answer:", choice)[0]
            for choice in choices
        ]
        assert scores("mutual-phrase", shown) == pytest.approx(expected, rel=1e-3, abs=1e-4)
        assert argmax(scores("mutual-phrase", shown)) == expected.index(max(expected))


def test_the_rules_differ_on_these_documents(answered: list[ChoiceView]) -> None:
    """Otherwise the agreement above would say little."""
    picks = {name: [argmax(scores(name, shown)) for shown in answered] for name in ("raw", "token", "opencompass")}
    assert picks["raw"] != picks["token"]
    assert picks["opencompass"] != picks["raw"] or picks["opencompass"] != picks["token"]
