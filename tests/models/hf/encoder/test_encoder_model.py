"""Encoders with heads, tiny and real: what transformers computes for one request at a time, in any batches."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.core.errors import ModelError
from assay.core.protocols import ExposesTokens, Model, ReportsExecution, ReportsNotices
from assay.core.requests import (
    ChoiceSelection,
    Classification,
    Generation,
    Loglikelihood,
    Rating,
    Request,
    SpanExtraction,
)
from assay.core.responses import Failure, LabelScores, Text
from assay.models.hf.encoder.encoder_model import EncoderModel
from assay.testing.contracts import answers, check_model

Encoders = Callable[..., Path]
Opened = Callable[..., EncoderModel]
KINDS = ("Bert", "Roberta", "DistilBert")
NAMES = {"id2label": {0: "not_entailment", 1: "Entailment", 2: "neutral"}}
MAX_LENGTH = 48
WORDS = ["Once", "upon", "a", "time", "there", "was", "little", "girl", "who", "liked", "to", "answer", "blue", "sky"]


def some_text(choose: random.Random, most: int) -> str:
    return " ".join(choose.choices(WORDS, k=choose.randint(1, most)))


class Direct:
    """transformers by itself: one text or pair at a time, no padding."""

    def __init__(self, folder: Path, loader: str) -> None:
        import transformers

        self.module = getattr(transformers, loader).from_pretrained(folder).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.takes_types = type(self.module).__name__.startswith("Bert")

    def run(self, *texts: str | None, **options: Any) -> Any:
        import torch

        encoded = self.tokenizer(*texts, max_length=MAX_LENGTH, return_tensors="pt", **options)
        names = ["input_ids", "attention_mask", *(["token_type_ids"] if self.takes_types else [])]
        inputs = {name: encoded[name] for name in names}
        if "MultipleChoice" in type(self.module).__name__:
            inputs = {name: values.unsqueeze(0) for name, values in inputs.items()}
        with torch.inference_mode():
            return self.module(**inputs)


LABELS = ("neutral", "entailment", "not entailment")


def some_classifications(count: int = 20) -> list[Classification]:
    choose = random.Random(5)
    return [
        Classification(some_text(choose, 30), LABELS, choose.choice([None, some_text(choose, 30)]))
        for _ in range(count)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_scored_as_transformers_scores_them(kind: str, encoders: Encoders, opened: Opened) -> None:
    folder = encoders(kind, "ForSequenceClassification", **NAMES)
    direct = Direct(folder, "AutoModelForSequenceClassification")
    requests = some_classifications()
    for request, answer in zip(requests, answers(opened(folder), requests), strict=True):
        logits = direct.run(request.first, request.second, truncation="longest_first").logits[0].double()
        # The head's order is not the task's.
        expected = logits[[2, 1, 0]].log_softmax(-1).tolist()
        assert answer.scores == pytest.approx(expected, abs=1e-4)
        whole = len(direct.tokenizer(request.first, request.second)["input_ids"])
        assert answer.prompt_tokens + answer.truncated == whole
        assert answer.prompt_tokens <= MAX_LENGTH
    assert any(answer.truncated for answer in answers(opened(folder), requests))


def test_labels_that_are_not_requested_get_no_share(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForSequenceClassification", **NAMES)
    logits = Direct(folder, "AutoModelForSequenceClassification").run("a girl").logits[0].double()
    (answer,) = answers(opened(folder), [Classification("a girl", ("Neutral", "ENTAILMENT"))])
    assert answer.scores == pytest.approx(logits[[2, 1]].log_softmax(-1).tolist(), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_choices_are_scored_as_transformers_scores_them(kind: str, encoders: Encoders, opened: Opened) -> None:
    import torch

    folder, choose = encoders(kind, "ForMultipleChoice"), random.Random(6)
    direct = Direct(folder, "AutoModelForMultipleChoice")
    requests = [
        ChoiceSelection(some_text(choose, 40), tuple(some_text(choose, 6) for _ in range(choose.randint(2, 5))))
        for _ in range(12)
    ]
    requests.append(ChoiceSelection("", ("a girl", "the sky", "a girl")))
    for request, answer in zip(requests, answers(opened(folder), requests), strict=True):
        pairs = [(request.question, choice) if request.question else (choice, None) for choice in request.choices]
        logits = torch.cat(
            [direct.run(*pair, truncation="only_first" if request.question else True).logits[0] for pair in pairs]
        )
        assert answer.scores == pytest.approx(logits.double().log_softmax(-1).tolist(), abs=1e-4)
        wholes = [len(direct.tokenizer(*pair)["input_ids"]) for pair in pairs]
        assert answer.truncated == sum(max(whole - MAX_LENGTH, 0) for whole in wholes)
        assert answer.prompt_tokens == min(max(wholes), MAX_LENGTH)


QUESTION = "What colour is the sky?"


def best_by_hand(direct: Direct, request: SpanExtraction, stride: int, most: int = 30) -> tuple[str, float, float]:
    """Every (start, end) pair of every window tried in turn: the text, its score, and the score of no answer."""
    import torch

    options = {"truncation": "only_second", "max_length": MAX_LENGTH, "stride": stride}
    encoded = direct.tokenizer(
        request.question, request.context, return_overflowing_tokens=True, return_offsets_mapping=True, **options
    )
    best, nulls = ("", -1e9), []
    for number, ids in enumerate(encoded["input_ids"]):
        inputs = {"input_ids": torch.tensor([ids])}
        if direct.takes_types:
            inputs["token_type_ids"] = torch.tensor([encoded["token_type_ids"][number]])
        with torch.inference_mode():
            output = direct.module(**inputs)
        starts, ends = output.start_logits[0].tolist(), output.end_logits[0].tolist()
        nulls.append(starts[0] + ends[0])
        places = [place for place, side in enumerate(encoded.sequence_ids(number)) if side == 1]
        offsets = encoded["offset_mapping"][number]
        words = [place for place in places if request.context[offsets[place][0] : offsets[place][1]].strip()]
        for first in words:
            for last in words:
                if first <= last < first + most and starts[first] + ends[last] > best[1]:
                    text = request.context[offsets[first][0] : offsets[last][1]]
                    best = (text.strip(), starts[first] + ends[last])
    return *best, min(nulls)


def some_spans(count: int = 10) -> list[SpanExtraction]:
    choose = random.Random(8)
    return [SpanExtraction(QUESTION, some_text(choose, 90)) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_span_of_all_windows_answers(kind: str, encoders: Encoders, opened: Opened) -> None:
    folder = encoders(kind, "ForQuestionAnswering")
    direct = Direct(folder, "AutoModelForQuestionAnswering")
    asked = len(direct.tokenizer(QUESTION, add_special_tokens=False)["input_ids"])
    stride = (MAX_LENGTH - direct.tokenizer.num_special_tokens_to_add(pair=True) - asked) // 2
    requests = some_spans()
    assert any(len(direct.tokenizer(request.context)["input_ids"]) > 1.5 * MAX_LENGTH for request in requests)
    for request, answer in zip(requests, answers(opened(folder), requests), strict=True):
        assert answer.text == best_by_hand(direct, request, stride)[0]
        assert answer.text and answer.truncated == 0


def test_a_span_is_no_longer_than_allowed(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForQuestionAnswering")
    direct, requests = Direct(folder, "AutoModelForQuestionAnswering"), some_spans()
    asked = len(direct.tokenizer(QUESTION, add_special_tokens=False)["input_ids"])
    found = answers(opened(folder, max_span=2), requests)
    assert {answer.token_count for answer in found} <= {1, 2}
    for request, answer in zip(requests, found, strict=True):
        assert answer.text == best_by_hand(direct, request, (MAX_LENGTH - 3 - asked) // 2, most=2)[0]


def test_no_answer_is_given_where_it_scores_higher_in_every_window(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForQuestionAnswering")
    direct, requests = Direct(folder, "AutoModelForQuestionAnswering"), some_spans(40)
    asked = len(direct.tokenizer(QUESTION, add_special_tokens=False)["input_ids"])
    lacking = [SpanExtraction(entry.question, entry.context, may_lack=True) for entry in requests]
    expected = []
    for request in requests:
        text, score, null = best_by_hand(direct, request, (MAX_LENGTH - 3 - asked) // 2)
        expected.append("" if null > score else text)
    assert [answer.text for answer in answers(opened(folder), lacking)] == expected
    assert "" in expected and any(expected)


def test_a_context_without_words(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Roberta", "ForQuestionAnswering"))
    found = answers(model, [SpanExtraction("who", "", may_lack=True), SpanExtraction("who", " \n ")])
    assert found[0].text == "" and isinstance(found[1], Failure) and found[1].kind == "empty"


def spoken(folder_head: str) -> list[Request]:
    """Requests that a head answers, of many lengths, some twice."""
    choose = random.Random(2)
    if folder_head == "ForSequenceClassification":
        return [*some_classifications(), *some_classifications(3)]
    if folder_head == "ForQuestionAnswering":
        return [*some_spans(), *some_spans(2)]
    return [ChoiceSelection(some_text(choose, 20), tuple(some_text(choose, 3) for _ in range(4))) for _ in range(12)]


@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForMultipleChoice", "ForQuestionAnswering"])
def test_batches_of_any_size_give_the_same(head: str, encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", head, **(NAMES if head == "ForSequenceClassification" else {}))
    requests = spoken(head)
    alone = [answers(opened(folder), [request])[0] for request in requests]
    for batch_size in ("1", "3", "64", "auto"):
        for one, other in zip(alone, answers(opened(folder, batch_size), requests), strict=True):
            if isinstance(one, Text):
                assert one == other
            else:
                assert other.scores == pytest.approx(one.scores, abs=1e-4)


@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForMultipleChoice", "ForQuestionAnswering", "Model"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_the_contract(kind: str, head: str, encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders(kind, head, **(NAMES if head == "ForSequenceClassification" else {})), "2")
    for protocol in (EncoderModel, Model, ExposesTokens, ReportsNotices, ReportsExecution):
        assert isinstance(model, protocol)
    check_model(model)


def test_equal_rows_are_read_once(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForMultipleChoice"))
    rows: list[int] = []
    model._loaded().base.module.register_forward_pre_hook(
        lambda _, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    answers(model, [ChoiceSelection("the sky", ("blue", "a dog")), ChoiceSelection("the sky", ("blue", "a fox"))])
    assert sum(rows) == 3


def test_labels_are_given_and_matched_by_index_where_the_head_has_no_names(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForSequenceClassification", num_labels=3))
    assert model.capabilities.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    by_place, by_name = answers(
        model,
        [Classification("a girl", ("no", "yes", "both")), Classification("a girl", ("LABEL_2", "LABEL_0", "LABEL_1"))],
    )
    assert by_place.scores == pytest.approx([by_name.scores[place] for place in (1, 2, 0)], abs=1e-5)
    # transformers does not write down that there are two, which is its default.
    assert opened(encoders("Bert", "ForSequenceClassification")).capabilities.labels == ("LABEL_0", "LABEL_1")


def test_labels_outside_the_head_fail_and_load_nothing(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForSequenceClassification", **NAMES))
    (failure,) = answers(model, [Classification("a girl", ("neutral", "positive"))])
    assert isinstance(failure, Failure) and (failure.kind, failure.retryable) == ("unsupported", False)
    assert failure.message.startswith("labels outside the head: requested neutral, positive; the head has not_ent")
    assert model.description() == {}


def test_the_user_may_name_the_outputs(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForSequenceClassification", **NAMES)
    named = opened(folder, labels="bad|good|so so")
    assert named.capabilities.labels == ("bad", "good", "so so")
    (first,) = answers(named, [Classification("a girl", ("good", "so-so"))])
    (second,) = answers(opened(folder), [Classification("a girl", ("entailment", "neutral"))])
    assert first.scores == second.scores
    difference = named.fingerprint.differences(opened(folder).fingerprint)
    assert difference == {"settings.labels": (["bad", "good", "so so"], None)}


def test_wrong_arguments_for_a_head_are_reported_when_it_is_opened(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForSequenceClassification", **NAMES)
    with pytest.raises(ModelError, match="labels: names 2 labels, the head has 3 outputs: not_entailment, Entail"):
        opened(folder, labels="bad|good")
    with pytest.raises(ModelError, match="model_args.pll: BertForSequenceClassification has no masked-language-model"):
        opened(folder, pll="original")
    with pytest.raises(ModelError, match="model_args.labels: found 'one'"):
        opened(folder, labels="one")
    with pytest.raises(ModelError, match='engine "tree", but .* is an encoder'):
        opened(folder, engine="tree")


def test_a_regression_head_rates_texts_and_pairs(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForSequenceClassification", num_labels=1))
    assert model.capabilities.kinds == {Rating.kind} and model.capabilities.labels == ()
    alone, pair, again = answers(model, [Rating("a girl"), Rating("a girl", "a fox"), Rating("a girl")])
    assert isinstance(alone, Text) and isinstance(pair, Text) and alone == again
    assert float(alone.text) != float(pair.text)


def test_a_regression_head_with_several_outputs_is_refused(encoders: Encoders, opened: Opened) -> None:
    with pytest.raises(ModelError, match="regression head with 3 outputs"):
        opened(encoders("Bert", "ForSequenceClassification", num_labels=3, problem_type="regression"))


def test_a_head_that_was_never_saved_is_not_a_head(encoders: Encoders, opened: Opened, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(encoders("Bert", "Model"), tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "architectures": ["BertForSequenceClassification"]}))
    with pytest.raises(ModelError, match=r"2 weights missing from its files, such as classifier.bias"):
        answers(opened(copy), [Classification("a girl", ("LABEL_0", "LABEL_1"))])


def test_an_encoder_without_a_head_opens_and_answers_nothing(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "Model"))
    able = model.capabilities
    assert (able.kinds, able.family, able.labels) == (frozenset(), "encoder", ())
    assert able.learns == {"classification", "choosing", "span", "rating"}
    for answer in answers(model, [Loglikelihood("a", "b"), Generation("a"), Classification("a", ("x", "y"))]):
        assert isinstance(answer, Failure) and (answer.kind, answer.retryable) == ("unsupported", False)
    with pytest.raises(ModelError, match="generation request: the model cannot answer generation requests"):
        model.view(Generation("a"))
    assert model.fingerprint.settings["family"] == "encoder"


@pytest.mark.parametrize("task", ["demo_arithmetic_2d", "demo_scramble_cycle"])
def test_a_run_on_an_encoder_without_a_head_says_to_train_it(encoders: Encoders, task: str) -> None:
    args = {"pretrained": str(encoders("Bert", "Model"))}
    with pytest.raises(ModelError, match="is an encoder without a head .*assay finetune --model … --tasks …"):
        evaluate("hf", task, store=":memory:", model_args=args)


@pytest.mark.parametrize(
    ("task", "kind"), [("demo_arithmetic_2d", "loglikelihood"), ("demo_scramble_cycle", "generation")]
)
def test_a_classification_head_neither_scores_nor_writes(encoders: Encoders, task: str, kind: str) -> None:
    args = {"pretrained": str(encoders("Bert", "ForSequenceClassification", **NAMES))}
    with pytest.raises(ModelError, match=rf"\(encoder\): cannot answer {kind} requests.*it answers classification"):
        evaluate("hf", task, store=":memory:", model_args=args)


def test_a_classification_head_gives_no_log_likelihoods(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForSequenceClassification", **NAMES))
    found = answers(model, [Loglikelihood("a", "b"), ChoiceSelection("a", ("b", "c")), Classification("a", LABELS)])
    assert [getattr(answer, "kind", None) for answer in found[:2]] == ["unsupported", "unsupported"]
    assert isinstance(found[2], LabelScores)


def test_the_tokens_of_a_request_can_be_seen(encoders: Encoders, opened: Opened) -> None:
    view = opened(encoders("Bert", "ForMultipleChoice")).view(ChoiceSelection("the sky", ("blue", "a dog")))
    assert " ".join(view.context_pieces).startswith("[CLS] the sky [SEP] blue [SEP] [CLS] the sky [SEP] a")
    assert view.continuation_ids == ()


def test_memory_that_runs_out_makes_batches_smaller(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForSequenceClassification", **NAMES)
    model, requests = opened(folder, "8"), some_classifications()

    def refuse(_: Any, args: Any, kwargs: Any) -> None:
        if len(kwargs["input_ids"]) > 2:
            raise RuntimeError("out of memory")

    model._loaded().base.module.register_forward_pre_hook(refuse, with_kwargs=True)
    for one, other in zip(answers(model, requests), answers(opened(folder), requests), strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-4)
    assert list(model.notices()) == ["memory ran out; batches were reduced to 2 rows"]


def test_numbers_that_are_none_fail(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForSequenceClassification", **NAMES))
    model._loaded().base.module.classifier.register_forward_hook(lambda *_: _[2] * float("nan"))
    (failure,) = answers(model, [Classification("a", LABELS)])
    assert isinstance(failure, Failure) and failure.kind == "not_finite"


def test_it_can_be_closed_and_used_again(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForSequenceClassification", **NAMES))
    request = Classification("a girl", LABELS)
    before = answers(model, [request])
    assert model.description() == {"engine": "padded", "why": "an encoder with a classification head"}
    model.close()
    assert model.description() == {} and answers(model, [request]) == before


def test_an_encoder_decoder_with_a_classification_head_answers(bart: Path, opened: Opened, tmp_path: Path) -> None:
    import torch
    from transformers import AutoTokenizer, BartConfig, BartForSequenceClassification

    config = BartConfig.from_pretrained(bart)
    with torch.random.fork_rng([]):
        torch.manual_seed(4)
        BartForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(bart)
    tokenizer.save_pretrained(tmp_path)
    module = BartForSequenceClassification.from_pretrained(tmp_path).eval()
    texts = ("the sky", "a little girl who liked to answer", "a")
    requests = [Classification(text, ("no", "yes", "both")) for text in texts]
    for request, answer in zip(requests, answers(opened(tmp_path), requests), strict=True):
        with torch.inference_mode():
            logits = module(input_ids=torch.tensor([tokenizer(request.first)["input_ids"]])).logits[0]
        assert answer.scores == pytest.approx(logits.double().log_softmax(-1).tolist(), abs=1e-4)
