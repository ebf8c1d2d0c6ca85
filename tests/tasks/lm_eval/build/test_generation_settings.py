"""Generation settings: lm-eval's names and defaults in, a request's words out."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import TaskFileError
from assay.core.requests import Sampling
from assay.tasks.lm_eval.build.generation_settings import GenerationSettings, effective_settings, generation_settings


def settings(own: dict[str, Any] | None, **overrides: Any) -> GenerationSettings:
    return generation_settings(effective_settings(own, overrides, "\n\n"), 7, "my.yaml:5  generation_kwargs")


def test_no_settings_mean_greedy_until_a_blank_line() -> None:
    assert settings(None) == GenerationSettings(("\n\n",), 256, Sampling(0.0, None))


def test_settings_without_stop_get_the_delimiter_and_nothing_else() -> None:
    assert settings({"temperature": 0}) == GenerationSettings(("\n\n",), None, Sampling(0.0, None))


def test_golden_temperature_turns_sampling_on() -> None:
    # Vector k: lm-eval fills in 256 tokens at the model; None leaves that to ours.
    assert settings({"until": "x", "temperature": 0.7}) == GenerationSettings(("x",), None, Sampling(0.7, 7))


def test_golden_without_sampling_the_temperature_is_zero() -> None:
    own = {"do_sample": False, "temperature": 0.7, "max_new_tokens": 9, "max_tokens": 5, "until": ["x"]}
    assert settings(own) == GenerationSettings(("x",), 9, Sampling(0.0, None))


def test_sampling_without_temperature_has_temperature_one() -> None:
    assert settings({"do_sample": True}).sampling == Sampling(1.0, 7)


def test_the_runs_settings_win() -> None:
    found = settings({"until": ["a"], "max_gen_toks": 10}, until=["b"], max_gen_toks=20, temperature="0.5")
    assert found == GenerationSettings(("b",), 20, Sampling(0.5, 7))


def test_length_names_have_an_order() -> None:
    lengths = {"max_completion_tokens": 4, "max_tokens": 3, "max_new_tokens": 2, "max_gen_toks": 1}
    for name in ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens"):
        assert settings(dict(lengths)).max_tokens == lengths.pop(name)


def test_other_settings_go_to_the_model_in_a_fixed_order() -> None:
    assert settings({"top_p": 0.9, "bad": [1, [2]], "num_beams": 2}).sampling.options == (
        ("bad", (1, (2,))),
        ("num_beams", 2),
        ("top_p", 0.9),
    )


def test_stops_are_texts_and_not_empty() -> None:
    assert settings({"until": ["", "a", 7]}).stop == ("a", "7")
    assert settings({"until": None}).stop == settings({"until": []}).stop == ()


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"temperature": "hot"}, "temperature: is 'hot'; expected a number"),
        ({"max_gen_toks": "many"}, "max_gen_toks: is 'many'; expected a number"),
        ({"max_gen_toks": 0}, "max_gen_toks: is 0; expected a whole number, 1 or more"),
        ({"do_sample": True, "temperature": 0.0}, "do_sample is true and temperature is 0"),
        ({"until": 5}, "until: is 5; expected text or a list of texts"),
    ],
)
def test_wrong_settings_are_reported(own: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        settings(own)
    assert message in str(caught.value)
    assert str(caught.value).startswith("my.yaml:5  generation_kwargs")
