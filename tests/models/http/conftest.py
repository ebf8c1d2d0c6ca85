"""Opens models of a fault server, without waits that tests need not have, and closes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.specs import ModelSettings
from assay.models.model_registry import open_model
from tests.models.http.fault_server import MODEL, FaultServer

Open = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("OPENAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.delenv(f"{provider}_API_KEY", raising=False)


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens a model of a server by `--model` name and arguments."""
    models = []

    def open_at(server: FaultServer, name: str = "openai", **arguments: Any) -> Any:
        given = {"model": MODEL, "base_url": server.url, "backoff": 0.002, **arguments}
        models.append(open_model(name, given, ModelSettings()))
        return models[-1]

    yield open_at
    for model in models:
        model.close()


@pytest.fixture(scope="session")
def bytes_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenizer of the scripted model, as a folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    order = [pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(chr(code))[0][0] for code in range(128)]
    known = {"<s>": 0, "</s>": 1, **{letter: 2 + code for code, letter in enumerate(order)}}
    rest = [letter for letter in letters if letter not in known]
    known.update({letter: 130 + number for number, letter in enumerate(rest)})
    backend = Tokenizer(models.BPE(vocab=known, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>"])
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    folder = tmp_path_factory.mktemp("bytes")
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": {"content": "</s>"}}')
    return folder
