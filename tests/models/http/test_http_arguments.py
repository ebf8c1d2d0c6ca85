"""Model arguments with lm-eval's names: addresses are understood, keys are refused, nothing is ignored."""

from __future__ import annotations

import pytest

from assay.core.errors import ModelError
from assay.models.http.http_arguments import read_http_arguments

LM_EVAL = {
    "tokenizer_backend": "huggingface",
    "tokenized_requests": True,
    "num_concurrent": 8,
    "max_retries": 3,
    "batch_size": 1,
    "timeout": 300,
    "max_length": 2048,
    "max_gen_toks": 256,
    "seed": 1234,
    "add_bos_token": False,
    "custom_prefix_token_id": None,
    "eos_string": None,
    "header": None,
    "verify_certificate": True,
    "ca_cert_path": None,
    "truncate": False,
    "max_images": 1,
}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/completions", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("https://host/openai/api", "https://host/openai/api"),
    ],
)
def test_addresses(given: str, read: str) -> None:
    assert read_http_arguments({"model": "m", "base_url": given}).base_url == read


@pytest.mark.parametrize("given", ["127.0.0.1:8000", "ftp://host/v1", "http://user:pass@host/v1", "http://h/v1?key=1"])
def test_other_addresses_are_refused_without_repeating_them(given: str) -> None:
    with pytest.raises(ModelError, match=r"model_args\.base_url: not usable; expected an address") as caught:
        read_http_arguments({"model": "m", "base_url": given})
    assert "pass" not in str(caught.value)


def test_the_arguments_of_lm_eval_are_taken() -> None:
    found = read_http_arguments({"model": "m", "base_url": "http://h/v1", **LM_EVAL})
    assert (found.num_concurrent, found.max_retries, found.seed, found.add_bos_token) == (8, 3, 1234, False)
    assert read_http_arguments({"model": "m", "base_url": "http://h", "custom_prefix_token_id": 2}).prefix_token_id == 2


@pytest.mark.parametrize("name", ["batch_size", "truncate", "eos_string", "header", "max_images"])
def test_what_has_no_effect_here_is_said(name: str) -> None:
    with pytest.raises(ModelError, match=f"{name}: has no effect here. Leave it out"):
        read_http_arguments({"model": "m", "base_url": "http://h", name: "7"})


@pytest.mark.parametrize("name", ["api_key", "auth_token"])
def test_keys_are_not_taken_from_the_command_line(name: str) -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        read_http_arguments({"model": "m", "base_url": "http://h", name: "canary-123"})
    assert "canary" not in str(caught.value)


def test_all_faults_are_listed_at_once() -> None:
    with pytest.raises(ModelError) as caught:
        read_http_arguments({"timeout": 0, "num_concurrent": 0, "dialect": "vlm", "modle": "m"})
    assert len(caught.value.faults) == 6
    assert 'did you mean "vllm"' in str(caught.value) and 'did you mean "model"' in str(caught.value)
