"""A real llama.cpp server (xllamacpp): its probe, letters, constrained answers, and the beginning of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import assay
from assay.core.errors import UserError
from assay.core.requests import Generation, Loglikelihood, Message
from assay.core.responses import Logprob, Text
from assay.core.server_report import GENERATION, LETTERS, LOGLIKELIHOODS
from assay.core.specs import ModelSettings
from assay.models.model_registry import open_model
from assay.testing.contracts import answers
from parity.server_process import LLAMACPP, python_with, running

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
QUESTION = (
    "Which gas do plants take in?\nA. oxygen\nB. carbon dioxide\nC. helium\nD. argon\nAnswer with the letter only."
)
BEGINNING = (Message("user", "What is the capital of France?"), Message("assistant", "The capital of France is"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with SmolLM2."""
    try:
        python = python_with(LLAMACPP, None)
    except UserError as error:
        pytest.skip(str(error))
    with running(LLAMACPP, python, tmp_path_factory.mktemp("server") / "server.log", most=2) as found:
        yield found.url


def ask(url: str, name: str, requests: list[Any], **more: Any) -> list[Any]:
    model = open_model(name, {"model": "any", "base_url": url, **more}, ModelSettings())
    try:
        return answers(model, requests)
    finally:
        model.close()


def test_the_probe_tells_its_forms_apart(url: str) -> None:
    report = assay.probe("llamacpp", model_args={"model": "any", "base_url": url})
    works = {purpose: [form.works for form in report.forms if form.purpose == purpose] for purpose in report.promised}
    assert works == {LOGLIKELIHOODS: [True, False, False], GENERATION: [True, True]}
    assert report.missing == [] and [form.works for form in report.forms if form.purpose == LETTERS] == [True]


def test_letters_are_compared_in_one_request(url: str) -> None:
    found = ask(
        url, "openai-chat", [Loglikelihood(QUESTION, f" {letter}") for letter in "ABCD"], choices="top_logprobs"
    )
    assert all(isinstance(entry, Logprob) and entry.total < 0 for entry in found)
    assert "by_top_logprobs" in found[0].notes and len({entry.total for entry in found}) == 4


def test_answers_are_constrained(url: str) -> None:
    (found,) = ask(url, "openai-chat", [Generation(QUESTION, max_tokens=5)], constrain="C|D")
    assert isinstance(found, Text) and found.text in ("C", "D") and found.notes == ("constrained",)


def test_the_beginning_of_an_answer_is_continued_and_not_repeated(url: str) -> None:
    (found,) = ask(url, "llamacpp", [Generation(BEGINNING, max_tokens=8)])
    assert isinstance(found, Text) and found.text.strip()
    assert not found.text.startswith(BEGINNING[-1].text) and "prefill_repeated" in found.notes
