"""Model arguments: lm-eval's names, all faults at once."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.models.loading.hf_arguments import READERS, CausalArguments, read_causal_arguments


def test_text_from_a_command_line_is_typed() -> None:
    args = read_causal_arguments(
        {
            "pretrained": "m",
            "max_length": "64",
            "add_bos_token": "True",
            "dtype": "torch.bfloat16",
            "batch_size": 4,
        }
    )
    assert (args.max_length, args.add_bos_token, args.dtype, args.batch_size) == (64, True, "bfloat16", "4")


def test_defaults_are_lm_evals() -> None:
    args = read_causal_arguments({"pretrained": "m", "revision": None})
    assert args == CausalArguments("m")
    assert (args.dtype, args.max_gen_toks, args.trust_remote_code, args.arithmetic) == (
        "auto",
        256,
        False,
        "exact",
    )


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(ModelError) as caught:
        read_causal_arguments({"pretraind": "m", "max_length": 0, "dtype": "float31"})
    text = str(caught.value)
    assert 'did you mean "pretrained"' in text and "at least 1" in text and "float32" in text
    assert 'no "pretrained"' in text and len(caught.value.faults) == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("add_bos_token", "maybe"),
        ("max_length", 2.5),
        ("max_gen_toks", True),
        ("prefix_token_id", -1),
        ("arithmetic", "sloppy"),
        ("chat_template_args", "no json"),
        ("tokenizer", ""),
        ("labels", "good"),
        ("labels", "good|Good"),
        ("labels", "good||bad"),
        ("labels", 3),
        ("pll", "other"),
        ("max_span", 0),
    ],
)
def test_wrong_values_name_their_argument(name: str, value: Any) -> None:
    with pytest.raises(ModelError, match=f"model_args.{name}: found"):
        read_causal_arguments({"pretrained": "m", name: value})


def test_template_options_gather_thinking() -> None:
    args = read_causal_arguments({"pretrained": "m", "enable_thinking": False, "chat_template_args": '{"tone": "dry"}'})
    assert args.template_options == {"enable_thinking": False, "tone": "dry"}


def test_every_argument_has_a_reader() -> None:
    assert list(READERS) == list(CausalArguments.__dataclass_fields__)


@pytest.mark.parametrize(
    ("args", "family"),
    [
        ({"family": "decoder"}, "decoder"),
        ({"backend": "seq2seq"}, "encoder-decoder"),
        ({"backend": "causal"}, "decoder"),
        ({"backend": "default"}, None),
    ],
)
def test_family_may_be_named_in_lm_evals_words(args: dict[str, str], family: str | None) -> None:
    assert read_causal_arguments({"pretrained": "m", **args}).family == family


def test_a_family_named_twice_or_unknown_is_a_fault() -> None:
    with pytest.raises(ModelError, match="family is also given"):
        read_causal_arguments({"pretrained": "m", "family": "decoder", "backend": "seq2seq"})
    with pytest.raises(ModelError, match=r"model_args.backend: found 'seq3seq'.*causal"):
        read_causal_arguments({"pretrained": "m", "backend": "seq3seq"})
    with pytest.raises(ModelError, match=r"model_args.family: found 'encodr'.*decoder, encoder-decoder, encoder"):
        read_causal_arguments({"pretrained": "m", "family": "encodr"})
