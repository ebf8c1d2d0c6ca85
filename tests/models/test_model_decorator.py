"""Models that a decorator makes of a function or a class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import ArgumentError, ModelError
from assay.core.specs import ModelSettings
from assay.models.model_registry import MODELS, model_names, model_rows, open_model
from assay.testing import check_model, toy_choice_task, toy_generation_task


@pytest.fixture(autouse=True)
def forgets() -> Iterator[None]:
    """Names that a test adds are forgotten after it."""
    yield
    for name in MODELS.own_names():
        MODELS.remove(name)


def add_fixed(version: int = 1) -> Any:
    @assay.model("fixed", version=version)
    def fixed(request: assay.Generation, *, text: str = "7") -> str:
        """Always writes the same."""
        return text

    return fixed


def opened(name: str, **args: Any) -> assay.Model:
    return open_model(name, args, ModelSettings())


def test_a_function_is_a_model_by_name(tmp_path: Path) -> None:
    add_fixed()
    result = assay.evaluate("fixed", toy_generation_task(4), store=tmp_path / "s.db")
    assert result.tasks[0].metric("exact_match").estimate.value == 0.25
    other = assay.evaluate("fixed", toy_generation_task(4), model_args={"text": "8"}, store=tmp_path / "s.db")
    assert (other.counts.known, other.tasks[0].metric("exact_match").estimate.value) == (0, 0.25)


def test_the_contract_holds() -> None:
    add_fixed()
    check_model(opened("fixed"))


def test_texts_are_cut_at_stop_strings() -> None:
    add_fixed()
    request = assay.Generation("x", stop=("b",), max_tokens=9)
    ((_, answer),) = opened("fixed", text="abc").respond([request])
    assert answer == assay.Text("a", "stop")


def test_version_settings_and_code_make_another_model() -> None:
    add_fixed()
    first = opened("fixed").fingerprint.digest
    assert opened("fixed", text="8").fingerprint.digest != first
    add_fixed(version=2)
    assert opened("fixed").fingerprint.digest != first


def test_the_annotation_says_which_requests_are_answered() -> None:
    @assay.model("judge")
    def judge(request: assay.Loglikelihood | assay.RollingLoglikelihood) -> assay.Logprob:
        return assay.Logprob(-1.0, 1, False)

    assert opened("judge").capabilities.kinds == {"loglikelihood", "rolling_loglikelihood"}
    assert assay.evaluate("judge", toy_choice_task(3), store=":memory:").is_whole
    with pytest.raises(ArgumentError, match="kinds is painting; expected some of loglikelihood"):
        assay.model("mine", kinds="painting")(lambda request: "")


def test_an_exception_fails_its_request_alone() -> None:
    @assay.model("picky")
    def picky(request: assay.Generation) -> str:
        if str(request.prompt).startswith("1 "):
            raise ValueError("not this one")
        return "7"

    result = assay.evaluate("picky", toy_generation_task(3), store=":memory:")
    assert (result.counts.failed, result.tasks[0].denominators.scored) == (1, 2)
    assert "raised ValueError: not this one" in result.failures["exception"][1]


def test_a_class_is_opened_with_its_settings() -> None:
    @assay.model("state")
    class State:
        capabilities = assay.Capabilities(frozenset({"generation"}))

        def __init__(self, *, text: str = "7") -> None:
            self.fingerprint, self.text = assay.Fingerprint("state", settings={"text": text}), text

        def respond(self, requests: Any) -> Any:
            return [(index, assay.Text(self.text)) for index, _ in enumerate(requests)]

        def close(self) -> None:
            pass

    assert opened("state", text="8").fingerprint.settings == {"text": "8"}
    with pytest.raises(assay.UserError, match="text is 8, an int; expected a string"):
        opened("state", text=8)


def test_a_class_that_is_not_a_model_is_reported() -> None:
    assay.model("bare")(type("Bare", (), {}))
    with pytest.raises(ModelError, match="gives a Bare, which is not a model; expected fingerprint"):
        opened("bare")


@pytest.mark.parametrize("name", ["hf", "huggingface", "smollm2"])
def test_names_of_built_in_models_are_taken(name: str) -> None:
    with pytest.raises(ArgumentError, match=f'the name "{name}" is taken by a built-in; expected a new name'):
        assay.model(name)(lambda request: "")


def test_lists_show_the_model() -> None:
    add_fixed()
    assert "fixed" in model_names()
    assert ("fixed", "plugin", "Always writes the same.") in model_rows()
