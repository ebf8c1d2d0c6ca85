"""What result files say of a model: counted and read without weights, and the same when they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.core.requests import Loglikelihood, Message
from assay.core.specs import ModelSettings
from assay.models.hf.families import open_hf
from assay.models.tokens.special_tokens import special_tokens

SETTINGS = ModelSettings(device="cpu")


@pytest.mark.parametrize("name", ["llama", "plain", "t5", "bart"])
def test_parameters_in_the_files_are_those_of_the_loaded_model(name: str, request: pytest.FixtureRequest) -> None:
    model = open_hf({"pretrained": str(request.getfixturevalue(name))}, SETTINGS)
    before = model.facts()  # type: ignore[attr-defined]
    list(model.respond([Loglikelihood("a", " b")]))
    after = model.facts()  # type: ignore[attr-defined]
    assert before == after
    assert before.parameters > 10_000


def test_facts_outlive_the_weights(llama: Path) -> None:
    model = open_hf({"pretrained": str(llama), "dtype": "bfloat16", "revision": "step3"}, SETTINGS)
    list(model.respond([Loglikelihood("a", " b")]))
    model.close()
    facts = model.facts()  # type: ignore[attr-defined]
    assert (facts.dtype, facts.revision, facts.commit, facts.max_length) == ("torch.bfloat16", "step3", "", 48)
    assert (facts.bos, facts.eos, facts.pad) == (("<s>", 0), ("</s>", 1), ("</s>", 1))


class Named:
    """A tokenizer with an unknown token and EOS."""

    pad_token = bos_token = pad_token_id = bos_token_id = None
    unk_token, unk_token_id, eos_token, eos_token_id = "<unk>", 0, "</s>", 2


def test_special_tokens_are_cached_and_a_corrupt_cache_is_not_an_error(tmp_path: Path) -> None:
    def unwanted() -> Any:
        raise AssertionError("the tokenizer is loaded again")

    expected = (("<unk>", 0), ("</s>", 2), (None, None))
    assert special_tokens("key", Named, tmp_path) == expected  # type: ignore[arg-type]
    assert special_tokens("key", unwanted, tmp_path) == expected
    (tmp_path / "special_tokens.json").write_text('{"key": [["<s>", "x"], 3]}')
    assert special_tokens("key", Named, tmp_path) == expected  # type: ignore[arg-type]


def test_a_model_renders_a_conversation_as_it_reads_it(llama: Path) -> None:
    model = open_hf({"pretrained": str(llama)}, SETTINGS)
    messages = (Message("user", "Which?"),)
    text = model.render(messages)  # type: ignore[attr-defined]
    assert text == model.view(Loglikelihood(messages, " b")).prompt_text  # type: ignore[attr-defined]
    assert text == "<s><user>Which?\n<assistant>"


def test_a_model_without_a_template_renders_no_conversation(plain: Path) -> None:
    model = open_hf({"pretrained": str(plain)}, SETTINGS)
    assert model.render((Message("user", "Which?"),)) is None  # type: ignore[attr-defined]
