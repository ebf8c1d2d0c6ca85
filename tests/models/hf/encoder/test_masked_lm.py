"""Masked language models: pseudo-log-likelihoods as a loop over transformers computes them, token by token."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from assay import evaluate
from assay.core.errors import ModelError
from assay.core.requests import Generation, Loglikelihood, Message, RollingLoglikelihood, Windows
from assay.core.responses import Failure, Logprob
from assay.models.hf.encoder.encoder_model import EncoderModel
from assay.testing.contracts import answers, check_model

Encoders = Callable[..., Path]
Opened = Callable[..., EncoderModel]
KINDS = ("Bert", "Roberta", "DistilBert")
MAX_LENGTH = 48
WORDS = ["Once", "upon", "a", "time", "unbelievable", "girls", "who", "answering", "blue", "sky", "foxes"]


def some_pairs(count: int = 12) -> list[Loglikelihood]:
    """A few prompts, some too long, with continuations of one to four words."""
    choose = random.Random(3)
    prompts = [" ".join(choose.choices(WORDS, k=choose.randint(1, 30))) for _ in range(4)]
    return [
        Loglikelihood(choose.choice(prompts), " " + " ".join(choose.choices(WORDS, k=choose.randint(1, 4))))
        for _ in range(count)
    ]


class Direct:
    """transformers by itself: one row with one hidden token at a time."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.module = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def token(self, ids: Sequence[int], place: int, masked: Sequence[int]) -> tuple[float, bool]:
        import torch

        row = [self.tokenizer.mask_token_id if other in masked else token for other, token in enumerate(ids)]
        with torch.inference_mode():
            line = self.module(input_ids=torch.tensor([row])).logits[0, place].double().log_softmax(-1)
        return float(line[ids[place]]), int(line.argmax()) == ids[place]

    def pair(self, request: Loglikelihood, by_word: bool = False) -> tuple[float, bool, int, int]:
        """Total, whether greedy, tokens scored, tokens cut."""
        assert isinstance(request.prompt, str)
        encoded = self.tokenizer(request.prompt + request.continuation, add_special_tokens=False)
        ids, words = encoded["input_ids"], encoded.word_ids()
        start = len(self.tokenizer(request.prompt, add_special_tokens=False)["input_ids"])
        cut = max(len(ids) - (MAX_LENGTH - 2), 0)
        whole = [self.tokenizer.cls_token_id, *ids[cut:], self.tokenizer.sep_token_id]
        values = []
        for place in range(start, len(ids)):
            later = [other for other in range(place + 1, len(ids)) if by_word and words[other] == words[place]]
            values.append(self.token(whole, place - cut + 1, [other - cut + 1 for other in (place, *later)]))
        return math.fsum(value for value, _ in values), all(best for _, best in values), len(values), cut


@pytest.mark.parametrize("pll", ["original", "within_word_l2r"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_token_is_scored_from_all_others(kind: str, pll: str, encoders: Encoders, opened: Opened) -> None:
    folder, requests = encoders(kind, "ForMaskedLM"), some_pairs()
    direct = Direct(folder)
    found = answers(opened(folder, pll=pll), requests)
    for request, answer in zip(requests, found, strict=True):
        total, is_greedy, count, cut = direct.pair(request, by_word=pll != "original")
        assert answer.total == pytest.approx(total, abs=1e-3, rel=1e-5)
        assert (answer.is_greedy, answer.token_count, answer.truncated) == (is_greedy, count, cut)
        assert answer.prompt_tokens + answer.token_count <= MAX_LENGTH
    assert any(answer.truncated for answer in found) and not all(answer.truncated for answer in found)


def test_words_of_several_tokens_make_the_two_ways_differ(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForMaskedLM")
    pair = [Loglikelihood("Once upon", " unbelievable")]
    (one,), (other,) = (answers(opened(folder, pll=pll), pair) for pll in ("original", "within_word_l2r"))
    assert one.token_count > 1 and one.total != pytest.approx(other.total, abs=1e-2)


def test_the_likeliest_token_is_greedy(encoders: Encoders, opened: Opened) -> None:
    import torch

    folder = encoders("Bert", "ForMaskedLM")
    direct = Direct(folder)
    ids = direct.tokenizer("a girl [MASK]")["input_ids"]
    with torch.inference_mode():
        best = int(direct.module(input_ids=torch.tensor([ids])).logits[0, -2].argmax())
    word = direct.tokenizer.decode([best])
    said = word[2:] if word.startswith("##") else f" {word}"
    assert direct.tokenizer("a girl" + said, add_special_tokens=False)["input_ids"][-1] == best
    (answer,) = answers(opened(folder), [Loglikelihood("a girl", said)])
    assert answer.is_greedy and answer.token_count == 1


def test_an_empty_prompt_is_placed_between_the_special_tokens(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForMaskedLM")
    (answer,) = answers(opened(folder), [Loglikelihood("", "blue sky")])
    total, _, count, _ = Direct(folder).pair(Loglikelihood("", "blue sky"))
    assert answer.total == pytest.approx(total, abs=1e-4)
    assert (answer.token_count, answer.prompt_tokens) == (count, 2)


@pytest.mark.parametrize("batch_size", ["1", "3", "64"])
def test_batches_of_any_size_give_the_same(batch_size: str, encoders: Encoders, opened: Opened) -> None:
    folder, requests = encoders("Roberta", "ForMaskedLM"), some_pairs()
    alone = [answers(opened(folder), [request])[0] for request in requests]
    for one, other in zip(alone, answers(opened(folder, batch_size), requests), strict=True):
        assert other.total == pytest.approx(one.total, abs=1e-3)
        assert (one.token_count, one.is_greedy) == (other.token_count, other.is_greedy)


def test_rows_are_not_padded_where_padding_would_change_results(encoders: Encoders, opened: Opened) -> None:
    folder, requests = encoders("FNet", "ForMaskedLM"), some_pairs()
    direct = Direct(folder)
    for request, answer in zip(requests, answers(opened(folder), requests), strict=True):
        assert answer.total == pytest.approx(direct.pair(request)[0], abs=1e-3, rel=1e-5)


def test_a_head_without_a_last_layer_of_its_own(encoders: Encoders, opened: Opened) -> None:
    # MobileBERT multiplies by the weights of its last layer and never calls it.
    folder = encoders("MobileBert", "ForMaskedLM", embedding_size=16, intra_bottleneck_size=32)
    direct = Direct(folder)
    for request, answer in zip(some_pairs(4), answers(opened(folder), some_pairs(4)), strict=True):
        assert answer.total == pytest.approx(direct.pair(request)[0], abs=1e-2, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_it_keeps_the_contract(kind: str, encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders(kind, "ForMaskedLM"), "3")
    assert model.capabilities.kinds == {"loglikelihood", "rolling_loglikelihood"}
    check_model(model)


def test_choices_of_one_token_share_a_row(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForMaskedLM"))
    rows: list[int] = []
    model._loaded().base.module.register_forward_pre_hook(
        lambda _, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    found = answers(model, [Loglikelihood("the girl", said) for said in (" a", " the", " is", " a")])
    assert [answer.token_count for answer in found] == [1, 1, 1, 1] and sum(rows) == 1
    assert found[0] == found[3]


def test_a_whole_text_is_read_in_windows_and_every_token_scored_once(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForMaskedLM")
    direct, text = Direct(folder), " ".join(WORDS * 4)
    ids = direct.tokenizer(text, add_special_tokens=False)["input_ids"]
    room = MAX_LENGTH - 2
    assert len(ids) > 2 * room
    frame = direct.tokenizer.cls_token_id, direct.tokenizer.sep_token_id
    values, start, end = [], 0, room
    while start < len(ids):
        low = max(end - room, 0)
        row = [frame[0], *ids[low:end], frame[1]]
        values += [direct.token(row, place - low + 1, [place - low + 1]) for place in range(start, end)]
        # Each window repeats a token of the one before.
        start, end = end, min(end + room - 1, len(ids))
    (answer,) = answers(opened(folder), [RollingLoglikelihood(text)])
    assert answer.total == pytest.approx(math.fsum(value for value, _ in values), rel=1e-5)
    assert (answer.token_count, answer.windows) == (len(ids), math.ceil((len(ids) - room) / (room - 1)) + 1)


def test_other_windows_and_texts_that_start_from_their_first_token(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForMaskedLM"))
    text = " ".join(WORDS)
    count = len(model.tokenizer([text], add_special_tokens=False)["input_ids"][0])
    narrow, given, nothing, wide = answers(
        model,
        [
            RollingLoglikelihood(text, windows=Windows(12, 5)),
            RollingLoglikelihood(text, stands_on_prefix=False),
            RollingLoglikelihood(""),
            RollingLoglikelihood(text, windows=Windows(MAX_LENGTH + 1)),
        ],
    )
    assert (narrow.token_count, narrow.windows) == (count, math.ceil((count - 10) / 5) + 1)
    assert (given.token_count, given.prompt_tokens) == (count - 1, 1)
    assert (nothing.token_count, nothing.total) == (0, 0.0)
    assert isinstance(wide, Failure) and wide.kind == "too_long"


def test_what_cannot_be_scored_fails_alone(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Bert", "ForMaskedLM"))
    found = answers(
        model,
        [
            Loglikelihood("a", ""),
            Loglikelihood("a", " " + " ".join(WORDS * 9)),
            Loglikelihood((Message("user", "a"),), "b"),
            Generation("a"),
            Loglikelihood("a", " \ud800 girl"),
        ],
    )
    assert [answer.kind for answer in found[:4]] == ["empty", "too_long", "unsupported", "unsupported"]
    assert isinstance(found[4], Logprob)


def test_the_way_of_scoring_makes_another_model(encoders: Encoders, opened: Opened) -> None:
    folder = encoders("Bert", "ForMaskedLM")
    two = opened(folder).fingerprint, opened(folder, pll="within_word_l2r").fingerprint
    assert two[0].differences(two[1]) == {"settings.pll": ("original", "within_word_l2r")}
    assert opened(folder, pll="original").fingerprint.digest == two[0].digest
    with pytest.raises(ModelError, match="model_args.pll: found 'sloppy'"):
        opened(folder, pll="sloppy")


def test_the_hidden_tokens_can_be_seen(encoders: Encoders, opened: Opened) -> None:
    view = opened(encoders("Bert", "ForMaskedLM")).view(Loglikelihood("the girl", " is the sky"))
    assert (view.context_pieces, view.continuation_pieces) == (("[CLS]", "the", "girl"), ("is", "the", "sky"))
    assert view.prompt_text == "the girl"


def test_multiple_choice_is_evaluated(encoders: Encoders) -> None:
    # Positions for the few-shot free prompts of the demo.
    folder = encoders("Bert", "ForMaskedLM", max_position_embeddings=256)
    result = evaluate("hf", "demo_questions", store=":memory:", model_args={"pretrained": str(folder)}, limit=2)
    assert (result.counts.asked, result.counts.failed) == (8, 0)
    assert result.model_run["why"] == "an encoder with a masked-language-model head"


def test_a_roberta_reads_no_more_than_its_positions(encoders: Encoders, opened: Opened) -> None:
    model = opened(encoders("Roberta", "ForMaskedLM"))
    # The table has two rows more, which are the padding token's and the one before it.
    assert model.capabilities.max_tokens == MAX_LENGTH
    (answer,) = answers(model, [Loglikelihood(" ".join(WORDS * 9), " sky")])
    assert isinstance(answer, Logprob) and answer.prompt_tokens + answer.token_count == MAX_LENGTH


def test_weights_as_older_files_hold_them(encoders: Encoders, opened: Opened, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    folder = encoders("Bert", "ForPreTraining")
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    weights = load_file(copy / "model.safetensors")
    # Places were weights once; they are not missed where they are not, and not minded where they are.
    weights["bert.embeddings.position_ids"] = torch.arange(MAX_LENGTH).unsqueeze(0)
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    request = Loglikelihood("the girl", " is the sky")
    assert answers(opened(copy), [request]) == answers(opened(folder), [request])
