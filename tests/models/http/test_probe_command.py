"""`assay probe`: what works at a server and why the rest does not, at 80 columns and as JSON."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

import assay
from assay.cli.main import main
from assay.core.server_report import LOGLIKELIHOODS
from tests.models.http.fault_server import MODEL, FaultServer
from tests.models.http.native_servers import sglang, tgi
from tests.models.http.test_chat_choices import TOPS, listing
from tests.models.http.test_server_probe import ignoring_echo


def arguments(server: FaultServer, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "base_url": server.url, "backoff": 0.002, **more}


def test_every_form_is_tried_and_those_that_work_agree() -> None:
    with FaultServer("vllm", spoil=listing(*TOPS)) as server:
        report = assay.probe("openai", model_args=arguments(server))
    likelihoods = [form for form in report.forms if form.purpose == LOGLIKELIHOODS]
    assert [(form.name, form.works) for form in likelihoods] == [
        ("/v1/completions with prompt_logprobs (vLLM)", True),
        ("/v1/completions with echo and logprobs", True),
    ]
    assert report.missing == [] and report.advice == ()
    assert report.facts == {
        "kind": "vllm",
        "context": "64 tokens",
        "tokenizer": "the server's; the server adds 1 token to texts (BOS)",
        "agreement": "forms that work differ by at most 0 nats per token",
    }
    assert [form.works for form in report.forms] == [True] * 5


def test_the_report_fits_80_columns_and_gives_the_reasons(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with FaultServer(spoil=ignoring_echo) as server:
        text = ",".join(f"{name}={value}" for name, value in arguments(server, max_retries=0).items())
        command = ["probe", "--model", "openai", "--model_args", text]
        assert main(command) == 2
        printed = capsys.readouterr().out
        assert main([*command, "--format", "json"]) == 2
        found = json.loads(capsys.readouterr().out)
    assert found["missing"] == [LOGLIKELIHOODS]
    assert max(map(len, printed.splitlines())) <= 80
    words = " ".join(printed.split())
    assert "no /v1/completions with echo and logprobs" in words and "echo is ignored" in words
    assert "yes texts after a text" in words and "what works: vLLM" in words
    assert {form["works"] for form in found["forms"]} == {True, False}


def test_greedy_texts_that_differ_are_reported(capsys: Any) -> None:
    asked = itertools.count()

    def another_word_each_time(body: Any, reply: Any) -> Any:
        if reply["choices"][0].get("text"):
            reply["choices"][0]["text"] += f" {next(asked)}"
        return reply

    with FaultServer(spoil=another_word_each_time) as server:
        text = ",".join(f"{name}={value}" for name, value in arguments(server).items())
        main(["probe", "--model", "openai", "--model_args", text])
    words = " ".join(capsys.readouterr().out.split())
    assert "yes texts after a text - the same greedy request got 3 different texts when asked 3 times" in words


def test_a_missing_endpoint_ends_no_other_form() -> None:
    with tgi() as server:  # which has no /v1/chat/completions of its own here
        report = assay.probe("tgi", model_args=arguments(server))
    assert [form.works for form in report.forms][1] is True
    assert "tokenizer=FOLDER" in report.facts["tokenizer"] and report.missing == [LOGLIKELIHOODS]


def test_sglang_is_probed_in_every_form() -> None:
    with sglang() as server:
        report = assay.probe("sglang", model_args=arguments(server))
    works = [form.name for form in report.forms if form.works and form.purpose == LOGLIKELIHOODS]
    assert works == [
        "/generate with input_ids and logprob_start_len (SGLang)",
        "/v1/completions with echo and logprobs",
    ]


def test_a_chat_server_is_asked_for_answers_and_letters() -> None:
    with FaultServer(spoil=listing(*TOPS)) as server:
        report = assay.probe("openai-chat", model_args=arguments(server))
    assert [form.works for form in report.forms] == [False, True, True] and report.missing == []


def test_a_server_that_cannot_be_reached_and_other_models_are_errors(capsys: Any) -> None:
    assert (
        main(["probe", "--model", "openai", "--model_args", "model=m,base_url=http://127.0.0.1:9,max_retries=0"]) == 2
    )
    assert "Start the server" in capsys.readouterr().err
    assert main(["probe", "--model", "dummy"]) == 2
    assert "is not behind HTTP" in capsys.readouterr().err


def test_a_server_that_hangs_is_an_error_after_its_first_silence(capsys: Any) -> None:
    from tests.models.http.faults import hang

    async def fault(request: Any, body: Any, number: int) -> Any:
        return await hang(request)

    with FaultServer(fault=fault, routes={"/v1/models": dict}) as server:
        text = f"model=m,base_url={server.url},timeout=0.2,max_retries=0"
        assert main(["probe", "--model", "openai", "--model_args", text]) == 2
        assert len(server.seen) == 1
    assert "no complete answer within 0.2 seconds" in capsys.readouterr().err
