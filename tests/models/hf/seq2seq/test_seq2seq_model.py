"""Encoder-decoders of hf, on tiny real networks: what transformers computes request by request, in any batches."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.protocols import ExposesTokens, Model, ReportsExecution, ReportsNotices
from assay.core.requests import Generation, Loglikelihood, Message, RollingLoglikelihood, Sampling
from assay.core.responses import Failure, Logprob, Text
from assay.models.hf.seq2seq.seq2seq_model import EncoderDecoder
from assay.options.specification import make_spec
from assay.run.open_model import arguments_notices, opened_model
from assay.testing.contracts import answers, check_model

Opened = Callable[..., EncoderDecoder]
WORDS = [
    "Once",
    "upon",
    "a",
    "time",
    "there",
    "was",
    "little",
    "girl",
    "who",
    "liked",
    "to",
    "answer",
    "questions",
    "sky",
]
MAX_LENGTH = 48


@pytest.fixture(params=["t5", "bart"])
def folder(request: pytest.FixtureRequest) -> Path:
    return Path(request.getfixturevalue(request.param))


def some_pairs(count: int = 24) -> list[Loglikelihood]:
    """Few contexts, some ending in a space, with several continuations each, some of them twice."""
    choose = random.Random(3)
    contexts = [" ".join(choose.choices(WORDS, k=choose.randint(1, 20))) for _ in range(count // 3)]
    return [
        Loglikelihood(choose.choice(contexts) + choose.choice(["", " "]), choose.choice(["", " "]) + continuation)
        for continuation in (" ".join(choose.choices(WORDS, k=choose.randint(1, 4))) for _ in range(count))
    ]


class Direct:
    """transformers by itself: one request at a time, labels as the decoder's text, nothing shared."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self.module = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def table(self, context: Sequence[int], continuation: Sequence[int]) -> Any:
        import torch

        with torch.inference_mode():
            output = self.module(input_ids=torch.tensor([list(context)]), labels=torch.tensor([list(continuation)]))
        return output.logits[0].double().log_softmax(-1)

    def total(self, context: Sequence[int], continuation: Sequence[int]) -> tuple[float, bool]:
        table = self.table(context, continuation)
        values = [float(table[place, token]) for place, token in enumerate(continuation)]
        return math.fsum(values), table.argmax(-1).tolist() == list(continuation)

    def ids(self, request: Loglikelihood) -> tuple[list[int], list[int]]:
        assert isinstance(request.prompt, str)
        context = request.prompt.rstrip()
        continuation = request.prompt[len(context) :] + request.continuation
        return self.tokenizer(context)["input_ids"], self.tokenizer(continuation, add_special_tokens=False)["input_ids"]

    def write(self, prompt: str, count: int) -> list[int]:
        import torch

        ids = torch.tensor([self.tokenizer(prompt)["input_ids"]])
        with torch.inference_mode():
            rows = self.module.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False)
        written: list[int] = rows[0, 1:].tolist()
        return written


def count_encoded(model: EncoderDecoder) -> list[int]:
    """Grows by the rows of every pass through the encoder."""
    rows: list[int] = []
    model._loaded().base.module.get_encoder().register_forward_pre_hook(
        lambda _, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    return rows


def test_it_satisfies_the_protocols(t5: Path, opened: Opened) -> None:
    model = opened(t5)
    for protocol in (EncoderDecoder, Model, ExposesTokens, ReportsNotices, ReportsExecution):
        assert isinstance(model, protocol)


def test_it_keeps_the_contract(folder: Path, opened: Opened) -> None:
    check_model(opened(folder))
    check_model(opened(folder, "2"))


def test_log_likelihoods_are_those_of_single_requests(folder: Path, opened: Opened) -> None:
    direct, requests = Direct(folder), some_pairs()
    for request, answer in zip(requests, answers(opened(folder), requests), strict=True):
        context, continuation = direct.ids(request)
        total, is_greedy = direct.total(context[-MAX_LENGTH:], continuation)
        assert answer.total == pytest.approx(total, abs=1e-4)
        assert (answer.is_greedy, answer.token_count) == (is_greedy, len(continuation))
        assert (answer.prompt_tokens + answer.truncated, answer.notes) == (len(context), ())


def test_what_greedy_decoding_says_is_greedy(folder: Path, opened: Opened) -> None:
    direct = Direct(folder)
    contexts = [" ".join(WORDS[:count]) for count in range(1, 15)]
    best = [int(direct.table(direct.tokenizer(text)["input_ids"], [5]).argmax(-1)[0]) for text in contexts]
    pairs = [Loglikelihood(text, direct.tokenizer.decode([token])) for text, token in zip(contexts, best, strict=True)]
    greedy_pairs = [pair for pair, token in zip(pairs, best, strict=True) if direct.ids(pair)[1] == [token]]
    assert greedy_pairs
    assert all(answer.is_greedy for answer in answers(opened(folder), greedy_pairs))


@pytest.mark.parametrize("batch_size", ["1", "3", "8", "auto"])
def test_batches_and_order_change_nothing(folder: Path, opened: Opened, batch_size: str) -> None:
    requests = some_pairs()
    expected = answers(opened(folder, "1"), requests)
    order = random.Random(1).sample(range(len(requests)), len(requests))
    shuffled = answers(opened(folder, batch_size), [requests[place] for place in order])
    for place, answer in zip(order, shuffled, strict=True):
        assert answer.total == pytest.approx(expected[place].total, abs=1e-4)
        assert replace(answer, total=0.0) == replace(expected[place], total=0.0)


@pytest.mark.parametrize("batch_size", ["1", "3", "auto"])
def test_every_distinct_context_is_encoded_once(folder: Path, opened: Opened, batch_size: str) -> None:
    model = opened(folder, batch_size)
    rows = count_encoded(model)
    scored = [
        Loglikelihood(context, continuation)
        for context in ("The sky", "The girl", "A")
        for continuation in (" is", " was", " a b")
    ]
    drawn = [Generation("The sky", max_tokens=3, sampling=Sampling(1.0, 2), draw=draw) for draw in range(3)]
    answers(model, [*scored, *drawn, Generation("The girl", max_tokens=3)])
    assert sum(rows) == 3 and model.description()["encoded_contexts"] == 3


def test_choices_of_one_token_share_a_row(t5: Path, opened: Opened) -> None:
    model = opened(t5)
    shapes: list[tuple[int, ...]] = []
    model._loaded().base.module.register_forward_pre_hook(
        lambda _, args, kwargs: shapes.append(tuple(kwargs["decoder_input_ids"].shape)), with_kwargs=True
    )
    found = answers(model, [Loglikelihood("The answer", continuation) for continuation in ("Q", "X", "Q", "Z")])
    assert shapes == [(1, 1)]
    assert found[0] == found[2] and found[0] != found[1]


def test_answers_stream_batch_by_batch(t5: Path, opened: Opened) -> None:
    model = opened(t5, "1")
    rows = count_encoded(model)
    requests = [Loglikelihood("The sky", " is"), Loglikelihood("The girl who liked", " is")]
    stream = model.respond(requests)
    assert next(stream)[0] == 1 and rows == [1]  # the longer context first; the other is not encoded yet
    assert next(stream)[0] == 0 and rows == [1, 1]


def test_memory_that_runs_out_makes_batches_smaller(folder: Path, opened: Opened) -> None:
    requests = some_pairs(12)
    expected = answers(opened(folder), requests)
    model = opened(folder)

    def small_memory(_: Any, args: Any, kwargs: dict[str, Any]) -> None:
        ids = kwargs["decoder_input_ids"]
        if len(ids) > 2:
            raise RuntimeError("CUDA out of memory")

    model._loaded().base.module.register_forward_pre_hook(small_memory, with_kwargs=True)
    for answer, known in zip(answers(model, requests), expected, strict=True):
        assert answer.total == pytest.approx(known.total, abs=1e-4)
    assert any("memory ran out" in notice for notice in model.notices())


def test_logits_that_are_not_finite_fail_their_request_only(t5: Path, opened: Opened) -> None:
    model = opened(t5)

    def spoil(_: Any, args: Any, kwargs: Any, output: Any) -> Any:
        output.last_hidden_state[kwargs["input_ids"][:, 0] == model.view(bad).context_ids[0]] = math.nan
        return output

    bad, good = Loglikelihood("Q", " is"), Loglikelihood("The sky", " is")
    model._loaded().base.module.get_encoder().register_forward_hook(spoil, with_kwargs=True)
    found = answers(model, [bad, good, Generation("Q", max_tokens=2)])
    assert isinstance(found[0], Failure) and found[0].kind == "not_finite" and isinstance(found[1], Logprob)
    assert isinstance(found[2], Failure) and found[2].kind == "not_finite"


@pytest.mark.parametrize("extra", [-1, 0, 1, 5])
def test_long_prompts_are_cut_from_the_left(folder: Path, opened: Opened, extra: int) -> None:
    # Upper-case letters never pair up in this tokenizer: one token each.
    direct, model = Direct(folder), opened(folder)
    added = len(direct.tokenizer("Q")["input_ids"]) - 1
    request = Loglikelihood(("QX" * MAX_LENGTH)[: MAX_LENGTH - added + extra], "Z")
    context, continuation = direct.ids(request)
    answer = answers(model, [request])[0]
    assert (answer.prompt_tokens, answer.truncated) == (MAX_LENGTH + min(extra, 0), max(extra, 0))
    assert answer.total == pytest.approx(direct.total(context[-MAX_LENGTH:], continuation)[0], abs=1e-4)
    assert model.view(request).truncated == max(extra, 0)
    written = answers(model, [Generation(request.prompt, max_tokens=3)])[0]
    assert (written.prompt_tokens, written.truncated) == (answer.prompt_tokens, answer.truncated)


def test_what_does_not_fit_the_decoder_is_a_failure(bart: Path, opened: Opened) -> None:
    requests = [Loglikelihood("Q", "Z" * 49), Loglikelihood("Q", "Z" * 48), Loglikelihood("Q", ""), Generation("Q")]
    found = answers(opened(bart), [*requests, Generation("Q", max_tokens=48)])
    assert [getattr(entry, "kind", "") for entry in found] == ["too_long", "", "empty", "too_long", ""]
    assert found[1].token_count == 48 and found[4].token_count <= 48
    assert "256 new tokens are requested, but the decoder takes 48" in found[3].message


def test_an_empty_prompt_starts_from_the_prefix_token(t5: Path, bart: Path, opened: Opened) -> None:
    for folder, prefix in ((t5, [1]), (bart, [0])):  # T5 has no BOS: EOS
        model, direct = opened(folder), Direct(folder)
        request = Loglikelihood("", "The sky")
        answer = answers(model, [request])[0]
        continuation = direct.tokenizer("The sky", add_special_tokens=False)["input_ids"]
        assert answer.total == pytest.approx(direct.total(prefix, continuation)[0], abs=1e-4)
        assert answer.notes == ("empty_prompt",) and model.view(request).context_ids == tuple(prefix)
    assert opened(bart).view(Loglikelihood("  ", "a")).context_ids == (0, 1)  # an empty text has special tokens


def test_greedy_texts_are_those_of_generate(folder: Path, opened: Opened) -> None:
    direct = Direct(folder)
    prompts = [" ".join(WORDS[start : start + count]) for start, count in ((0, 3), (2, 9), (5, 1), (1, 14))]
    found = answers(opened(folder), [Generation(prompt, max_tokens=12) for prompt in prompts])
    for prompt, answer in zip(prompts, found, strict=True):
        ids = direct.write(prompt, 12)
        assert answer.text == direct.tokenizer.decode(ids, skip_special_tokens=True)
        assert answer.token_count == len(ids) == 12 and answer.finish_reason == "length"
        assert answer.notes == ("stop_at_limit",)
    assert len({answer.text for answer in found}) > 1


def test_generation_is_cut_before_stop_strings(bart: Path, opened: Opened) -> None:
    model = opened(bart)
    whole = answers(model, [Generation("The girl", max_tokens=20)])[0].text
    stop = next(letter for letter in whole[1:] if letter.isascii() and letter != whole[0])
    found = answers(model, [Generation("The girl", (stop,), 20), Generation("The sky", (stop,), 20)])[0]
    assert found.text == whole.split(stop)[0] and found.finish_reason == "stop" and found.token_count < 20


def test_a_model_that_ends_says_so(bart: Path, tmp_path: Path, opened: Opened) -> None:
    from transformers import AutoModelForSeq2SeqLM

    copy = Path(shutil.copytree(bart, tmp_path / "copy"))
    module = AutoModelForSeq2SeqLM.from_pretrained(copy)
    module.final_logits_bias[0, 1] = 1e4
    module.save_pretrained(copy)
    found = answers(opened(copy), [Generation("The sky", max_tokens=5)])[0]
    assert found == Text("", "eos", 1, len(opened(bart).view(Loglikelihood("The sky", "a")).context_ids))


def test_draws_depend_on_their_seed_only(folder: Path, opened: Opened) -> None:
    model = opened(folder)
    draws = [Generation("The sky", max_tokens=8, sampling=Sampling(1.0, seed), draw=draw)
             for seed in (1, 2) for draw in (0, 1)]  # fmt: skip
    together = answers(model, [*draws, Generation("The girl", max_tokens=8)])[:4]
    assert together == [answers(model, [draw])[0] for draw in draws]
    assert len({answer.text for answer in together}) == 4


def test_whole_texts_cannot_be_scored(t5: Path, opened: Opened) -> None:
    model = opened(t5)
    assert model.capabilities.kinds == {"loglikelihood", "generation"}
    assert model.capabilities.family == "encoder-decoder" and model.capabilities.max_tokens == MAX_LENGTH
    found = answers(model, [RollingLoglikelihood("The sky"), Loglikelihood("The sky", " is")])
    assert found[0].kind == "unsupported" and isinstance(found[1], Logprob)
    with pytest.raises(ModelError, match="cannot score a whole text"):
        model.view(RollingLoglikelihood("The sky"))


def test_conversations_need_a_template(t5: Path, tmp_path: Path, opened: Opened) -> None:
    conversation = (Message("user", "sky"),)
    refused = answers(opened(t5), [Loglikelihood(conversation, "a"), Generation(conversation, max_tokens=2)])
    assert [entry.kind for entry in refused] == ["unsupported"] * 2
    copy = Path(shutil.copytree(t5, tmp_path / "copy"))
    (copy / "chat_template.jinja").write_text("{% for message in messages %}{{ message['content'] }}!{% endfor %}")
    assert answers(opened(copy), [Loglikelihood(conversation, "a")]) == answers(
        opened(t5), [Loglikelihood("sky!", "a")]
    )


def test_the_view_shows_what_each_half_reads(t5: Path, opened: Opened) -> None:
    seen = opened(t5).view(Loglikelihood("The sky ", "Q"))
    assert seen.context_pieces[-1] == "</s>" and "".join(seen.context_pieces) == "The sky</s>"
    assert "".join(seen.continuation_pieces) == " Q" and seen.prompt_text == "The sky "


def test_a_saved_model_answers_alike(folder: Path, tmp_path: Path, opened: Opened) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    AutoModelForSeq2SeqLM.from_pretrained(folder).save_pretrained(tmp_path / "again")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "again")
    requests = [*some_pairs(6), Generation("The sky", max_tokens=8)]
    first, again = opened(folder), opened(tmp_path / "again")
    assert answers(first, requests) == answers(again, requests)
    assert first.fingerprint.weights == again.fingerprint.weights
    before = answers(first, requests)
    first.close()
    assert answers(first, requests) == before


def test_other_weights_are_another_model(t5: Path, tmp_path: Path, opened: Opened) -> None:
    from transformers import AutoModelForSeq2SeqLM

    copy = Path(shutil.copytree(t5, tmp_path / "copy"))
    assert opened(copy).fingerprint.digest == opened(t5).fingerprint.digest
    module = AutoModelForSeq2SeqLM.from_pretrained(copy)
    module.shared.weight.data[5, 5] += 1.0
    module.save_pretrained(copy)
    fresh = opened(copy).fingerprint
    assert set(fresh.differences(opened(t5).fingerprint)) == {"weights"}


def test_half_precision_and_lm_evals_arithmetic(t5: Path, opened: Opened) -> None:
    requests = some_pairs(6)
    exact = answers(opened(t5), requests)
    for args, tolerance in (({"dtype": "bfloat16"}, 0.1), ({"arithmetic": "lm_eval"}, 1e-4)):
        other = opened(t5, **args)
        for one, two in zip(exact, answers(other, requests), strict=True):
            assert one.total == pytest.approx(two.total, rel=tolerance)
        assert other.fingerprint.digest != opened(t5).fingerprint.digest


def test_a_checkpoint_with_weights_missing_is_refused(t5: Path, tmp_path: Path, opened: Opened) -> None:
    from safetensors.torch import load_file, save_file

    copy = Path(shutil.copytree(t5, tmp_path / "copy"))
    weights = load_file(copy / "model.safetensors")
    del weights["decoder.final_layer_norm.weight"]
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weight missing .* a complete encoder-decoder"):
        answers(opened(copy), some_pairs(3))


def test_a_decoder_without_a_first_token_is_refused(t5: Path, tmp_path: Path, opened: Opened) -> None:
    copy = Path(shutil.copytree(t5, tmp_path / "copy"))
    for name in ("config.json", "generation_config.json"):
        data = json.loads((copy / name).read_text())
        data.pop("decoder_start_token_id", None)
        (copy / name).write_text(json.dumps(data))
    with pytest.raises(ModelError, match="no decoder start token"):
        answers(opened(copy), some_pairs(3))


LM_EVAL = """
import json, sys
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
folder, pairs, prompts = json.loads(sys.stdin.read())
model = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=4)
assert model.backend == "seq2seq", model.backend
asked = [Instance("loglikelihood", {}, tuple(pair), 0) for pair in pairs]
texts = [Instance("generate_until", {}, (prompt, {"until": ["\\n"], "max_gen_toks": 8}), 0) for prompt in prompts]
totals = model.loglikelihood(asked)
model.batch_size_per_gpu = 1  # it pads prompts on the left, which moves BART's positions: its texts depend on the batch
print(json.dumps([totals, model.generate_until(texts)]))
"""


@pytest.mark.reference
def test_lm_eval_has_the_same_numbers(folder: Path, opened: Opened) -> None:
    python = os.environ.get("LM_EVAL_PYTHON")
    if python is None:
        pytest.skip("LM_EVAL_PYTHON is not set")
    pairs = [*some_pairs(), Loglikelihood("", "The sky"), Loglikelihood("Q" * 60, " is"), Loglikelihood("The sky", "Q")]
    prompts = ["The sky", "Once upon a time there was", "Q"]
    job = json.dumps([str(folder), [[pair.prompt, pair.continuation] for pair in pairs], prompts])
    done = subprocess.run([python, "-c", LM_EVAL], input=job, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    totals, texts = json.loads(done.stdout.splitlines()[-1])
    model = opened(folder, arithmetic="lm_eval")
    for answer, (total, is_greedy) in zip(answers(model, pairs), totals, strict=True):
        assert answer.total == pytest.approx(total, abs=1e-4) and answer.is_greedy == is_greedy
    # lm-eval adds the length of the prompt to the limit of new tokens; the beginnings are the same.
    found = answers(model, [Generation(prompt, ("\n",), 8) for prompt in prompts])
    for answer, text in zip(found, texts, strict=True):
        assert text.startswith(answer.text.rstrip("\ufffd"))


def test_no_tokens_requested_give_the_empty_text(folder: Path, opened: Opened) -> None:
    empty, other = answers(opened(folder), [Generation("Once", max_tokens=0), Generation("Once", max_tokens=2)])
    assert (empty.text, empty.token_count, empty.finish_reason) == ("", 0, "length")
    assert isinstance(other, Text)


def test_a_profile_for_decoders_leaves_the_special_tokens_of_an_encoder_decoder(t5: Path) -> None:
    spec = make_spec("hf", ["t"], model_args={"pretrained": str(t5)}, like="olmes")
    model = opened_model(spec, lambda event: None)
    assert isinstance(model, EncoderDecoder)
    assert model.view(Loglikelihood("The answer", " is")).context_ids[-1] == 1  # T5 is trained with EOS at the end
    assert arguments_notices(spec) == ()
    model.close()
