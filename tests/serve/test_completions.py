"""`/v1/completions` of a tiny model: log-probabilities against a forward pass, texts against the model's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.protocols import Model
from assay.core.requests import Generation, Sampling
from tests.serve.conftest import LENGTH, Running

TEXT = "Once upon a time there was a little girl"


@pytest.fixture(scope="module")
def model(open_model: Callable[[], Model]) -> Any:
    return open_model()


@pytest.fixture(scope="module")
def expected(model: Any) -> Callable[[list[int]], Any]:
    """Log-probabilities of every next token after every prefix of some ids, by a plain forward pass."""
    import torch

    def compute(ids: list[int]) -> Any:
        network = model._loaded().network
        return torch.log_softmax(network.logits([ids], list(range(len(ids)))).double(), dim=-1)[0]

    return compute


def ids_of(server: Running, text: str) -> list[int]:
    found: list[int] = server.ask("/tokenize", {"prompt": text}).data["tokens"]
    return found


def test_echo_gives_every_token_its_log_probability(server: Running, expected: Any) -> None:
    ids = ids_of(server, TEXT)
    choice = server.complete(ids, echo=True, logprobs=1, max_tokens=1)["choices"][0]
    found, table = choice["logprobs"], expected(ids)
    assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None
    wanted = [float(table[place, token]) for place, token in enumerate(ids[1:])]
    assert found["token_logprobs"][1:-1] == pytest.approx(wanted, abs=1e-5)
    assert found["token_logprobs"][-1] == pytest.approx(float(table[-1].max()), abs=1e-5)
    assert {len(column) for column in found.values()} == {len(ids) + 1}


def test_a_token_is_greedy_if_its_number_is_the_largest_of_its_position(server: Running, expected: Any) -> None:
    ids = ids_of(server, TEXT)
    for _ in range(3):  # greedy tokens at the end
        ids.append(int(expected(ids)[-1].argmax()))
    found = server.complete(ids, echo=True, logprobs=1, max_tokens=1)["choices"][0]["logprobs"]
    best = expected(ids).argmax(dim=-1).tolist()
    for place, token in enumerate(ids[1:], 1):
        is_best = found["token_logprobs"][place] == max(found["top_logprobs"][place].values())
        assert is_best == (best[place - 1] == token)


def test_the_only_generated_token_may_be_the_end(server: Running, model: Any) -> None:
    rows = [[0, first, second] for first in range(2, 320, 7) for second in range(2, 320)]
    likeliest = model._loaded().network.logits(rows, [2])[:, 0].argmax(dim=-1).tolist()
    ids = rows[likeliest.index(1)]
    choice = server.complete(ids, echo=True, logprobs=1, max_tokens=1)["choices"][0]
    assert len(choice["logprobs"]["tokens"]) == 4 and choice["logprobs"]["tokens"][-1] == "</s>"
    assert choice["text"] == server.ask("/detokenize", {"tokens": ids}).data["prompt"]
    assert choice["finish_reason"] == "stop"


def test_prompts_in_all_four_forms_are_the_same(server: Running) -> None:
    ids, others = ids_of(server, TEXT), ids_of(server, "Blue")
    forms = [TEXT, [TEXT, "Blue"], ids, [ids, others]]
    answers = [server.complete(form, max_tokens=5) for form in forms]
    texts = [[choice["text"] for choice in answer["choices"]] for answer in answers]
    assert texts[0] == texts[2] and texts[1] == texts[3] and texts[1][0] == texts[0][0]
    assert [choice["index"] for choice in answers[3]["choices"]] == [0, 1]
    assert answers[3]["usage"]["prompt_tokens"] == len(ids) + len(others)


def test_texts_are_those_of_the_model(server: Running, model: Model) -> None:
    sampling = Sampling(0.8, 7, (("top_k", 0), ("top_p", 0.9)))
    requests = [Generation(TEXT, ("e",), 12), Generation(TEXT, (), 12), Generation(TEXT, (), 12, sampling)]
    own = dict(model.respond(requests))
    served = [
        server.complete(TEXT, stop="e", max_tokens=12),
        server.complete(TEXT, max_tokens=12),
        server.complete(TEXT, max_tokens=12, temperature=0.8, top_p=0.9, seed=7),
    ]
    assert [answer["choices"][0]["text"] for answer in served] == [own[index].text for index in range(3)]  # type: ignore[union-attr]
    reasons = ["length" if own[index].finish_reason == "length" else "stop" for index in range(3)]  # type: ignore[union-attr]
    assert [answer["choices"][0]["finish_reason"] for answer in served] == reasons


def test_generated_tokens_have_the_log_probabilities_of_a_forward_pass(server: Running, expected: Any) -> None:
    ids = ids_of(server, TEXT)
    choice = server.complete(TEXT, max_tokens=4, logprobs=3, return_token_ids=True)["choices"][0]
    table = expected([*ids, *choice["token_ids"]])
    wanted = [float(table[len(ids) - 1 + place, token]) for place, token in enumerate(choice["token_ids"])]
    assert choice["prompt_token_ids"] == ids
    assert choice["logprobs"]["token_logprobs"] == pytest.approx(wanted, abs=1e-5)
    assert all(len(top) == 3 for top in choice["logprobs"]["top_logprobs"])
    one = server.complete(TEXT, max_tokens=1, logprobs=3)["choices"][0]["logprobs"]
    assert one["token_logprobs"] == pytest.approx(wanted[:1], abs=1e-5)


def test_vllms_form_has_ids_and_ranks(server: Running, expected: Any) -> None:
    ids = ids_of(server, TEXT)
    choice = server.complete(ids, max_tokens=0, prompt_logprobs=2)["choices"][0]
    table, found = expected(ids), choice["prompt_logprobs"]
    assert found[0] is None and choice["text"] == ""
    for place, token in enumerate(ids[1:], 1):
        row, own = table[place - 1], found[place][str(token)]
        assert own["logprob"] == pytest.approx(float(row[token]), abs=1e-5)
        assert own["rank"] == int((row > row[token]).sum()) + 1
        assert 2 <= len(found[place]) <= 3


def test_tokens_may_be_called_by_their_ids(server: Running) -> None:
    found = server.complete([0, 70, 71], echo=True, logprobs=2, max_tokens=0, return_tokens_as_token_ids=True)
    logprobs = found["choices"][0]["logprobs"]
    assert logprobs["tokens"] == ["token_id:0", "token_id:70", "token_id:71"]
    assert "token_id:70" in logprobs["top_logprobs"][1]


def test_offsets_count_characters_also_of_those_that_span_tokens(server: Running) -> None:
    text = "naïve 東京 girl"
    found = server.complete(text, echo=True, logprobs=0, max_tokens=0, add_special_tokens=False)["choices"][0]
    logprobs = found["logprobs"]
    assert found["text"] == text and logprobs["tokens"][-1] in text
    assert text[logprobs["text_offset"][-1] :] == logprobs["tokens"][-1]


def test_special_tokens_are_added_to_texts_unless_refused(server: Running) -> None:
    found = [
        server.complete("girl", max_tokens=0, return_token_ids=True, **more)["choices"][0]["prompt_token_ids"]
        for more in ({}, {"add_special_tokens": True}, {"add_special_tokens": False})
    ]
    assert found[0] == found[1] == [0, *found[2]]


def test_several_choices_differ_when_sampled_and_not_when_greedy(server: Running) -> None:
    sampled = server.complete(TEXT, n=4, temperature=1.5, seed=3, max_tokens=12)
    greedy = server.complete(TEXT, n=2, max_tokens=4)
    assert len({choice["text"] for choice in sampled["choices"]}) > 1
    assert [choice["index"] for choice in sampled["choices"]] == [0, 1, 2, 3]
    assert greedy["choices"][0]["text"] == greedy["choices"][1]["text"]
    assert greedy["usage"]["completion_tokens"] == 8


def test_without_a_seed_samples_differ(server: Running) -> None:
    texts = {server.complete(TEXT, temperature=2.0, max_tokens=12)["choices"][0]["text"] for _ in range(4)}
    assert len(texts) > 1


@pytest.mark.parametrize("echo", [False, True])
def test_a_stream_has_the_same_text(server: Running, echo: bool) -> None:
    body = {"prompt": TEXT, "max_tokens": 20, "echo": echo, "stop": ["zzz", "er"]}
    frames = server.frames("/v1/completions", {**body, "stream_options": {"include_usage": True}})
    whole = server.complete(**body)
    assert "".join(frame["choices"][0]["text"] for frame in frames[:-1]) == whole["choices"][0]["text"]
    assert [frame["choices"][0]["finish_reason"] for frame in frames[-2:-1]] == [whole["choices"][0]["finish_reason"]]
    assert frames[-1]["choices"] == [] and frames[-1]["usage"] == whole["usage"]


def test_streams_come_in_pieces(server: Running) -> None:
    frames = server.frames("/v1/completions", {"prompt": "The sky", "max_tokens": 40})
    assert len([frame for frame in frames if frame["choices"][0]["text"]]) > 3


REFUSED = {
    "suffix": {"suffix": "x"},
    "best_of": {"best_of": 3},
    "logit_bias": {"logit_bias": {"3": 1}},
    "presence_penalty": {"presence_penalty": 0.5},
    "frequency_penalty": {"frequency_penalty": True},
    "logprobs": {"logprobs": 21},
    "max_tokens": {"max_tokens": -1},
    "temperature": {"temperature": "hot"},
    "top_p": {"top_p": 0},
    "n": {"n": 0},
    "stop": {"stop": [1]},
    "stream_options": {"stream_options": {"include_usage": True}},
    "guided_choice": {"guided_choice": ["a"]},
    "prompt": {"prompt": [0, 320]},
    "seed": {"seed": 1.5},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_done_is_refused(server: Running, name: str) -> None:
    status, data = server.ask("/v1/completions", {"model": "tiny", "prompt": "a", **REFUSED[name]})
    assert status == 400
    assert data["error"]["param"] == name and data["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("prompt", ["", [], [[]], [1, "a"], None, 7, [["a"]], [True]])
def test_prompts_of_no_form_are_refused(server: Running, prompt: Any) -> None:
    body = {"model": "tiny", "prompt": prompt, "add_special_tokens": False}
    status, data = server.ask("/v1/completions", body)
    assert status == 400 and data["error"]["param"] == "prompt"


def test_a_prompt_that_is_too_long_is_refused_by_its_name(server: Running) -> None:
    status, data = server.ask("/v1/completions", {"model": "tiny", "prompt": [5] * (LENGTH - 3), "max_tokens": 4})
    assert (status, data["error"]["code"]) == (400, "context_length_exceeded")
    server.complete([5] * (LENGTH - 4), max_tokens=4)


def test_fields_without_effect_are_accepted(server: Running) -> None:
    server.complete("girl", max_tokens=2, user="me", suffix=None, best_of=1, presence_penalty=0, logit_bias={})
