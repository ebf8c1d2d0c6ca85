"""Writing: stops, endings, limits, and independence of neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UserError
from assay.core.requests import Generation, Sampling
from assay.core.responses import Failure, Text
from assay.models.hf.decoder.decoder_model import CausalModel
from assay.models.inference.generation import generate_options
from assay.models.inference.stop_criteria import StopCriteria, StopRule
from assay.testing.contracts import answers

Opened = Callable[..., CausalModel]
PROMPTS = ["The", "Once upon a time there was a little", "Answer:", "What colour is the sky? The sky", "a"]


def write(model: CausalModel, prompt: str = "The", **settings: Any) -> Text:
    answer = answers(model, [Generation(prompt, **settings)])[0]
    assert isinstance(answer, Text), answer
    return answer


@pytest.fixture(params=["llama", "plain"])
def folder(request: pytest.FixtureRequest) -> Path:
    return Path(request.getfixturevalue(request.param))


@pytest.mark.parametrize("batch_size", ["1", "3", "8", "auto"])
def test_greedy_text_does_not_depend_on_the_batch(folder: Path, opened: Opened, batch_size: str) -> None:
    model, single = opened(folder, batch_size), opened(folder)
    alone = [write(single, prompt, max_tokens=12, stop=("x",)) for prompt in PROMPTS]
    requests = [Generation(prompt, max_tokens=12, stop=("x",)) for prompt in PROMPTS]
    assert answers(model, requests) == alone
    assert answers(model, requests[::-1]) == alone[::-1]


def test_limit_is_respected_and_noted(llama: Path, opened: Opened) -> None:
    answer = write(opened(llama), max_tokens=5)
    assert (answer.token_count, answer.finish_reason, answer.notes) == (5, "length", ("stop_at_limit",))


@pytest.mark.parametrize("engine", ["auto", "padded"])
def test_no_tokens_requested_give_the_empty_text(llama: Path, opened: Opened, engine: str) -> None:
    model = opened(llama, engine=engine)
    empty, other = answers(model, [Generation("The", ("x",), 0), Generation("The", max_tokens=3)])
    assert (empty.text, empty.token_count, empty.finish_reason) == ("", 0, "length")
    assert empty.prompt_tokens == other.prompt_tokens and other.token_count == 3


def test_fewer_than_no_tokens_are_refused() -> None:
    with pytest.raises(UserError, match="max_tokens: is -1; expected a whole number of tokens, 0 or more"):
        Generation("The", max_tokens=-1)


def test_limit_defaults_to_the_models(llama: Path, opened: Opened) -> None:
    assert write(opened(llama, max_gen_toks=7)).token_count == 7


@pytest.mark.parametrize("width", [1, 2, 4])
def test_stop_ends_the_answer_wherever_tokens_break(folder: Path, opened: Opened, width: int) -> None:
    model = opened(folder)
    whole = write(model, max_tokens=16)
    assert len(whole.text) > 4
    for start in range(0, len(whole.text) - width, 3):
        stop = whole.text[start : start + width]
        answer = write(model, max_tokens=16, stop=("absent", stop))
        assert answer.text == whole.text[: whole.text.index(stop)]
        assert answer.finish_reason == "stop" and answer.token_count <= whole.token_count


def test_stopped_rows_stop_early_among_others(llama: Path, opened: Opened) -> None:
    single = opened(llama)
    whole = [write(single, prompt, max_tokens=16).text for prompt in PROMPTS]
    stop = whole[0][4:6]
    found = answers(opened(llama, "8"), [Generation(prompt, (stop,), 16) for prompt in PROMPTS])
    assert [answer.text for answer in found] == [text.split(stop)[0] for text in whole]
    assert found[0].token_count < 16


def test_prompt_is_cut_to_leave_room(plain: Path, opened: Opened) -> None:
    fits, cut = (
        write(opened(plain), "Q" * 40, max_tokens=8),
        write(opened(plain), "Z" + "Q" * 40, max_tokens=8),
    )
    assert (fits.truncated, cut.truncated) == (0, 1) and fits.text == cut.text
    refused = answers(opened(plain), [Generation("Q", max_tokens=48)])[0]
    assert isinstance(refused, Failure) and refused.kind == "too_long"


def test_text_of_an_empty_prompt_is_generated_from_the_prefix(plain: Path, opened: Opened) -> None:
    assert "empty_prompt" in write(opened(plain), "", max_tokens=3).notes


def first_token(model: CausalModel, prompt: str) -> int:
    """The token that greedy decoding says first."""
    ids = model.view(Generation(prompt, max_tokens=1)).context_ids
    return int(model._loaded().network.logits([ids], [len(ids) - 1]).argmax())


def test_eos_ends_the_answer_of_its_row_only(llama: Path, opened: Opened) -> None:
    model = opened(llama, "8")
    before = answers(model, [Generation(prompt, max_tokens=8) for prompt in PROMPTS])
    model._loaded().network.module.generation_config.eos_token_id = [1, first_token(model, PROMPTS[0])]
    ended, *others = answers(model, [Generation(prompt, max_tokens=8) for prompt in PROMPTS])
    assert before[0].finish_reason == "length"
    assert (ended.finish_reason, ended.token_count, ended.notes) == ("eos", 1, ())
    assert any(other.token_count > 1 for other in others)


def test_sampling_repeats_and_ignores_neighbours(llama: Path, opened: Opened) -> None:
    requests = [
        Generation(prompt, max_tokens=10, sampling=Sampling(1.0, 7), draw=draw) for prompt in PROMPTS for draw in (0, 1)
    ]
    together = answers(opened(llama, "8"), requests)
    assert answers(opened(llama, "1"), requests[::-1]) == together[::-1]
    assert together[0].text != together[1].text


def test_seed_and_draw_change_the_sample(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    texts = {
        write(model, max_tokens=12, sampling=Sampling(1.0, seed), draw=draw).text
        for seed in (1, 2)
        for draw in (0, 1, 2)
    }
    assert len(texts) == 6


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), {"do_sample": False}),
        (Sampling(0.7), {"do_sample": True, "temperature": 0.7}),
        (Sampling(0.7, options=(("do_sample", False),)), {"do_sample": False}),
        (Sampling(0.0, options=(("do_sample", True),)), {"do_sample": True}),
        (Sampling(0.5, options=(("top_p", 0.9),)), {"do_sample": True, "temperature": 0.5, "top_p": 0.9}),
    ],
)
def test_settings_follow_lm_eval(sampling: Sampling, expected: dict[str, Any]) -> None:
    assert generate_options(Generation("x", sampling=sampling)) == expected


@pytest.mark.parametrize("option", [("num_beams", 3), ("repetition_penalty", 1.3), ("no_repeat_ngram_size", 2)])
def test_other_decoders_do_not_depend_on_neighbours(llama: Path, opened: Opened, option: tuple[str, Any]) -> None:
    requests = [Generation(prompt, (), 8, Sampling(options=(option,))) for prompt in [*PROMPTS, "The"]]
    together, single = answers(opened(llama, "8"), requests), opened(llama)
    assert together == [answers(single, [request])[0] for request in requests]
    assert all(isinstance(answer, Text) for answer in together)


def test_unknown_setting_fails_its_request_only(llama: Path, opened: Opened) -> None:
    bad = Generation("The", (), 4, Sampling(options=(("fancyness", 3),)))
    found = answers(opened(llama), [bad, Generation("The", max_tokens=4)])
    assert isinstance(found[0], Failure) and "fancyness" in found[0].message and isinstance(found[1], Text)


def test_thinking_is_cut_off(llama: Path, opened: Opened) -> None:
    whole = write(opened(llama), max_tokens=16).text
    mark = whole[2:4]
    answer = write(opened(llama, think_end_token=mark), max_tokens=16)
    assert answer.text == whole.rsplit(mark, 1)[1].lstrip() and answer.token_count == 16


def test_thinking_may_end_with_a_token(llama: Path, opened: Opened) -> None:
    end = first_token(opened(llama), "The")
    answer = write(opened(llama, think_end_token=end), max_tokens=16)
    assert len(answer.text) < len(write(opened(llama), max_tokens=16).text) and answer.token_count == 16


def watch(tokenizer: Any, stops: Sequence[str], rows: Sequence[str], **settings: Any) -> list[bool]:
    import torch

    ids = [tokenizer([row])["input_ids"][0] for row in rows]
    longest = max(len(row) for row in ids)
    padded = torch.tensor([[*row, *[1] * (longest - len(row))] for row in ids])
    watcher = StopCriteria(StopRule(tokenizer, stops, (), **settings), 0)
    done = [False] * len(rows)
    for count in range(1, longest + 1):
        done = [a or b for a, b in zip(done, watcher(padded[:, :count], None).tolist(), strict=True)]
    return done


def test_watch_sees_each_row_by_itself(tokenizers: dict[bool, Any]) -> None:
    rows = ["The answer is four\n\nQuestion", "The answer is\nfour", "\n\n", "é東京\n\n"]
    assert watch(tokenizers[False], ["\n\n"], rows) == [True, False, True, True]
    assert watch(tokenizers[False], ["answer is", "Q:"], rows) == [True, True, False, False]
    assert watch(tokenizers[False], [], rows) == [False] * 4


def test_watch_waits_for_the_end_of_thinking(tokenizers: dict[bool, Any]) -> None:
    rows = ["a\nb", "a\nb</think> c", "a\nb</think> c\nd"]
    assert watch(tokenizers[False], ["\n"], rows, think_end="</think>") == [False, False, True]
