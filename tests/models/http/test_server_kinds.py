"""Servers of known kinds by their names: their own endpoints, their chats, and what is refused there."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.requests import Generation, Loglikelihood, Message, Sampling
from assay.core.responses import Failure, Logprob, Text
from assay.core.specs import ModelSettings
from assay.models.http.dialects.kinds import KINDS, chat_of_kind
from assay.models.http.exchange import ChatSettings, GenerationCall, Thinking
from assay.models.model_registry import open_model
from assay.testing import check_model
from assay.testing.contracts import answers
from tests.models.http.fault_server import MODEL, FaultServer, Json, greedy, ids_of, text_of, total
from tests.models.http.native_servers import sglang, tgi

Open = Callable[..., Any]
CONTEXT, CONTINUATION = "The river is", " wide"
EXACT = total(ids_of(CONTEXT + CONTINUATION, True), 5)
LIKELY = text_of(greedy(ids_of(CONTEXT, True), 3))
USER = Message("user", "2 + 2?")
PREFILLED = (USER, Message("assistant", "It is"))


def test_sglang_gives_the_exact_log_likelihood_and_is_found_out(opened: Open) -> None:
    with sglang() as server:
        model = opened(server)
        assert model.fingerprint.settings["likelihood"] == "sglang"
        found = answers(model, [Loglikelihood(CONTEXT, CONTINUATION), Loglikelihood(CONTEXT, LIKELY)])
        body = server.seen[-2] if len(server.seen[-2]["input_ids"]) == 18 else server.seen[-1]
        assert body == {
            "input_ids": ids_of(CONTEXT + CONTINUATION, True),
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": 12,  # of 13 tokens of context: the last one's entry has no number
            "top_logprobs_num": 1,
        }
    assert found[0].total == pytest.approx(EXACT, abs=1e-9)
    assert [answer.is_greedy for answer in found] == [False, True]


def test_sglang_keeps_the_contract_of_models(opened: Open) -> None:
    with sglang() as server:
        check_model(opened(server, "sglang"))


@pytest.mark.parametrize("what", ["id", "shifted", "count", "top", "positive", "missing"])
def test_wrong_answers_of_sglang_are_refused(opened: Open, what: str) -> None:
    def spoil(body: Json, sound: Json) -> Json:
        report = copy.deepcopy(sound).get("meta_info", {})
        entries, tops = report.get("input_token_logprobs"), report.get("input_top_logprobs")
        if entries:
            if what == "id":
                entries[-1][1] += 1
            elif what == "shifted":
                entries[0][0] = -1.0
            elif what == "count":
                entries.insert(0, [None, 5, None])
            elif what == "top":
                tops[-1] = []
            elif what == "positive":
                entries[-1][0] = 0.5
            else:
                del report["input_token_logprobs"]
        return {**sound, "meta_info": report} if "meta_info" in sound else {**sound, "choices": []}

    with sglang(spoil=spoil) as server:
        model = opened(server, max_retries=0)
        assert model.fingerprint.settings["likelihood"] == "refused"


def test_tgi_is_asked_with_texts_and_answers_with_ids(opened: Open, bytes_folder: Path) -> None:
    with tgi() as server:
        model = opened(server, "tgi", tokenizer=str(bytes_folder))
        assert model.fingerprint.settings["likelihood"] == "tgi"
        (found,) = answers(model, [Loglikelihood(CONTEXT, CONTINUATION)])
        assert server.seen[-1] == {
            "inputs": CONTEXT + CONTINUATION,
            "parameters": {"max_new_tokens": 1, "do_sample": False, "details": True, "decoder_input_details": True},
        }
    assert found.total == pytest.approx(EXACT, abs=1e-9)
    assert (found.is_greedy, found.notes) == (False, ("greedy_unknown",))


def test_tgi_generates_from_texts(opened: Open) -> None:
    whole = text_of(greedy(ids_of("Once", True), 12))
    with tgi() as server:
        found = answers(
            opened(server, "tgi", num_concurrent=1),
            [
                Generation("Once", stop=(whole[4],), max_tokens=12),
                Generation("a", max_tokens=1, sampling=Sampling(0.7)),
            ],
        )
        first, second = server.seen
    assert found[0] == Text(whole.split(whole[4])[0], "stop", 12)  # the stop string that TGI keeps is cut
    assert first["parameters"].items() >= {"do_sample": False, "stop": [whole[4]]}.items()
    assert second["parameters"].items() >= {"do_sample": True, "temperature": 0.7}.items()


def test_tgi_without_log_probabilities_of_prompts_says_how_to_start_it(opened: Open, bytes_folder: Path) -> None:
    def spoil(body: Json, sound: Json) -> Json:
        return {**sound, "details": {**sound["details"], "prefill": []}}

    with tgi(spoil=spoil) as server:
        model = opened(server, "tgi", tokenizer=str(bytes_folder))
        assert "enable-prefill-logprobs" in model.capabilities.refusal


def test_tgi_with_another_tokenizer_is_refused(opened: Open, bytes_folder: Path) -> None:
    def spoil(body: Json, sound: Json) -> Json:
        for entry in sound["details"]["prefill"][-1:]:
            entry["id"] += 1
        return sound

    with tgi(spoil=spoil) as server:
        assert "other tokens" in opened(server, "tgi", tokenizer=str(bytes_folder)).capabilities.refusal


# Chats


@pytest.mark.parametrize("kind", ["vllm", "llamacpp"])
def test_conversations_go_to_the_chat_endpoint_of_a_known_kind(opened: Open, kind: str) -> None:
    with FaultServer(kind) as server:
        model = opened(server, kind)
        assert model.capabilities.has_chat
        found = answers(model, [Generation((USER,), max_tokens=3), Generation("Once", max_tokens=3)])
        bodies = server.seen[-2:]
    assert [("messages" in body) for body in bodies].count(True) == 1
    assert [entry.text for entry in found] == [text_of(greedy(ids_of(text, True), 3)) for text in ("2 + 2?", "Once")]


def body_of(kind: str, prompt: Any = "Q", **settings: Any) -> Json:
    exchange = chat_of_kind(ChatSettings("m", kind=kind, **settings)).generate(
        GenerationCall(prompt, Generation("Q"), 9)
    )
    assert not isinstance(exchange, Failure) and exchange.body is not None
    return dict(exchange.body)


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_beginning_of_an_answer_is_continued(kind: str) -> None:
    body = body_of(kind, PREFILLED)
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert "continue_final_message" not in body_of(kind, (USER,))


@pytest.mark.parametrize("kind", ["openai", "tgi", "ollama"])
def test_no_beginning_is_sent_where_it_is_not_known_how(kind: str) -> None:
    call = GenerationCall(PREFILLED, Generation("Q"), 9)
    assert isinstance(chat_of_kind(ChatSettings("m", kind=kind)).generate(call), Failure)


def test_a_beginning_that_llamacpp_repeats_is_removed() -> None:
    exchange = chat_of_kind(ChatSettings("m", kind="llamacpp")).generate(GenerationCall(PREFILLED, Generation("Q"), 9))
    assert not isinstance(exchange, Failure)

    def said(text: str) -> Any:
        message = {"role": "assistant", "content": text}
        return exchange.read({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    assert said("It is 4.") == Text(" 4.", "stop", notes=("prefill_repeated",))
    assert said(" 4.") == Text(" 4.", "stop")


@pytest.mark.parametrize(
    ("kind", "thinking", "fields"),
    [
        ("vllm", Thinking(0), {"chat_template_kwargs": {"enable_thinking": False}}),
        (
            "vllm",
            Thinking(50, "low"),
            {
                "chat_template_kwargs": {"enable_thinking": True},
                "thinking_token_budget": 50,
                "reasoning_effort": "low",
                "max_tokens": 59,  # the budget comes on top of the answer's limit
            },
        ),
        ("sglang", Thinking(-1, "0.5"), {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "0.5"}),
        ("llamacpp", Thinking(0), {"chat_template_kwargs": {"enable_thinking": False}}),
        ("llamacpp", Thinking(effort="low"), {"chat_template_kwargs": {"reasoning_effort": "low"}}),
        ("openai", Thinking(effort="low"), {"reasoning_effort": "low"}),
    ],
)
def test_reasoning_is_set_as_each_kind_takes_it(kind: str, thinking: Thinking, fields: Json) -> None:
    assert fields.items() <= body_of(kind, thinking=thinking).items()


@pytest.mark.parametrize(("kind", "budget"), [("openai", 0), ("ollama", 5), ("sglang", 5), ("llamacpp", 5)])
def test_settings_of_reasoning_that_a_kind_lacks_are_errors(opened: Open, kind: str, budget: int) -> None:
    with pytest.raises(ModelError, match=r"model_args\.thinking: this kind of server has no such setting"):
        chat_of_kind(ChatSettings("m", kind=kind, thinking=Thinking(budget)))


def test_settings_of_reasoning_are_part_of_the_identity(opened: Open) -> None:
    with FaultServer("vllm") as server:
        plain, off, effort = (
            opened(server, "openai-chat", **more).fingerprint
            for more in ({}, {"thinking": "off"}, {"reasoning_effort": "low"})
        )
    assert len({plain.digest, off.digest, effort.digest}) == 3
    assert (off.settings["thinking"], off.settings["server"]) == (0, "vllm")
    assert "thinking" not in plain.settings and "server" not in plain.settings


@pytest.mark.parametrize(
    ("kind", "fields", "answer"),
    [
        ("vllm", {"structured_outputs": {"choice": ["A", "B.C"]}}, "B.C"),
        ("sglang", {"regex": r"(A|B\.C)"}, "B.C"),
        ("llamacpp", {"grammar": 'root ::= "A" | "B.C"'}, "B.C"),
        ("openai", {}, '{"answer": "B.C"}'),
    ],
)
def test_answers_are_constrained_as_each_kind_takes_it_and_checked(kind: str, fields: Json, answer: str) -> None:
    call = GenerationCall("Q", Generation("Q", stop=("\n",), max_tokens=1), 1)
    exchange = chat_of_kind(ChatSettings("m", kind=kind, constrain=("A", "B.C"))).generate(call)
    assert not isinstance(exchange, Failure) and exchange.body is not None
    assert fields.items() <= exchange.body.items()
    assert "stop" not in exchange.body and exchange.body["max_tokens"] == 64

    def said(text: str) -> Any:
        return exchange.read({"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]})

    assert said(answer) == Text("B.C", "stop", notes=("constrained",))
    ignored = said("I think A")  # as servers that ignore the constraint answer
    assert isinstance(ignored, Failure) and (ignored.kind, ignored.retryable) == ("not_a_choice", False)


def test_openai_constrains_by_a_schema() -> None:
    shape = body_of("openai", constrain=("A", "B"))["response_format"]
    assert shape["type"] == "json_schema" and shape["json_schema"]["strict"]
    assert shape["json_schema"]["schema"]["properties"]["answer"]["enum"] == ["A", "B"]


def test_every_kind_can_be_named() -> None:
    for kind in KINDS:
        model = open_model(kind, {"model": "m", "base_url": "http://127.0.0.1:1"}, ModelSettings())
        assert model.provider.kind == ("" if kind == "openai" else kind)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["choices=top_logprobs", "constrain=A|B"])
def test_arguments_of_chat_models_are_errors_elsewhere(name: str) -> None:
    key, value = name.split("=")
    with pytest.raises(ModelError, match=f"model_args.{key}: is of chat models"):
        open_model("vllm", {"model": "m", "base_url": "http://127.0.0.1:1", key: value}, ModelSettings())


# Chat templates of a local tokenizer


def test_conversations_are_rendered_by_a_local_template(opened: Open, bytes_folder: Path, tmp_path: Path) -> None:
    where = Path(shutil.copytree(bytes_folder, tmp_path / "tokenizer"))
    settings = json.loads((where / "tokenizer_config.json").read_text())
    template = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    settings["chat_template"] = template + "{% if add_generation_prompt %}<assistant>{% endif %}"
    (where / "tokenizer_config.json").write_text(json.dumps(settings))
    with FaultServer() as server:
        model = opened(server, tokenizer=str(where))
        assert model.capabilities.has_chat and model.fingerprint.template
        assert model.render((USER,)) == "<s><user>2 + 2?<assistant>" and model.render("Q") == "Q"
        found = answers(model, [Generation((USER,), max_tokens=3), Loglikelihood(PREFILLED, " 4")])
        texts = [text_of(body["prompt"]) for body in server.seen[-2:]]
    assert sorted(texts) == ["<s><user>2 + 2?<assistant>", "<s><user>2 + 2?<assistant>It is 4"]
    assert isinstance(found[0], Text) and isinstance(found[1], Logprob)


def test_without_a_template_conversations_are_refused_by_name(opened: Open, bytes_folder: Path) -> None:
    with FaultServer() as server:
        model = opened(server, tokenizer=str(bytes_folder))
        assert not model.capabilities.has_chat and model.render((USER,)) is None
        (found,) = answers(model, [Loglikelihood((USER,), " 4")])
    assert isinstance(found, Failure) and "tokenizer=FOLDER" in found.message
    assert server.seen[0]["model"] == MODEL


@pytest.mark.parametrize("setting", [{"thinking": "off"}, {"reasoning_effort": "low"}])
def test_settings_of_reasoning_without_effect_are_errors(opened: Open, setting: Json) -> None:
    with FaultServer() as server, pytest.raises(ModelError, match="has no effect"):
        assert opened(server, **setting).capabilities


def test_reasoning_of_a_local_template(opened: Open, bytes_folder: Path, tmp_path: Path) -> None:
    where = Path(shutil.copytree(bytes_folder, tmp_path / "tokenizer"))
    (where / "chat_template.jinja").write_text("{{ messages[0].content }}{% if enable_thinking %} think{% endif %}:")
    with FaultServer() as server:
        answers(opened(server, tokenizer=str(where), thinking="auto"), [Generation((USER,), max_tokens=1)])
        answers(opened(server, tokenizer=str(where), thinking="off"), [Generation((USER,), max_tokens=1)])
        texts = [text_of(body["prompt"]) for body in server.seen if text_of(body["prompt"]).startswith("<s>2")]
        assert texts == ["<s>2 + 2? think:", "<s>2 + 2?:"]
        with pytest.raises(ModelError, match="is a number of tokens"):
            assert opened(server, tokenizer=str(where), thinking=50).capabilities


def test_ollama_is_found_out_and_what_it_does_with_texts_is_said(opened: Open) -> None:
    with FaultServer(about={"/api/version": {"version": "0.12.3"}}, tokenizes=False) as server:
        model = opened(server)
        assert model.facts_of_server.kind == "ollama" and model.capabilities.kinds == {"generation"}
        assert any("chat template" in line for line in model.notices())
        chat = opened(server, "ollama")
        assert answers(chat, [Generation("Once", max_tokens=2)])[0].text == text_of(greedy(ids_of("Once", True), 2))
        assert "messages" in server.seen[-1]
