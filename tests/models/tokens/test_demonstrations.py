"""Demonstrations become text: cut by tokens as MetaICL does, noted, and scored as transformers scores that text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.core.requests import Demonstrated, Generation, Loglikelihood, Prompt
from assay.core.responses import Logprob, Text
from assay.core.specs import ModelSettings
from assay.models.dummy import DummyModel
from assay.models.hf.families import open_hf
from assay.models.ngram import to_text
from assay.models.tokens.chat import ChatRenderer, Rendered

Opened = Callable[..., Any]

# One token for each of these letters, whose pairs the tokenizer has never seen; "\n" is one token as well.
SHOWN = Demonstrated((("QXZJ", "K"), ("QXZJ", "KV")), "QXZJQX", ("K", "KVW"))


def rendered(tokenizer: Any, prompt: Prompt) -> Rendered:
    found = ChatRenderer(tokenizer).render(prompt)
    assert isinstance(found, Rendered)
    return found


def test_the_letters_of_these_tests_are_tokens(tokenizers: dict[bool, Any]) -> None:
    ids = tokenizers[False]("QXZJKVW\n\n\nQX\nK")["input_ids"]
    assert len(ids) == 14


def test_what_fits_is_joined_as_it_is(tokenizers: dict[bool, Any]) -> None:
    for tokenizer in tokenizers.values():
        assert rendered(tokenizer, SHOWN) == Rendered("QXZJ\nK\n\n\nQXZJ\nKV\n\n\nQXZJQX")


def test_inputs_are_cut_to_what_limit_output_and_separator_leave(tokenizers: dict[bool, Any]) -> None:
    # Of 10 tokens two are kept free. The first: 8 - "\nK" = 6, all 4 letters fit. The second: 8 - "\nKV" = 5, of which
    # the separator takes 3. The question: 8 - "\nKVW" = 4, of which the separator takes 3.
    found = rendered(tokenizers[True], replace(SHOWN, limit=10))
    assert found == Rendered("QXZJ\nK\n\n\nQX\nKV\n\n\nQ", ("demonstration_cut", "question_cut"))


def test_a_question_without_demonstrations_has_no_separator(tokenizers: dict[bool, Any]) -> None:
    alone = replace(SHOWN, demonstrations=(), limit=10)
    assert rendered(tokenizers[True], alone) == Rendered("QXZJ", ("question_cut",))
    assert rendered(tokenizers[True], replace(alone, options=())) == Rendered("QXZJQX")


def test_where_output_or_separator_leave_no_room_the_input_is_empty(tokenizers: dict[bool, Any]) -> None:
    both = ("demonstration_cut", "question_cut")
    # 6 - 2 = 4 tokens: the first keeps 2, the second 1 and the question 0, less than the separator has.
    assert rendered(tokenizers[False], replace(SHOWN, limit=6)) == Rendered("QX\nK\n\n\n\nKV\n\n\n", both)
    assert rendered(tokenizers[False], replace(SHOWN, limit=1)) == Rendered("\nK\n\n\n\nKV\n\n\n", both)


def test_an_opening_is_never_cut(tokenizers: dict[bool, Any]) -> None:
    found = rendered(tokenizers[False], replace(SHOWN, demonstrations=(), limit=10, opening="Letters, please:\n"))
    assert found.text == "Letters, please:\nQXZJ"


def test_a_character_that_is_cut_in_two_is_left_out(tokenizers: dict[bool, Any]) -> None:
    # The tokenizer has seen neither: two bytes are two tokens.
    umlauts = Demonstrated((), "QÜÜ", (), limit=6)
    assert len(tokenizers[False]("QÜÜ")["input_ids"]) == 5
    assert rendered(tokenizers[False], umlauts) == Rendered("QÜ", ("question_cut",))


def test_lone_surrogates_are_read(tokenizers: dict[bool, Any]) -> None:
    assert rendered(tokenizers[False], Demonstrated((("a\ud800", "b"),), "c")).text == "a\ud800\nb\n\n\nc"


def test_equal_prompts_and_inputs_are_cut_once(tokenizers: dict[bool, Any]) -> None:
    renderer = ChatRenderer(tokenizers[False])
    first = renderer.render(SHOWN)
    assert renderer.render(replace(SHOWN)) is first
    assert len(renderer.cuts) == 3
    renderer.render(replace(SHOWN, question="Q"))
    assert len(renderer.cuts) == 4


def test_models_without_tokens_join_everything() -> None:
    cut = replace(SHOWN, limit=1)
    assert to_text(cut) == cut.text == "QXZJ\nK\n\n\nQXZJ\nKV\n\n\nQXZJQX"
    answers = [
        answer
        for _, answer in DummyModel().respond([Loglikelihood(prompt, "\nK") for prompt in (SHOWN, cut, SHOWN.text)])
    ]
    assert len({answer.total for answer in answers if isinstance(answer, Logprob)}) == 3


def direct_sum(folder: Path, context: str, continuation: str, most: int = 48) -> tuple[float, int]:
    """What transformers gives a continuation whose tokens are counted apart from the context's.

    Prompt and continuation together are cut to what the model takes: `prepro_sentence_pair_single` of MetaICL.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    before = tokenizer(context)["input_ids"]
    scored = tokenizer(continuation, add_special_tokens=False)["input_ids"]
    ids = (before + scored)[-most:]
    with torch.no_grad():
        table = model(torch.tensor([ids[:-1]])).logits[0].log_softmax(-1)
    start = len(ids) - len(scored)
    return sum(float(table[start - 1 + step, token]) for step, token in enumerate(scored)), len(scored)


@pytest.mark.parametrize("engine", ["tree", "padded"])
@pytest.mark.parametrize("name", ["llama", "plain"])
def test_options_have_the_likelihood_that_transformers_computes(
    request: pytest.FixtureRequest, opened: Opened, name: str, engine: str
) -> None:
    folder = request.getfixturevalue(name)
    shown = (("The quick brown fox jumps over", "QX"), ("what colour is the sky? Blue, said the girl", "Z"))
    prompt = Demonstrated(shown, "Answer", ("K",), limit=14)
    asked = [prompt, replace(prompt, options=("K", "QXZJKVW"))]
    requests = [Loglikelihood(one, "\n" + option) for one in asked for option in one.options]
    found = dict(opened(folder, engine=engine).respond(requests))
    for place, request_ in enumerate(requests):
        context = rendered(opened(folder)._encoder.rules.tokenizer, request_.prompt).text
        assert context.startswith("The quick") and context != prompt.text
        total, tokens = direct_sum(folder, context, request_.continuation)
        answer = found[place]
        assert isinstance(answer, Logprob)
        assert (answer.total, answer.token_count) == (pytest.approx(total, abs=1e-4), tokens)
        assert "demonstration_cut" in answer.notes


def test_a_prompt_longer_than_the_model_takes_loses_its_left_end_only(plain: Path, opened: Opened) -> None:
    long = Demonstrated(tuple(("QXZJQXZJ", "K") for _ in range(6)), "QXZJ", ("KVW",))
    ((_, answer),) = opened(plain).respond([Loglikelihood(long, "\nKVW")])
    total, _ = direct_sum(plain, long.text, "\nKVW")
    assert isinstance(answer, Logprob)
    # 6 x (8 letters, "\n", K, 3 x "\n") + 4 letters + 4 scored, of which 48 are kept.
    assert (answer.truncated, answer.token_count, answer.notes) == (6 * 13 + 8 - 48, 4, ())
    assert answer.total == pytest.approx(total, abs=1e-4)


def test_demonstrations_can_be_generated_after(plain: Path, opened: Opened) -> None:
    cut, whole = (
        replace(SHOWN, limit=10),
        rendered(opened(plain)._encoder.rules.tokenizer, replace(SHOWN, limit=10)).text,
    )
    found = dict(opened(plain).respond([Generation(prompt, max_tokens=5) for prompt in (cut, whole)]))
    assert isinstance(found[0], Text) and isinstance(found[1], Text)
    assert found[0].text == found[1].text
    assert set(found[0].notes) - set(found[1].notes) == {"demonstration_cut", "question_cut"}


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_encoder_decoders_read_them_too(request: pytest.FixtureRequest, name: str) -> None:
    model = open_hf({"pretrained": str(request.getfixturevalue(name))}, ModelSettings(device="cpu"))
    cut = replace(SHOWN, limit=10)
    whole = "QXZJ\nK\n\n\nQX\nKV\n\n\nQ"
    found = dict(model.respond([Loglikelihood(prompt, "\nK") for prompt in (cut, whole)]))
    model.close()
    assert isinstance(found[0], Logprob) and isinstance(found[1], Logprob)
    assert found[0].total == pytest.approx(found[1].total, abs=1e-5)
    assert set(found[0].notes) - set(found[1].notes) == {"demonstration_cut", "question_cut"}


def test_a_plain_prompt_keeps_one_token_more_as_lm_eval_does(plain: Path, opened: Opened) -> None:
    text = "QXZJ" * 20
    shown, said = (
        next(iter(opened(plain).respond([Loglikelihood(prompt, "\nK")])))[1]
        for prompt in (Demonstrated((), text, ("K",)), text)
    )
    assert isinstance(shown, Logprob) and isinstance(said, Logprob)
    assert (shown.truncated, said.truncated) == (82 - 48, 82 - 49)


def test_an_option_as_long_as_the_model_takes_keeps_a_token_of_context(plain: Path, opened: Opened) -> None:
    asked = Loglikelihood(Demonstrated((), "QX", ("K",)), "\n" + "K" * 47)
    ((_, answer),) = opened(plain).respond([asked])
    assert isinstance(answer, Logprob)
    assert (answer.token_count, answer.truncated) == (48, 1)
