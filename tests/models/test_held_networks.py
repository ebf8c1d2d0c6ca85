"""A network of transformers in the place of a model: an error whose advice works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.core.errors import ArgumentError
from assay.testing import toy_choice_task


@pytest.fixture
def held(plain: Path) -> dict[str, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return {
        "model": AutoModelForCausalLM.from_pretrained(plain),
        "tokenizer": AutoTokenizer.from_pretrained(plain),
    }


@pytest.mark.parametrize("name", ["model", "tokenizer"])
def test_a_network_is_saved_first(held: dict[str, Any], name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="model is a ") as caught:
        evaluate(held[name], toy_choice_task(2), store=":memory:")
    folder = str(tmp_path / "saved")
    for call in ('model.save_pretrained("DIR")', 'tokenizer.save_pretrained("DIR")'):
        assert call in str(caught.value)
        exec(call.replace("DIR", folder), held)
    assert 'give "hf" as the model, and model_args={"pretrained": "DIR"}' in str(caught.value)
    assert evaluate("hf", toy_choice_task(2), store=":memory:", model_args={"pretrained": folder}).counts.failed == 0
