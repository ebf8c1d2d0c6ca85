"""A folder's tokenizer.json gives the ids that transformers gives, without transformers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.requests import Generation, Loglikelihood
from assay.models.http.servers.local_tokenizer import LocalTokenizer
from assay.testing.contracts import answers
from tests.models.http.fault_server import FaultServer, ids_of, total

Open = Callable[..., Any]


def test_the_ids_are_those_of_the_file(bytes_folder: Path) -> None:
    tokenizer = LocalTokenizer(bytes_folder)
    assert tokenizer(["Hi"])["input_ids"] == [ids_of("Hi", True)]
    assert tokenizer(["Hi", ""], add_special_tokens=False)["input_ids"] == [ids_of("Hi", False), []]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (0, 1, None)
    assert tokenizer.decode([0, *ids_of("Hi", False)]) == "<s>Hi"
    assert tokenizer.identity == LocalTokenizer(bytes_folder).identity


def test_the_ids_are_those_of_transformers(bytes_folder: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    texts = ["The river is wide.", "naïve café 東京", "a\n\n  b <s> c", ""]
    reference = PreTrainedTokenizerFast(tokenizer_file=str(bytes_folder / "tokenizer.json"))
    for special in (True, False):
        found = LocalTokenizer(bytes_folder)(texts, add_special_tokens=special)["input_ids"]
        assert found == reference(texts, add_special_tokens=special)["input_ids"]


@pytest.mark.parametrize("kind", ["openai", "vllm", "llamacpp"])
def test_a_folder_scores_as_the_servers_own_tokenizer(opened: Open, bytes_folder: Path, kind: str) -> None:
    with FaultServer(kind, tokenizes=kind != "openai") as server:
        model = opened(server, tokenizer=str(bytes_folder))
        (found,) = answers(model, [Loglikelihood("The river is", " wide")])
    assert found.total == pytest.approx(total(ids_of("The river is wide", True), 5), abs=1e-9)


def test_a_tokenizer_that_is_not_the_servers_is_refused(opened: Open, bytes_folder: Path, tmp_path: Path) -> None:
    text = (bytes_folder / "tokenizer.json").read_text().replace('"S": 85', '"S": 86').replace('"T": 86', '"T": 85')
    (tmp_path / "tokenizer.json").write_text(text)
    with FaultServer("vllm") as server:
        model = opened(server, tokenizer=str(tmp_path))
        assert "not that of the server" in model.capabilities.refusal


def test_bos_is_as_the_user_wants_it(opened: Open, bytes_folder: Path) -> None:
    with FaultServer(tokenizes=False) as server:
        model = opened(server, tokenizer=str(bytes_folder), add_bos_token=False)
        answers(model, [Generation("Hi", max_tokens=1)])
        assert server.seen[-1]["prompt"] == ids_of("Hi", False)


def test_a_folder_without_a_tokenizer_is_an_error_with_advice(opened: Open, tmp_path: Path) -> None:
    with FaultServer() as server, pytest.raises(ModelError, match=r"tokenizer\.json: no such file"):
        assert opened(server, tokenizer=str(tmp_path)).fingerprint
    (tmp_path / "tokenizer.json").write_text("{}")
    with FaultServer() as server, pytest.raises(ModelError, match="is not a tokenizer"):
        assert opened(server, tokenizer=str(tmp_path)).fingerprint


def test_importing_the_model_loads_neither_aiohttp_nor_torch() -> None:
    script = "import sys; import assay.models.http.http_model; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "aiohttp", "tokenizers", "uvloop"} & set(loaded)
