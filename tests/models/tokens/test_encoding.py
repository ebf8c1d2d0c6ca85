"""Whole texts scored from their own first token: the ids of a prompt, its probability, and no token read twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.core.requests import Loglikelihood, RollingLoglikelihood
from assay.core.responses import Logprob
from assay.models.hf.decoder.model import CausalModel
from assay.testing import check_model
from assay.testing.contracts import answers

Opened = Callable[..., CausalModel]
TEXT = "Once upon a time there was a little girl who liked"
CHOICES = (" to answer", " questions about the sky", " the", " QZ.")
ENGINES = ("tree", "padded")


def whole(text: str, overlap: int = 1) -> RollingLoglikelihood:
    return RollingLoglikelihood(text, overlap, stands_on_prefix=False)


def plain_ids(folder: Path, text: str) -> list[int]:
    from transformers import AutoTokenizer

    return list(AutoTokenizer.from_pretrained(folder)(text)["input_ids"])


def plain_sum(folder: Path, ids: Sequence[int], first: int = 1) -> float:
    """The direct way: one forward pass of transformers, log-softmax, the tokens from `first` on."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.inference_mode():
        table = AutoModelForCausalLM.from_pretrained(folder)(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return sum(float(table[place - 1, ids[place]]) for place in range(first, len(ids)))


@pytest.fixture(params=["llama", "plain"])
def folder(request: pytest.FixtureRequest) -> Path:
    """A tokenizer that adds BOS, and one that does not."""
    return Path(request.getfixturevalue(request.param))


@pytest.mark.parametrize("engine", ENGINES)
def test_total_is_that_of_the_plainly_encoded_text(folder: Path, opened: Opened, engine: str) -> None:
    ids = plain_ids(folder, TEXT)
    (found,) = answers(opened(folder, engine=engine), [whole(TEXT)])
    assert found.total == pytest.approx(plain_sum(folder, ids), abs=1e-4)
    assert (found.token_count, found.prompt_tokens, found.truncated) == (len(ids) - 1, 1, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_prompt_and_continuation_add_up_to_the_whole(folder: Path, opened: Opened, engine: str) -> None:
    requests = [whole(TEXT), *(Loglikelihood(TEXT, choice) for choice in CHOICES)]
    prompt, *rest = answers(opened(folder, engine=engine), requests)
    for choice, found in zip(CHOICES, rest, strict=True):
        ids = plain_ids(folder, TEXT + choice)
        assert prompt.total + found.total == pytest.approx(plain_sum(folder, ids), abs=1e-4)
        assert prompt.token_count + found.token_count + 1 == len(ids)
        assert prompt.token_count + prompt.prompt_tokens == found.prompt_tokens


def test_both_engines_agree(folder: Path, opened: Opened) -> None:
    choose = random.Random(4)
    texts = [whole(" ".join(choose.choices(TEXT.split(), k=choose.randint(1, 30)))) for _ in range(12)]
    requests = [*texts, *(Loglikelihood(text.text, choice) for text in texts for choice in CHOICES[:2])]
    tree, padded = (answers(opened(folder, "4", engine=engine), requests) for engine in ENGINES)
    for one, other in zip(tree, padded, strict=True):
        assert one.total == pytest.approx(other.total, abs=1e-4)
        assert (one.token_count, one.prompt_tokens, one.notes) == (other.token_count, other.prompt_tokens, other.notes)


def test_a_prompt_that_is_read_anyway_costs_no_token(folder: Path, opened: Opened) -> None:
    model, choices = opened(folder, engine="tree"), [Loglikelihood(TEXT, choice) for choice in CHOICES]
    expected = answers(model, choices)
    alone = model.description()["forwarded_tokens"]
    for requests in ([whole(TEXT), *choices], [*choices, whole(TEXT)]):
        assert model.workload(requests).read == alone
        found = answers(model, requests)
        assert model.description()["forwarded_tokens"] == alone
        pairs = [one for one, request in zip(found, requests, strict=True) if isinstance(request, Loglikelihood)]
        assert [one.total for one in pairs] == pytest.approx([one.total for one in expected], abs=1e-5)


def test_padded_batches_of_continuations_need_no_more_logits(llama: Path, opened: Opened) -> None:
    model, choices = opened(llama, engine="padded"), [Loglikelihood(TEXT, choice) for choice in CHOICES]
    sizes: list[tuple[int, ...]] = []
    model._loaded().network.module.lm_head.register_forward_pre_hook(
        lambda _, args: sizes.append(tuple(args[0].shape[:2]))
    )
    expected, alone = answers(model, choices), tuple(sizes)
    sizes.clear()
    found = answers(model, [*choices, whole(TEXT)])
    assert found[:-1] == expected
    assert sizes == [*alone, (1, len(plain_ids(llama, TEXT)) - 1)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_around_the_longest_window(plain: Path, opened: Opened, engine: str, extra: int) -> None:
    # One token per letter. 8 are read at once, so that 9 make a window, and a tenth is scored in a second one.
    text = "QXZJQKXVZW"[: 9 + extra]
    ids = plain_ids(plain, text)
    (found,) = answers(opened(plain, max_length=8, engine=engine), [whole(text)])
    total = plain_sum(plain, ids[:9]) + (plain_sum(plain, ids[1:], first=8) if extra == 1 else 0.0)
    assert len(ids) == 9 + extra and found.total == pytest.approx(total, abs=1e-4)
    assert (found.token_count, found.prompt_tokens) == (len(ids) - 1, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_later_windows_are_filled_up_with_context(folder: Path, opened: Opened, engine: str) -> None:
    ids = plain_ids(folder, TEXT)
    (found,) = answers(opened(folder, max_length=8, engine=engine), [whole(TEXT, overlap=3)])
    total, start = plain_sum(folder, ids[:9]), 9
    while start < len(ids):
        # At least 3 of the 8 tokens read are context: 6 new ones at most, of which the last is only predicted.
        end = min(start + 6, len(ids))
        total += plain_sum(folder, ids[end - 9 : end], first=start - (end - 9))
        start = end
    assert len(ids) > 15 and found.total == pytest.approx(total, abs=1e-4)
    assert (found.token_count, found.prompt_tokens) == (len(ids) - 1, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_single_token_has_nothing_to_score(plain: Path, llama: Path, opened: Opened, engine: str) -> None:
    single = Logprob(0.0, 0, True, prompt_tokens=1)
    assert answers(opened(plain, engine=engine), [whole("Q"), Loglikelihood("Q", "X")])[0] == single
    # Where BOS is added, it is the token that is given, and "Q" is scored.
    model = opened(llama, engine=engine)
    assert answers(model, [whole("Q")])[0].total == pytest.approx(plain_sum(llama, plain_ids(llama, "Q")), abs=1e-5)
    assert answers(model, [whole("")]) == [single]


def test_an_empty_text_has_no_tokens_without_bos(plain: Path, opened: Opened) -> None:
    assert answers(opened(plain), [whole(""), whole(" \n")]) == [Logprob(0.0, 0, True)] * 2


def test_no_prefix_token_is_needed(plain: Path, tokenizers: dict[bool, Any], tmp_path: Path, opened: Opened) -> None:
    import shutil

    folder = Path(shutil.copytree(plain, tmp_path / "bare"))
    tokenizer = type(tokenizers[False])(tokenizer_object=tokenizers[False].backend_tokenizer)
    tokenizer.save_pretrained(folder)
    usual, bare = answers(opened(folder), [RollingLoglikelihood(TEXT), whole(TEXT)])
    assert usual.kind == "unsupported" and bare.total == pytest.approx(
        plain_sum(plain, plain_ids(plain, TEXT)), abs=1e-4
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=9), adds=st.sampled_from([None, True, False]), marks=st.sampled_from(["", "<s>"]))
def test_ids_are_those_of_a_prompt(folder: Path, opened: Opened, text: str, adds: bool | None, marks: str) -> None:
    model = opened(folder, **({} if adds is None else {"add_bos_token": adds}))
    text = marks + text + "Q"
    seen, pair = model.view(whole(text)), model.view(Loglikelihood(text, "\n"))
    assert (*seen.context_ids, *seen.continuation_ids) == pair.context_ids
    assert len(seen.context_ids) == 1 and seen.truncated == 0


def test_trailing_white_space_is_left_to_the_continuation(folder: Path, opened: Opened) -> None:
    model, text = opened(folder, engine="tree"), TEXT + " \n"
    choices = [Loglikelihood(text, choice) for choice in ("Q", "the")]
    seen = model.view(whole(text))
    assert (*seen.context_ids, *seen.continuation_ids) == model.view(choices[0]).context_ids
    assert seen.prompt_text == text
    assert model.workload([whole(text), *choices]).read == model.workload(choices).read
    assert answers(model, [whole(text)]) == answers(model, [whole(TEXT)])


def test_forecast_is_what_reading_takes(llama: Path, opened: Opened) -> None:
    model = opened(llama, max_length=16, engine="tree")
    requests = [whole(TEXT), whole("Q"), whole(""), RollingLoglikelihood(TEXT), Loglikelihood("Q", "X")]
    work = model.workload(requests)
    answers(model, requests)
    assert work.read == model.description()["forwarded_tokens"] < work.alone
    assert model.workload([whole("")]).read == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_the_contract_holds_whatever_else_is_requested(folder: Path, opened: Opened, engine: str) -> None:
    texts = [whole(TEXT), whole("Q"), whole(TEXT * 5), whole(TEXT, overlap=4)]
    check_model(opened(folder, engine=engine), [*texts, RollingLoglikelihood(TEXT), Loglikelihood(TEXT, " to")])
