"""8-bit linear layers on tiny real networks: what changes, what does not, and which backend is used."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import MissingExtra, ModelError
from assay.core.requests import Loglikelihood
from assay.core.responses import Logprob
from assay.core.specs import ModelSettings
from assay.core.training import FitSettings
from assay.models.hf.families import open_hf
from assay.models.loading.quantization import is_plain, quantize

KINDS = ("int8_dynamic", "int8_weights")
ASKED = [
    Loglikelihood(f"Once upon a time {question}", f" {choice}")
    for question in ("there was", "a little girl", "the sky was")
    for choice in ("a fox", "blue", "four and four")
]


def opened(folder: Path, **args: Any) -> Any:
    return open_hf({"pretrained": str(folder), **args}, ModelSettings("auto", "cpu"))


def totals(folder: Path, **args: Any) -> list[float]:
    model = opened(folder, **args)
    found = dict(model.respond(ASKED))
    model.close()
    assert all(isinstance(answer, Logprob) for answer in found.values())
    return [found[place].total for place in range(len(ASKED))]


def loaded(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_every_linear_layer_but_the_output_head_is_in_8_bits(llama: Path, kind: str) -> None:
    import torch

    own, changed = loaded(llama), loaded(llama)
    quantize(changed, kind)
    layers = {name: layer for name, layer in own.named_modules() if isinstance(layer, torch.nn.Linear)}
    assert len(layers) == 2 * 7 + 1
    for name, layer in changed.named_modules():
        if name == "lm_head" or name.endswith("embed_tokens"):
            assert torch.equal(layer.weight, own.get_submodule(name).weight)
        elif name in layers:
            rounded = layer(torch.eye(layer.in_features))
            weight = layers[name].weight.detach().T
            step = weight.abs().max(dim=0).values / 127
            # Half a step of each output's weights; what goes in, a single 1, is rounded by at most half a percent.
            assert ((rounded - weight).abs() <= 0.51 * step + 0.005 * weight.abs()).all()
            assert not torch.equal(rounded, weight)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_quantised_network_run_text_by_text(llama: Path, kind: str) -> None:
    import torch

    model = opened(llama)
    network = loaded(llama)
    quantize(network, kind)
    expected = []
    for request in ASKED:
        view = model.view(request)
        # The last token is not read: in 8 bits a row more or less moves the last bit of all others, and so the answer.
        ids = torch.tensor([[*view.context_ids, *view.continuation_ids[:-1]]])
        with torch.inference_mode():
            scores = network(ids).logits[0].double().log_softmax(-1)
        start = len(view.context_ids)
        expected.append(
            sum(float(scores[start + place - 1, token]) for place, token in enumerate(view.continuation_ids))
        )
    assert totals(llama, quantize=kind) == pytest.approx(expected, abs=0.3 if kind == "int8_dynamic" else 1e-3)
    one_by_one = totals(llama, quantize=kind, batch_size="1", engine="padded")
    assert one_by_one == pytest.approx(expected, abs=1e-3)
    plain = totals(llama)
    assert max(abs(left - right) for left, right in zip(one_by_one, plain, strict=True)) > 0.003


def test_where_inputs_are_rounded_padded_batches_are_taken(llama: Path) -> None:
    dynamic, weights = (opened(llama, quantize=kind) for kind in KINDS)
    for model in (dynamic, weights):
        list(model.respond(ASKED))
    assert dynamic.description()["engine"] == "padded"
    assert dynamic.description()["why"] == "int8_dynamic gives other answers in packed sequences"
    assert dynamic.description()["probe_difference"] is not None
    assert weights.description()["engine"] == "tree"
    assert weights.description()["probe_difference"] < 1e-4


def test_answers_that_depend_on_the_batch_are_reported(llama: Path, t5: Path) -> None:
    def noticed(folder: Path, **args: Any) -> tuple[str, ...]:
        model = opened(folder, **args)
        list(model.respond(ASKED))
        return tuple(model.notices())

    for engine in ("auto", "padded"):
        (notice,) = noticed(llama, quantize="int8_dynamic", engine=engine)
        assert "depend on the batch, by up to" in notice and "batch_size=1" in notice
    assert any("depend on the batch;" in notice for notice in noticed(t5, quantize="int8_dynamic"))
    assert noticed(llama, quantize="int8_dynamic", batch_size="1") == noticed(llama, quantize="int8_weights") == ()


def test_a_quantised_model_is_another_model(llama: Path) -> None:
    prints = [opened(llama, **({"quantize": kind} if kind else {})).fingerprint for kind in (None, *KINDS)]
    assert len({found.digest for found in prints}) == 3
    assert "quantize" not in prints[0].settings
    assert prints[1].settings["quantize"][0] == "int8_dynamic"
    assert len({found.weights for found in prints}) == 1


def test_an_encoder_decoder_and_an_encoder_are_quantised_too(t5: Path, encoders: Callable[..., Path]) -> None:
    for folder in (t5, encoders("Bert", "ForMaskedLM")):
        plain, rounded = totals(folder), totals(folder, quantize="int8_dynamic")
        assert plain != rounded
        assert rounded == pytest.approx(plain, rel=0.2)


def test_a_model_without_linear_layers_is_refused(plain: Path) -> None:
    with pytest.raises(ModelError, match="no linear layers in a GPT2LMHeadModel"):
        list(opened(plain, quantize="int8_weights").respond(ASKED))


def test_a_model_whose_experts_are_no_linear_layers_is_refused() -> None:
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"vocab_size": 320, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    mixture = MixtralForCausalLM(MixtralConfig(**sizes, num_attention_heads=4, num_key_value_heads=2))
    with pytest.raises(ModelError, match=r"8% of the weights in linear layers in a MixtralForCausalLM"):
        quantize(mixture, "int8_weights")


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForSequenceClassification", "ForQuestionAnswering"])
def test_the_head_of_an_encoder_stays_as_it_is(encoders: Callable[..., Path], head: str) -> None:
    import transformers

    module = getattr(transformers, f"Bert{head}").from_pretrained(encoders("Bert", head)).eval()
    quantize(module, "int8_weights")
    plain = {name for name, layer in module.named_modules() if hasattr(layer, "weight") and is_plain(layer.weight)}
    layers = {name for name, layer in module.named_modules() if "Linear" in type(layer).__name__}
    assert layers & plain == {name for name in layers if not name.startswith("bert.")}


def test_what_torchao_cannot_do_is_reported_as_an_error(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr("torchao.quantization.quantize_", refuse)
    with pytest.raises(ModelError, match=r"model_args.quantize: int8_weights is not available: NotImplementedError"):
        list(opened(llama, quantize="int8_weights").respond(ASKED))


def test_an_unknown_kind_is_refused_with_the_known_ones(llama: Path) -> None:
    with pytest.raises(ModelError, match="expected one of: int8_dynamic, int8_weights"):
        opened(llama, quantize="int4")


def test_a_quantised_model_is_not_trained(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Train without quantize"):
        opened(llama, quantize="int8_weights").fit([], [], FitSettings(), tmp_path, lambda _: None)


def test_without_torchao_the_error_says_what_to_install(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = opened(llama, quantize="int8_weights")
    assert model.checkpoint
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(MissingExtra, match=r"pip install 'assay-eval\[quantize\]'"):
        assert model.fingerprint


@pytest.mark.parametrize("call", ["respond", "workload"])
def test_nothing_is_logged_while_packages_are_imported(llama: Path, call: str) -> None:
    code = (
        "import sys; from assay.core.specs import ModelSettings; from assay.models.hf.families import open_hf\n"
        "from assay.core.requests import Loglikelihood\n"
        "model = open_hf({'pretrained': sys.argv[1], 'quantize': 'int8_dynamic'}, ModelSettings('auto', 'cpu'))\n"
        f"found = model.{call}([Loglikelihood('Once upon', ' a time')])\n"
        "found if hasattr(found, 'seconds') else list(found)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(llama)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
