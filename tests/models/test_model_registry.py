"""Names of models, and what happens when one is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assay.core.errors import ModelError, UnknownName
from assay.core.specs import ModelSettings
from assay.models.model_registry import ALIASES, DESCRIPTIONS, MODELS, model_names, model_rows, must_fetch, open_model

SETTINGS = ModelSettings()


def test_built_in_models_open_by_name() -> None:
    assert open_model("dummy", {"seed": 3}, SETTINGS).fingerprint.settings["seed"] == 3
    assert open_model("ngram", {"order": "2"}, SETTINGS).fingerprint.settings["order"] == 2


def test_an_unknown_name_suggests_built_in_and_named_models() -> None:
    with pytest.raises(UnknownName, match='unknown model "smolm2".*did you mean "smollm2"'):
        open_model("smolm2", {}, SETTINGS)
    with pytest.raises(UnknownName, match='did you mean "dummy"'):
        open_model("dumy", {}, SETTINGS)


@pytest.mark.parametrize("name", ["dummy", "ngram"])
def test_unknown_arguments_are_all_named_with_what_is_known(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        open_model(name, {"sede": 1, "colour": "red"}, SETTINGS)
    assert len(caught.value.faults) == 2
    assert f'{name} has no "colour"' in str(caught.value)


@pytest.mark.parametrize("value", ["three", True, 2.5, None, ""])
def test_a_seed_that_is_not_a_whole_number_is_refused(value: object) -> None:
    with pytest.raises(ModelError, match="expected a whole number"):
        open_model("dummy", {"seed": value}, SETTINGS)


def test_lists_show_every_model_with_a_description() -> None:
    rows = model_rows()
    assert {"hf", "dummy", "ngram", "smollm2", "minilm"} <= {name for name, _, _ in rows}
    assert {name for name, _, _ in rows} == set(model_names())
    assert all(kind in ("built-in", "named", "plugin") and description for _, kind, description in rows)
    assert set(DESCRIPTIONS) == set(MODELS.table)


def test_the_names_of_lm_eval_lead_to_models() -> None:
    assert set(ALIASES.values()) == {"hf", "openai", "openai-chat", "anthropic", "sglang", "llamacpp"}
    assert not set(ALIASES) & set(model_names())


def test_listing_models_imports_nothing_heavy() -> None:
    script = "import sys; from assay.models.model_registry import model_rows; model_rows(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "transformers", "numpy", "gguf", "aiohttp"} & set(loaded)


def test_only_an_absent_causal_model_of_the_table_must_be_fetched() -> None:
    # The cache folder of these tests is empty; an encoder is refused before it is fetched.
    assert [name for name in model_names() if must_fetch(name)] == ["minilm", "smollm2"]
