"""Which settings are sampled here, and which are left to transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from assay.core.requests import Generation, Sampling
from assay.models.engine.token_sampling import TokenSampler, make_sampler
from assay.models.tokens.tokenization import EncodedPrompt

CPU = torch.device("cpu")


def sampler(settings: dict[str, Any] | None = None, temperature: float = 0.0, **options: Any) -> TokenSampler | None:
    request = Generation("", sampling=Sampling(temperature, 3, tuple(sorted(options.items()))))
    return make_sampler(EncodedPrompt(0, (1, 2), request, 4), GenerationConfig(**(settings or {})), CPU)


def test_greedy_is_plain() -> None:
    found = sampler()
    assert found is not None and found.is_plain and found.sample([1], torch.tensor([0.0, 2.0, 1.0])) == 1


@pytest.mark.parametrize("settings", [{"top_k": 20, "top_p": 0.8, "temperature": 0.7}, {"max_length": 30}])
def test_settings_for_sampling_do_not_matter_to_greedy(settings: dict[str, Any]) -> None:
    found = sampler(settings)
    assert found is not None and found.is_plain


def test_the_models_own_settings_hold_for_sampling() -> None:
    logits = torch.tensor([3.0, 2.9, 2.8, 2.7])
    drawn = {sampler({"top_k": 2}, 1.0).sample([1], logits) for _ in range(1)}  # type: ignore[union-attr]
    one = sampler({"top_k": 2}, 1.0)
    assert one is not None and not one.is_plain
    drawn |= {one.sample([1], logits) for _ in range(50)}
    assert drawn == {0, 1}


def test_a_request_overrides_the_model() -> None:
    one = sampler({"top_k": 1}, 1.0, top_k=0)
    assert one is not None
    assert {one.sample([1], torch.zeros(4)) for _ in range(60)} == {0, 1, 2, 3}


def test_equal_requests_draw_equally() -> None:
    streams = [sampler(None, 1.0), sampler(None, 1.0)]
    drawn = [[one.sample([1], torch.zeros(50)) for _ in range(20)] for one in streams if one is not None]
    assert drawn[0] == drawn[1] and len(set(drawn[0])) > 5


@pytest.mark.parametrize(
    "options", [{"num_beams": 4}, {"max_length": 9}, {"penalty_alpha": 0.6}, {"bad_words_ids": [[3]]}]
)
def test_what_only_transformers_knows_is_left_to_it(options: dict[str, Any]) -> None:
    assert sampler(None, 0.0, **options) is None


@pytest.mark.parametrize("settings", [{"num_beams": 2}, {"suppress_tokens": [4]}, {"forced_bos_token_id": 1}])
def test_settings_of_the_model_that_are_not_known_leave_it_to_transformers(settings: dict[str, Any]) -> None:
    assert sampler(settings) is None


def test_one_beam_is_greedy() -> None:
    found = sampler({"num_beams": 1}, 0.0, num_beams=1)
    assert found is not None and found.is_plain
