"""Models behind real servers give the log-likelihoods and texts of the same model in this process.

llama.cpp by xllamacpp (in this Python, or in that of XLLAMACPP_PYTHON), vLLM in the Python of VLLM_PYTHON.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import UserError
from assay.core.requests import Generation, Loglikelihood, RollingLoglikelihood
from assay.core.responses import Logprob, Text
from assay.core.specs import ModelSettings
from assay.models.model_registry import open_model
from assay.testing.contracts import answers
from parity.server_process import LLAMACPP, MODEL, SERVERS, VLLM, Server, model_folder, python_with, running

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

TOKENS = {"add_bos_token": "false", "prefix_token_id": 0}
QUESTION = "The capital of France is Paris. The capital of Italy is"
REQUESTS = [
    *(Loglikelihood(QUESTION, city) for city in (" Rome", " Milan", " Rome, of course.", " a small town in Italy")),
    Loglikelihood("", "Once upon a time"),
    RollingLoglikelihood("It snowed all night, and in the morning the gate would not open."),
]
WRITTEN = Generation("One, two, three, four,", stop=("\n",), max_tokens=12)


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    """Answers of the model in this process."""
    pytest.importorskip("torch")
    model: Any = open_model("hf", {"pretrained": str(model_folder()), "dtype": "float32", **TOKENS}, ModelSettings())
    found = answers(model, [*REQUESTS, WRITTEN])
    model.close()
    return found


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        python = python_with(request.param, None)
    except UserError as error:
        pytest.skip(str(error))
    log: Path = tmp_path_factory.mktemp("server") / "server.log"
    with running(request.param, python, log, most=2) as found:
        yield found


@pytest.fixture
def model(server: Server) -> Iterator[Any]:
    found: Any = open_model("openai", {"model": MODEL, "base_url": server.url, **TOKENS}, ModelSettings())
    yield found
    found.close()


def test_it_scores_as_in_process(server: Server, model: Any, expected: list[Any]) -> None:
    assert model.fingerprint.settings["likelihood"] == server.name
    found = answers(model, REQUESTS)
    # Float32 on both sides: sums in another order.
    near = {VLLM: 2e-3, LLAMACPP: 2e-2}[server.name]
    for own, theirs in zip(expected, found, strict=False):
        assert isinstance(theirs, Logprob)
        assert theirs.total == pytest.approx(own.total, abs=near)
        assert (theirs.token_count, theirs.prompt_tokens) == (own.token_count, own.prompt_tokens)
        assert theirs.is_greedy == own.is_greedy


def test_it_writes_as_in_process(model: Any, expected: list[Any]) -> None:
    (found,) = answers(model, [WRITTEN])
    assert isinstance(found, Text)
    assert (found.text, found.prompt_tokens) == (expected[-1].text, expected[-1].prompt_tokens)


def test_the_probe_has_nothing_against_it(server: Server, model: Any) -> None:
    assert model.fingerprint
    assert model.description()["likelihood"] == {"dialect": server.name, "against": []}
