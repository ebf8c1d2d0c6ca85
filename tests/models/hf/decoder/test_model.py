"""The hf model as a whole, on tiny real networks: equal answers with every backend."""

from __future__ import annotations

import gc
import inspect
import json
import logging
import math
import random
import re
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import ModelError
from assay.core.protocols import ExposesTokens, Model, ReportsNotices
from assay.core.requests import Generation, Loglikelihood, Message, RollingLoglikelihood
from assay.core.responses import Failure, Logprob
from assay.core.specs import ModelSettings
from assay.models.engine.memory import peak_bytes
from assay.models.hf.decoder.model import CausalModel, open_causal
from assay.models.inference.batching import BatchLimit
from assay.options.specification import make_spec
from assay.run.open_model import opened_model
from assay.testing.contracts import answers

Opened = Callable[..., CausalModel]
CORPUS = "Once upon a time there was a little girl who liked to answer questions about the sky"
WORDS = CORPUS.split()


def some_pairs(count: int = 24) -> list[Loglikelihood]:
    choose = random.Random(3)
    contexts = [" ".join(choose.choices(WORDS, k=choose.randint(1, 20))) for _ in range(count // 3 + 1)]
    return [
        Loglikelihood(choose.choice(contexts), " " + " ".join(choose.choices(WORDS, k=choose.randint(1, 4))))
        for _ in range(count)
    ]


def full_check(model: CausalModel, context: Sequence[int], scored: Sequence[int]) -> float:
    """The plain way: one row, all logits, log-softmax in float64."""
    import torch

    ids = torch.tensor([[*context, *scored][:-1]])
    with torch.inference_mode():
        table = model._loaded().network.module(ids).logits[0].double().log_softmax(-1)
    return sum(float(table[len(context) + place - 1, token]) for place, token in enumerate(scored))


@pytest.fixture(params=["llama", "plain"])
def folder(request: pytest.FixtureRequest) -> Path:
    return Path(request.getfixturevalue(request.param))


def test_it_satisfies_the_protocols(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    assert isinstance(model, Model) and isinstance(model, ExposesTokens) and isinstance(model, ReportsNotices)


def test_totals_equal_a_full_forward(folder: Path, opened: Opened) -> None:
    """To 1e-5 a token: sums of float32 in another order, which differ from processor to processor."""
    model, requests = opened(folder), some_pairs()
    for request, answer in zip(requests, answers(model, requests), strict=True):
        seen = model.view(request)
        expected = full_check(model, seen.context_ids, seen.continuation_ids)
        assert answer.total == pytest.approx(expected, abs=1e-5 * len(seen.continuation_ids))
        assert (answer.token_count, answer.prompt_tokens) == (
            len(seen.continuation_ids),
            len(seen.context_ids),
        )


@pytest.mark.parametrize("batch_size", ["1", "3", "8", "auto"])
def test_batches_and_order_change_nothing(folder: Path, opened: Opened, batch_size: str) -> None:
    requests = some_pairs()
    expected = answers(opened(folder, "1"), requests)
    order = random.Random(1).sample(range(len(requests)), len(requests))
    shuffled = answers(opened(folder, batch_size), [requests[place] for place in order])
    for place, answer in zip(order, shuffled, strict=True):
        assert answer.total == pytest.approx(expected[place].total, abs=1e-4)
        assert answer.is_greedy == expected[place].is_greedy


def test_both_arithmetics_agree_in_float32(llama: Path, opened: Opened) -> None:
    requests = some_pairs()
    for exact, other in zip(
        answers(opened(llama), requests), answers(opened(llama, arithmetic="lm_eval"), requests), strict=True
    ):
        assert exact.total == pytest.approx(other.total, abs=1e-4)


def test_half_precision_runs(llama: Path, opened: Opened) -> None:
    requests = some_pairs(6)
    wide, narrow = answers(opened(llama), requests), answers(opened(llama, dtype="bfloat16"), requests)
    assert all(one.total == pytest.approx(other.total, rel=0.1) for one, other in zip(wide, narrow, strict=True))
    assert wide != narrow


@pytest.mark.parametrize("engine", ["tree", "padded"])
def test_duplicates_and_one_token_choices_are_forwarded_once(llama: Path, opened: Opened, engine: str) -> None:
    model = opened(llama, "16", engine=engine)
    shapes: list[tuple[int, ...]] = []
    model._loaded().network.module.base_model.register_forward_pre_hook(
        lambda _, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    request = Loglikelihood("The answer is", " a")
    found = answers(model, [request, request, Loglikelihood("The answer is", "."), request])
    assert shapes == [(1, len(model.view(request).context_ids))]
    assert found[0] == found[1] == found[3] != found[2]


def test_engine_of_the_model_arguments_comes_first(llama: Path) -> None:
    arguments = {"pretrained": str(llama)}
    assert open_causal(arguments, ModelSettings(engine="padded")).engine == "padded"
    assert open_causal({**arguments, "engine": "tree"}, ModelSettings(engine="padded")).engine == "tree"
    with pytest.raises(ModelError, match="engine"):
        open_causal({**arguments, "engine": "steam"}, ModelSettings())


def test_engine_is_reported_with_its_reason(llama: Path, opened: Opened) -> None:
    tree, padded = opened(llama), opened(llama, engine="padded")
    assert tree.description() == {}
    for model in (tree, padded):
        answers(model, some_pairs(6))
    assert tree.description()["engine"] == "tree" and "agrees" in str(tree.description()["why"])
    assert padded.description()["engine"] == "padded" and padded.description()["why"] == "requested"
    assert 0 < tree.description()["forwarded_tokens"] < padded.description()["forwarded_tokens"]


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_truncation_around_the_longest_row(plain: Path, opened: Opened, extra: int) -> None:
    # Upper-case letters never pair up in this tokenizer: one token each. 48 are read, 49 with the last.
    model, context = opened(plain), "QX" * 23 + "Q" * (2 + extra)
    answer = answers(model, [Loglikelihood(context, "Z")])[0]
    seen = model.view(Loglikelihood(context, "Z"))
    assert len(seen.context_ids) == 48 + min(extra, 0) and answer.truncated == seen.truncated == max(extra, 0)
    assert answer.total == pytest.approx(full_check(model, seen.context_ids, seen.continuation_ids), abs=1e-5)


def test_too_long_continuation_is_a_failure(plain: Path, opened: Opened) -> None:
    found = answers(opened(plain), [Loglikelihood("Q", "Z" * 49), Loglikelihood("Q", "Z")])
    assert isinstance(found[0], Failure) and found[0].kind == "too_long" and isinstance(found[1], Logprob)


@settings(max_examples=60, deadline=None)
@given(context=st.text(max_size=12), continuation=st.text(min_size=1, max_size=6))
def test_any_pair_equals_the_full_check(stories: Path, context: str, continuation: str) -> None:
    model = CACHE.setdefault(stories, _open(stories))
    request = Loglikelihood(context, continuation)
    answer, seen = answers(model, [request])[0], model.view(request)
    assert isinstance(answer, Logprob) and seen.continuation_ids
    assert answer.total == pytest.approx(full_check(model, seen.context_ids, seen.continuation_ids), abs=1e-4)


CACHE: dict[Path, CausalModel] = {}


def _open(folder: Path) -> CausalModel:
    return CACHE.get(folder) or open_causal({"pretrained": str(folder)}, ModelSettings("auto", "cpu"))


def test_rolling_equals_a_hand_computation(folder: Path, opened: Opened) -> None:
    model, text = opened(folder, max_length=8), " ".join(WORDS)
    answer = answers(model, [RollingLoglikelihood(text)])[0]
    seen = model.view(RollingLoglikelihood(text))
    ids, total = list(seen.continuation_ids), full_check(model, seen.context_ids, seen.continuation_ids[:8])
    for start in range(8, len(ids), 8):
        end = min(start + 8, len(ids))
        total += full_check(model, ids[end - 9 : start], ids[start:end])
    assert answer.total == pytest.approx(total, abs=1e-4) and answer.token_count == len(ids) > 16


def test_rolling_does_not_depend_on_neighbours(llama: Path, opened: Opened) -> None:
    texts = [RollingLoglikelihood(" ".join(WORDS[:count])) for count in (3, 17, 9)]
    alone = [answers(opened(llama, max_length=8), [text])[0] for text in texts]
    for together, single in zip(answers(opened(llama, max_length=8), texts), alone, strict=True):
        assert together.total == pytest.approx(single.total, abs=1e-4)
        assert replace(together, total=single.total) == single


def test_rolling_of_an_empty_text(plain: Path, opened: Opened) -> None:
    assert answers(opened(plain), [RollingLoglikelihood("")]) == [Logprob(0.0, 0, True)]


def test_chat_prompts_are_rendered_with_one_bos(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    messages = (Message("system", "Be brief."), Message("user", "What is two plus two?"))
    open_turn = (*messages, Message("assistant", "The answer is"))
    seen = model.view(Loglikelihood(messages, "four"))
    assert seen.prompt_text == "<s><system>Be brief.\n<user>What is two plus two?\n<assistant>"
    assert seen.context_ids[0] == 0 and seen.context_ids.count(0) == 1
    assert str(model.view(Generation(open_turn, max_tokens=4)).prompt_text).endswith("<assistant>The answer is")
    assert all(isinstance(answer, Logprob) for answer in answers(model, [Loglikelihood(messages, "four")]))


def test_chat_without_a_template_says_what_to_do(plain: Path, opened: Opened) -> None:
    messages = (Message("user", "Hello"),)
    found = answers(opened(plain), [Loglikelihood(messages, "x"), Generation(messages, max_tokens=2)])
    assert [answer.kind for answer in found] == ["unsupported"] * 2
    assert "--apply_chat_template" in found[0].message


def test_template_without_system_role_is_noted(copied: Path, opened: Opened) -> None:
    refuses = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    (copied / "chat_template.jinja").write_text(refuses + "{{ m.content }}{% endfor %}")
    messages = (Message("system", "Be brief."), Message("user", "Hello there"))
    answer = answers(opened(copied), [Loglikelihood(messages, " girl")])[0]
    assert answer.notes == ("system_dropped",)


def test_double_bos_of_a_template_is_noted(copied: Path, opened: Opened) -> None:
    (copied / "chat_template.jinja").write_text("{{ bos_token }}{{ bos_token }}{{ messages[0].content }}")
    answer = answers(opened(copied), [Loglikelihood((Message("user", "Hello"),), " girl")])[0]
    assert answer.notes == ("double_bos",)


def test_add_bos_token_is_obeyed(llama: Path, plain: Path, opened: Opened) -> None:
    request = Loglikelihood("The answer", " is")
    assert opened(plain).view(request).context_ids[0] != 0
    assert opened(plain, add_bos_token=True).view(request).context_ids[0] == 0
    assert opened(llama, add_bos_token=False).view(request).context_ids[0] != 0


@pytest.mark.parametrize(
    ("like", "settings", "has_bos"),
    [(None, {}, True), ("olmes", {}, False), ("olmes", {"add_bos_token": True}, True), ("helm", {}, True)],
)
def test_olmes_sends_no_bos_unless_the_user_wants_it(
    like: str | None, settings: dict[str, Any], has_bos: bool, llama: Path
) -> None:
    spec = make_spec("hf", ["t"], model_args={"pretrained": str(llama), **settings}, like=like)
    model = opened_model(spec, lambda event: None)
    assert isinstance(model, CausalModel)
    assert (model.view(Loglikelihood("The answer", " is")).context_ids[0] == 0) == has_bos
    model.close()


def test_nan_weights_are_failures_of_every_kind(copied: Path, opened: Opened) -> None:
    model = opened(copied)
    model._loaded().network.module.model.norm.weight.data.fill_(math.nan)
    requests = [
        Loglikelihood("The", " answer"),
        RollingLoglikelihood("The answer"),
        Generation("The", max_tokens=3),
    ]
    assert [answer.kind for answer in answers(model, requests)] == ["not_finite"] * 3


@pytest.mark.parametrize(("engine", "size"), [("tree", "[1-7] tokens"), ("padded", "2 rows")])
def test_memory_error_halves_and_is_reported(llama: Path, opened: Opened, engine: str, size: str) -> None:
    requests = some_pairs()
    expected = answers(opened(llama, "1"), requests)
    model = opened(llama, "8", engine=engine)

    def refuse_big_batches(_: Any, args: Any, kwargs: Any) -> None:
        rows, length = kwargs["input_ids"].shape
        if rows > 2 or (engine == "tree" and length > 7):
            raise MemoryError

    model._loaded().network.module.base_model.register_forward_pre_hook(refuse_big_batches, with_kwargs=True)
    found = answers(model, requests)
    assert all(one.total == pytest.approx(other.total, abs=1e-4) for one, other in zip(found, expected, strict=True))
    (notice,) = model.notices()
    assert re.fullmatch(f"memory ran out; loglikelihood batches were reduced to {size}", notice)


def test_absent_device_falls_back_with_a_notice(llama: Path, opened: Opened) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    model = opened(llama, device="cuda:0")
    assert isinstance(answers(model, some_pairs(1))[0], Logprob)
    assert list(model.notices()) == ['device "cuda:0" is not available; running on the CPU instead']
    with pytest.raises(ModelError, match="device"):
        answers(opened(llama, device="toaster"), some_pairs(1))


def test_torn_weights_are_one_clear_error(copied: Path, opened: Opened) -> None:
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="the model cannot be loaded"):
        answers(opened(copied), some_pairs(1))


def test_missing_tensors_are_never_made_up(copied: Path, opened: Opened) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(copied / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weight missing .* model\.norm\.weight"):
        answers(opened(copied), some_pairs(1))


def test_pickled_weights_load_too(llama: Path, copied: Path, opened: Opened) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(copied / "model.safetensors"), copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    requests = some_pairs(3)
    assert answers(opened(copied), requests) == answers(opened(llama), requests)


def test_encoder_refuses_every_request(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "is_encoder_decoder": True}))
    model = open_causal({"pretrained": str(copied)}, ModelSettings("auto", "cpu"))
    found = answers(model, [Loglikelihood("a", "b"), Generation("a")])
    assert [answer.kind for answer in found] == ["unsupported"] * 2 and "encoder-decoder" in found[0].message


def test_counting_needs_no_weights(llama: Path, opened: Opened) -> None:
    model = opened(llama, max_length=8)
    requests = [
        Loglikelihood("The answer", " is"),
        Generation("The answer", max_tokens=2),
        RollingLoglikelihood("The"),
    ]
    work = model.workload(requests)
    assert (work.alone, work.written) == (3 + 3 + 2, 2) and model._engine is None
    assert work.read <= work.alone and work.operations > 0


def test_forecast_is_what_scoring_then_takes(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    requests = [*some_pairs(), *(RollingLoglikelihood(" ".join(WORDS[:count])) for count in (4, 9))]
    work = model.workload(requests)
    answers(model, requests)
    assert work.read == model.description()["forwarded_tokens"] < work.alone
    assert work.seconds is not None and work.seconds > 0


def test_memory_of_the_weights_is_forecast(llama: Path, opened: Opened) -> None:
    """A forecast of this process: what it has held so far, the weights, and what is read or written at once."""
    read = opened(llama).workload(some_pairs()).memory
    written = opened(llama).workload([*some_pairs(), Generation("The answer", max_tokens=20)]).memory
    weights = (llama / "model.safetensors").stat().st_size
    held = peak_bytes(torch.device("cpu"))
    assert read is not None and written is not None and held is not None
    assert held < read + 20_000_000 and weights < read < written < held + 50 * weights + 100_000_000


def test_one_packed_copy_of_the_weights_is_held_at_a_time(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    answers(model, [Generation(WORDS[0], max_tokens=1)])  # opens the engine
    model._engine.limit = BatchLimit(tokens=8)
    answers(model, [*some_pairs(), *(Generation(word, max_tokens=3) for word in WORDS[:7])])
    layers = [layer for layer in model._engine.network.module.modules() if isinstance(layer, torch.nn.Linear)]
    plain = [
        inspect.getclosurevars(layer.forward).nonlocals.get("plain") for layer in layers if "forward" in vars(layer)
    ]
    assert len(plain) >= 14 and all(inspect.ismethod(form) for form in plain)


@pytest.mark.parametrize("way", [{"engine": "padded"}, {"arithmetic": "lm_eval"}, {"quantize": "int8_dynamic"}])
def test_in_padded_batches_no_sharing_is_forecast(llama: Path, opened: Opened, way: dict[str, str]) -> None:
    model = opened(llama, **way)
    requests = some_pairs()
    work = model.workload(requests)
    answers(model, requests)
    assert work.read == work.alone == model.description()["forwarded_tokens"]


def test_shared_prefixes_are_forecast_once(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    requests = [Loglikelihood("QXQX", ending) for ending in ("Q", "X", "XZ", "XQ")]
    context = len(model.view(requests[0]).context_ids)
    work = model.workload(requests)
    assert (work.read, work.alone) == (context + 1, 4 * context + 2)


def test_refused_requests_cost_nothing_and_no_other(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    assert model.workload([Loglikelihood("a", "")]).alone == 0
    found = answers(model, [Loglikelihood("a", ""), Loglikelihood("a", " b"), Loglikelihood("a", "Q" * 60)])
    assert [type(answer) for answer in found] == [Failure, Logprob, Failure]
    assert answers(model, []) == []


def test_view_of_a_refused_request_is_an_error(llama: Path, opened: Opened) -> None:
    with pytest.raises(ModelError, match="the continuation is empty"):
        opened(llama).view(Loglikelihood("a", ""))


def test_closed_model_loads_again(llama: Path, opened: Opened) -> None:
    model, requests = opened(llama), some_pairs(3)
    first = answers(model, requests)
    model.close()
    assert model._engine is None and answers(model, requests) == first


def test_nothing_is_printed_and_no_state_is_left(
    llama: Path, opened: Opened, capfd: pytest.CaptureFixture[str]
) -> None:
    import torch
    from transformers.utils import logging as transformers_logging

    before = (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled())
    filters, random_state = list(warnings.filters), torch.random.get_rng_state()
    answers(opened(llama), [*some_pairs(3), Generation("The", max_tokens=4)])
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == before
    assert list(warnings.filters) == filters and torch.equal(torch.random.get_rng_state(), random_state)
    assert capfd.readouterr() == ("", "") and logging.getLogger().level == logging.WARNING


def test_a_real_model_generates_a_story(stories: Path, opened: Opened) -> None:
    model = opened(stories)
    likely, unlikely = answers(model, [Loglikelihood("Once upon a", " time"), Loglikelihood("Once upon a", " banana")])
    assert likely.is_greedy and likely.total > -0.1 > unlikely.total
    text = answers(model, [Generation("Once upon a time", stop=(".",), max_tokens=40)])[0]
    assert text.text == ", there was a little girl named Lily" and text.finish_reason == "stop"


def test_a_closed_model_lets_go_of_its_weights_at_once(llama: Path, opened: Opened) -> None:
    model = opened(llama)
    answers(model, some_pairs(6))
    weights = weakref.ref(model._loaded().network.module)
    gc.collect()
    gc.disable()
    try:
        model.close()
        assert weights() is None
    finally:
        gc.enable()
