"""The scripted model: answers as scripted, remembers its requests."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from assay.core.identity import request_digest
from assay.core.requests import Generation, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure, Logprob, Text
from assay.testing import ScriptedModel, check_model

ASK: list[Request] = [Loglikelihood("a", " b c"), Generation("d")]


def by_kind(request: Request) -> float | str:
    return "text" if isinstance(request, Generation) else -1.5


def test_numbers_and_texts_become_outputs() -> None:
    answers = dict(ScriptedModel(by_kind).respond(ASK))
    assert answers == {0: Logprob(-1.5, 2, False), 1: Text("text", token_count=1)}


def test_a_number_for_a_text_without_prefix_scores_all_words_but_the_first() -> None:
    texts = [RollingLoglikelihood("a b c", stands_on_prefix=bare) for bare in (True, False)]
    answers = dict(ScriptedModel(by_kind).respond(texts))
    assert answers == {0: Logprob(-1.5, 3, False), 1: Logprob(-1.5, 2, False, prompt_tokens=1)}


def test_outputs_and_failures_pass_as_they_are() -> None:
    failure, output = Failure("error", "no"), Text("x", "length", 3)
    model = ScriptedModel(lambda request: output if isinstance(request, Generation) else failure)
    assert dict(model.respond(ASK)) == {0: failure, 1: output}


def test_it_keeps_the_contract() -> None:
    check_model(ScriptedModel(by_kind))


def test_it_remembers_only_what_was_drawn_from_the_stream() -> None:
    model = ScriptedModel(by_kind)
    next(model.respond(ASK))
    assert model.asked == ASK[:1]


def test_digests_are_on_disk_before_the_answer(tmp_path: Path) -> None:
    model = ScriptedModel(by_kind, log_path=tmp_path / "asked.log")
    next(model.respond(ASK))
    assert (tmp_path / "asked.log").read_text() == request_digest(ASK[0]).hex() + "\n"


def test_the_delay_is_kept() -> None:
    start = time.perf_counter()
    list(ScriptedModel(by_kind, delay=0.05).respond(ASK))
    assert time.perf_counter() - start >= 0.1


def test_a_handler_that_raises_ends_the_stream() -> None:
    def crash(request: Request) -> float:
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        list(ScriptedModel(crash).respond(ASK))


def test_names_make_models() -> None:
    digests = {ScriptedModel(by_kind, name=name).fingerprint.digest for name in ("one", "two")}
    assert len(digests) == 2
    assert ScriptedModel(by_kind, kinds=("generation",)).capabilities.kinds == {"generation"}
