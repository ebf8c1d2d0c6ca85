"""Faster layers: the same numbers, only where they are the same, and back again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel

from assay.models.engine.c_kernels import CKernels
from assay.models.engine.cpu_layers import pack_for_decoding, pack_for_scoring, patch_layers, rotation
from assay.models.loading.network import Network

ROOM = 1 << 40
SIZES: dict[str, Any] = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}


def states(module: Any, rows: int = 40) -> torch.Tensor:
    ids = torch.arange(rows)[None] % 64
    with torch.inference_mode():
        return module(input_ids=ids).logits  # type: ignore[no-any-return]


def test_tuned_layers_give_the_same_and_are_given_back(network: Network) -> None:
    patch_layers(network.module).undo()  # rotary positions stay faster in the process
    before = states(network.module)
    patches = patch_layers(network.module)
    for_steps, for_reading = pack_for_decoding(network.module, ROOM), pack_for_scoring(network.module, 64, ROOM)
    counts = {**patches.counts, **for_steps.counts, **for_reading.counts}
    assert counts == {"step": 14, "reading": 14, "gated": 2, "norm": 5}
    after = states(network.module)
    assert (before - after).abs().max() < 1e-4
    for one in (patches, for_steps, for_reading):
        one.undo()
    assert torch.equal(states(network.module), before)
    assert not any("forward" in vars(layer) for layer in network.module.modules())


def test_a_norm_of_another_formula_keeps_its_own() -> None:
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    patches = patch_layers(Gemma2ForCausalLM(Gemma2Config(**SIZES, **heads)).eval())  # multiplies by 1 + weight
    assert "norm" not in patches.counts and patches.counts["gated"] == 2


def test_layers_of_another_format_are_not_read_by_the_c_kernels(c_kernels: CKernels, network: Network) -> None:
    """A float32 model may keep a layer in another format; the C kernels would read it as float32."""
    network.module.model.norm.to(torch.bfloat16)
    before = states(network.module)
    patch_layers(network.module, c_kernels)
    assert (before - states(network.module)).abs().max() < 1e-4


def test_other_designs_are_left_alone() -> None:
    patches = patch_layers(GPT2LMHeadModel(GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4)).eval())
    assert patches.counts == {}


def test_narrow_formats_are_left_alone(network: Network) -> None:
    narrow = network.module.to(torch.bfloat16)
    assert (
        patch_layers(narrow).counts == {}
        and pack_for_decoding(narrow, ROOM).counts == {}
        and pack_for_scoring(narrow, 64, ROOM).counts == {}
    )


def test_training_is_not_touched(network: Network) -> None:
    patch_layers(network.module)
    loss = network.module(input_ids=torch.arange(20)[None]).logits.square().mean()
    loss.backward()
    assert all(parameter.grad is not None for parameter in network.module.parameters())


class OneLayer(torch.nn.Module):
    """A linear layer as far as packing looks at models."""

    dtype, device = torch.float32, torch.device("cpu")

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(24, 40, bias=bias)

    def get_output_embeddings(self) -> None:
        return None


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 6, 128, 129, 256])
def test_packed_products_are_the_same(bias: bool, rows: int) -> None:
    module = OneLayer(bias)
    given = torch.randn(1, rows, 24, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        own = module.layer(given)
        assert pack_for_decoding(module, ROOM).counts == {"step": 1} and pack_for_scoring(module, 256, ROOM).counts == {
            "reading": 1
        }
        assert (module.layer(given) - own).abs().max() < 1e-5


def test_weights_are_packed_only_where_they_fit(network: Network) -> None:
    assert (
        pack_for_decoding(network.module, 1000).counts == {} and pack_for_scoring(network.module, 64, 1000).counts == {}
    )


def test_a_product_that_rounds_another_way_is_not_used() -> None:
    def packed(layer: Any, rows: int) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda given: layer(given) * 1.01

    assert pack_for_scoring(OneLayer(False), 64, ROOM, packed).counts == {}


def test_rotation_is_the_same_and_leaves_the_rest_to_the_model() -> None:
    from transformers.models.llama import modeling_llama

    found: Any = modeling_llama.apply_rotary_pos_emb  # type: ignore[attr-defined]
    own = getattr(found, "_assay_faster", found)
    query, key = torch.randn(1, 4, 9, 16), torch.randn(1, 2, 9, 16)
    cos, sin = torch.randn(1, 9, 16), torch.randn(1, 9, 16)
    for options in ({}, {"unsqueeze_dim": 1}):
        with torch.inference_mode():
            pairs = zip(
                rotation(own)(query, key, cos, sin, **options), own(query, key, cos, sin, **options), strict=True
            )
            assert all((left - right).abs().max() < 1e-5 for left, right in pairs)
