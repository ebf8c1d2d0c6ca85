"""Whole texts in windows of any length and stride, against one plain forward pass per token."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay import Read, evaluate, task
from assay.core.errors import ModelError, UserError
from assay.core.requests import RollingLoglikelihood, Windows
from assay.core.responses import Failure, Logprob
from assay.models.hf.decoder.model import CausalModel
from assay.models.ngram import NgramModel
from assay.models.tokens.tokenization import rolling_windows

Opened = Callable[..., CausalModel]
TEXT = "Once upon a time there was a little girl who liked to answer questions about the sky"
GRID = [(8, 8), (8, 7), (8, 3), (8, 1), (5, 2), (1, 1), (16, 16), (16, 5), (None, 4), (None, None)]


def score(model: CausalModel, *requests: RollingLoglikelihood) -> list[Logprob]:
    found = dict(model.respond(requests))
    answers = [found[place] for place in range(len(requests))]
    assert all(isinstance(answer, Logprob) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, Logprob)]


def by_single_tokens(passes: Callable[[tuple[int, ...]], Any], whole: Sequence[int], length: int, stride: int) -> float:
    """Every token from a separate pass over the context of its window; `whole` begins with the prefix."""
    total, count = 0.0, len(whole) - 1
    for place, token in enumerate(whole[1:]):
        first = 0
        if place >= length:
            step = (place - length) // stride + 1
            first = min(length + step * stride, count) - length
        total += float(passes(tuple(whole[first : place + 1]))[token])
    return total


def plain_passes(model: CausalModel) -> Callable[[tuple[int, ...]], Any]:
    """Context → log-probabilities of the next token, by one forward pass."""
    import torch

    @functools.cache
    def passed(context: tuple[int, ...]) -> Any:
        with torch.inference_mode():
            return model._loaded().network.module(torch.tensor([context])).logits[0, -1].double().log_softmax(-1)

    return passed


def test_a_long_text_under_yarn_is_exact_but_for_float32(copied: Path, opened: Opened) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    yarn = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 512, "rope_parameters": yarn}))
    text = " ".join(f"The answer to question {number} is {number % 7}." for number in range(18))
    model = opened(copied, engine="tree", max_length=512)
    (found,) = score(model, RollingLoglikelihood(text))
    (window,) = model._encoder.encode([RollingLoglikelihood(text)]).whole_texts[0].windows
    exact = AutoModelForCausalLM.from_pretrained(copied).double().eval()
    with torch.inference_mode():
        scores = exact(torch.tensor([window.ids[:-1]])).logits[0].log_softmax(-1)
    total = float(scores[range(window.scored), window.ids[1:]].sum())
    assert window.scored > 256 and abs(found.total - total) < 1e-6 * window.scored


@pytest.mark.parametrize("engine", ["tree", "padded"])
@pytest.mark.parametrize("name", ["llama", "plain"])
def test_totals_equal_single_passes(name: str, engine: str, opened: Opened, request: pytest.FixtureRequest) -> None:
    model = opened(request.getfixturevalue(name), max_length=16, engine=engine)
    seen = model.view(RollingLoglikelihood(TEXT))
    ids, passes = seen.continuation_ids, plain_passes(model)
    answers = score(model, *(RollingLoglikelihood(TEXT, windows=Windows(*pair)) for pair in GRID))
    for (length, stride), answer in zip(GRID, answers, strict=True):
        longest = length or 16
        expected = by_single_tokens(passes, (*seen.context_ids, *ids), longest, stride or longest)
        assert answer.total == pytest.approx(expected, abs=1e-4) and answer.token_count == len(ids) > 24
        assert answer.windows == 1 + -(-(len(ids) - longest) // (stride or longest))


def test_a_stride_of_the_whole_window_is_the_plain_result(llama: Path, opened: Opened) -> None:
    plain, strided, both = score(
        opened(llama, max_length=8),
        RollingLoglikelihood(TEXT),
        RollingLoglikelihood(TEXT, windows=Windows(stride=8)),
        RollingLoglikelihood(TEXT, windows=Windows(8, 8)),
    )
    (narrow,) = score(opened(llama), RollingLoglikelihood(TEXT, windows=Windows(8)))
    assert plain == strided == both
    assert narrow.total == pytest.approx(plain.total, abs=1e-9) and narrow.windows == plain.windows


def test_a_text_within_one_window_has_the_same_total_with_any_stride(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    for text in ("a", "Once upon a time"):
        answers = score(model, *(RollingLoglikelihood(text, windows=Windows(40, stride)) for stride in (None, 1, 40)))
        assert len(set(answers)) == 1 and answers[0].windows == 1


def test_windows_of_whole_multiples_leave_no_empty_window() -> None:
    cut = [list(map(list, window)) for window in rolling_windows(range(10, 18), 0, 4, stride=4)]
    assert cut == [[[0], [10, 11, 12, 13]], [[13], [14, 15, 16, 17]]]
    cut = [list(map(list, window)) for window in rolling_windows(range(10, 18), 0, 4, stride=2)]
    assert cut == [[[0], [10, 11, 12, 13]], [[11, 12, 13], [14, 15]], [[13, 14, 15], [16, 17]]]


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_later_tokens_have_the_context_that_the_stride_leaves(stride: int) -> None:
    for size in range(1, 20):
        windows = list(rolling_windows(range(size), -1, 5, stride=stride))
        assert [token for _, scored in windows for token in scored] == list(range(size))
        assert all(len(context) >= 5 - stride + 1 for context, _ in windows[1:])


def test_a_window_that_the_model_does_not_take_is_refused(llama: Path, opened: Opened) -> None:
    model = opened(llama, max_length=8)
    requests = [RollingLoglikelihood("a b", windows=Windows(9)), RollingLoglikelihood("a b", windows=Windows(stride=9))]
    wide, strided = (answer for _, answer in sorted(model.respond(requests)))
    assert isinstance(wide, Failure) and wide.message == "a window of 9 tokens is requested, but the model takes 8"
    assert isinstance(strided, Failure) and "a window has 8" in strided.message


def test_windows_that_would_leave_tokens_out_cannot_be_made() -> None:
    for length, stride in ((4, 5), (0, None), (None, 0)):
        with pytest.raises(UserError):
            Windows(length, stride)


def test_the_forecast_counts_repeated_context(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    count = len(model.view(RollingLoglikelihood(TEXT)).continuation_ids)
    load = model.workload([RollingLoglikelihood(TEXT, windows=Windows(8, 2))])
    windows = 1 + -(-(count - 8) // 2)
    assert load.alone == 8 * windows
    plain = model.workload([RollingLoglikelihood(TEXT, windows=Windows(count, 2))])
    assert plain.read == plain.alone == count


def test_equal_windows_of_different_strides_are_read_once(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    one, two = (RollingLoglikelihood(TEXT, windows=Windows(8, stride)) for stride in (4, 8))
    alone = model.workload([one]).read
    # With stride 4 every other window begins where those of stride 8 do, except that the text may end in between.
    assert model.workload([one, two]).read < alone + model.workload([two]).read - 8


# The n-gram model of "abab", by hand. P0 is (2 + 2/256) / 6 for both letters.
P0 = (2 + 2 / 256) / 6
B_AFTER_A, A_AFTER_B = (2 + P0) / 3, (1 + P0) / 2
A_AFTER_AB, B_AFTER_BA = (1 + A_AFTER_B) / 2, (1 + B_AFTER_A) / 2


@pytest.mark.parametrize(
    ("windows", "expected", "count"),
    [
        (Windows(), (P0, B_AFTER_A, A_AFTER_AB, B_AFTER_BA), 1),
        (Windows(2), (P0, B_AFTER_A, A_AFTER_B, B_AFTER_BA), 2),
        (Windows(2, 1), (P0, B_AFTER_A, A_AFTER_AB, B_AFTER_BA), 3),
        (Windows(1), (P0, B_AFTER_A, A_AFTER_B, B_AFTER_A), 4),
    ],
)
def test_ngram_by_hand(windows: Windows, expected: tuple[float, ...], count: int) -> None:
    ((_, answer),) = NgramModel(b"abab", 3).respond([RollingLoglikelihood("abab", windows=windows)])
    assert isinstance(answer, Logprob)
    assert answer.total == pytest.approx(sum(map(math.log, expected)))
    assert (answer.token_count, answer.windows) == (4, count)


def test_a_window_that_the_model_does_not_take_is_reported_before_anything_runs(llama: Path, opened: Opened) -> None:
    asked_texts = task("texts", rows=[{"text": TEXT}])(lambda row: Read(row["text"]))
    model = opened(llama, max_length=8)
    with pytest.raises(ModelError, match='takes 8 tokens, and the task "texts" is read with a window of 9'):
        evaluate(model, asked_texts, window=9, store=":memory:")
    with pytest.raises(ModelError, match="a stride of 9"):
        evaluate(model, asked_texts, stride=9, store=":memory:")
    assert evaluate(model, asked_texts, window=8, store=":memory:").counts.failed == 0
