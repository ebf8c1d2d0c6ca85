"""The choice of an engine: models that would go wrong in packs, each in its own way, are found out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaModel

from assay.core.errors import ModelError
from assay.models.engine.backend_choice import SINGLE, choose_engine, make_probe
from assay.models.engine.probe import read_rows
from assay.models.engine.vocabulary_head import OutputLayer, PrecomputedLogits
from assay.models.loading.arguments import AUTO, PADDED, TREE
from assay.models.loading.network import Network, wrap

CPU = torch.device("cpu")
CONFIG: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.4,
}


def llama(**changes: Any) -> Any:
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        return LlamaForCausalLM(LlamaConfig(**{**CONFIG, **changes})).eval()


def chosen(module: Any, requested: str = AUTO) -> Any:
    return choose_engine(wrap(module, CPU), requested, "exact", 400)


class WithoutPositions(LlamaModel):
    """Takes positions and ignores them."""

    def forward(self, input_ids: Any = None, position_ids: Any = None, **given: Any) -> Any:
        return super().forward(input_ids=input_ids, **given)


class ShiftedPositions(LlamaModel):
    """Has positions off by one from the second branch on."""

    def forward(self, input_ids: Any = None, position_ids: Any = None, **given: Any) -> Any:
        if position_ids is not None:
            position_ids = position_ids + (position_ids.diff(prepend=position_ids[:, :1]) < 0).cumsum(-1)
        return super().forward(input_ids=input_ids, position_ids=position_ids, **given)


class WithoutMask(LlamaAttention):
    """Attends on its own, to everything before it in the row."""

    def forward(self, hidden_states: Any, **given: Any) -> Any:
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        query, key, value = (
            layer(hidden_states).view(shape).transpose(1, 2) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        found = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.o_proj(found.transpose(1, 2).flatten(2)), None


def with_base(base: type[LlamaModel]) -> Any:
    module = llama()
    made = base(module.config).eval()
    made.load_state_dict(module.model.state_dict())
    module.model = made
    return module


def with_own_attention() -> Any:
    module = llama()
    made = WithoutMask(module.config, 0).eval()
    made.load_state_dict(module.model.layers[0].self_attn.state_dict())
    module.model.layers[0].self_attn = made
    return module


def with_token_shift() -> Any:
    """Each row also gets a share of the row before, as in models with a short convolution."""
    module = llama()

    def mix(_: Any, __: Any, states: Any) -> Any:
        return states + 0.5 * torch.nn.functional.pad(states, (0, 0, 1, 0))[:, :-1]

    module.model.layers[0].mlp.register_forward_hook(mix)
    return module


def with_strange_argument() -> Any:
    module = llama()
    module.model.layers[1].self_attn.register_forward_pre_hook(
        lambda _, args, given: (args, {**given, "indices": torch.zeros(1)}), with_kwargs=True
    )
    return module


def rework(module: Any, change: Callable[[Any], Any]) -> None:
    """Has the logits changed after the last layer."""

    def hook(_: Any, __: Any, output: Any) -> None:
        output.logits = change(output.logits)

    module.register_forward_hook(hook)


MISTAKES = {
    "ignores positions": (lambda: with_base(WithoutPositions), "packed sequences differ"),
    "shifts positions": (lambda: with_base(ShiftedPositions), "packed sequences differ"),
    "mixes neighbours": (with_token_shift, "packed sequences differ"),
    "ignores masks": (with_own_attention, "attention was called 1 times for 2 layers"),
    "asks for more": (with_strange_argument, "unsupported arguments: indices"),
}


def test_plain_model_is_read_as_a_tree(network: Network) -> None:
    choice = choose_engine(network, AUTO, "exact", 400)
    assert choice.engine == TREE and choice.max_difference is not None and choice.max_difference < 1e-6
    assert choice.reader is not None and isinstance(choice.reader.head, OutputLayer)
    assert network.module.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("name", MISTAKES)
def test_model_that_goes_wrong_in_packs_is_padded(name: str) -> None:
    make, reason = MISTAKES[name]
    choice = chosen(make())
    assert choice.engine == PADDED and choice.reader is None and reason in choice.reason
    with pytest.raises(ModelError, match="Use: auto"):
        chosen(make(), TREE)


def test_model_that_goes_wrong_in_batches_runs_row_by_row() -> None:
    module = with_token_shift()
    rework(module, lambda logits: logits + logits.mean(0))
    choice = chosen(module)
    assert choice.engine == SINGLE and "padded batches differ from single rows" in choice.reason


def test_logits_that_are_reworked_are_left_to_the_model() -> None:
    module = llama()
    rework(module, lambda logits: 0.5 * logits)
    choice = chosen(module)
    assert choice.engine == TREE and choice.reader is not None and isinstance(choice.reader.head, PrecomputedLogits)


def test_soft_cap_of_small_logits_is_found() -> None:
    config = Gemma2Config(**{**CONFIG, "initializer_range": 0.02}, head_dim=8, final_logit_softcapping=30.0)
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        choice = chosen(Gemma2ForCausalLM(config).eval())
    assert choice.engine == TREE and choice.reader is not None and isinstance(choice.reader.head, PrecomputedLogits)


def test_padded_batches_that_go_wrong_are_not_used_even_when_requested() -> None:
    module = llama()
    rework(module, lambda logits: logits + logits.mean(0))
    choice = chosen(module, PADDED)
    assert choice.engine == SINGLE and "requested; padded batches differ from single rows" in choice.reason


def test_small_logits_hide_no_difference() -> None:
    module = with_token_shift()
    module.lm_head.weight.data.mul_(1e-4)
    assert chosen(module).engine == PADDED


def test_texts_past_a_length_rule_are_read_alone() -> None:
    module = llama()
    module.config.index_topk = 100
    choice = chosen(module)
    assert choice.engine == TREE and choice.longest == 99
    assert choice.is_alone(100) and not choice.is_alone(99)
    module.config.index_topk = 20
    assert chosen(module).engine == PADDED


def test_broken_weights_leave_no_choice() -> None:
    module = llama()
    module.model.norm.weight.data.fill_(math.nan)
    choice = chosen(module)
    assert choice.engine == SINGLE and "the probe failed" in choice.reason


def test_training_mode_is_not_a_tree() -> None:
    assert "training" in chosen(llama().train()).reason


def test_the_requested_engine_is_used() -> None:
    assert chosen(llama(), PADDED).engine == PADDED and chosen(llama(), TREE).engine == TREE


def test_lm_evals_arithmetic_keeps_its_batches(network: Network) -> None:
    assert choose_engine(network, AUTO, "lm_eval", 400).engine == PADDED
    assert choose_engine(network, TREE, "lm_eval", 400).engine == TREE


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_formats_are_read_as_a_tree_too(dtype: torch.dtype) -> None:
    choice = chosen(llama().to(dtype))
    assert choice.engine == TREE and choice.max_difference is not None and choice.max_difference < 0.05


@pytest.mark.parametrize("longest", [1, 2, 12, 400])
def test_probe_fits_into_short_contexts(longest: int) -> None:
    config = GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=longest)
    network = wrap(GPT2LMHeadModel(config).eval(), CPU)
    assert max(len(text.inputs) for text in make_probe(network, longest)) <= longest
    assert choose_engine(network, AUTO, "exact", longest).engine == TREE


def test_probe_passes_the_window(network: Network) -> None:
    network.module.config.sliding_window = 100
    assert min(len(text.inputs) for text in make_probe(network, 400)) > 200


def test_probe_draws_from_no_global_generator(network: Network) -> None:
    before = torch.random.get_rng_state()
    first = make_probe(network, 400)
    assert make_probe(network, 400) == first and torch.equal(torch.random.get_rng_state(), before)


def test_probe_keeps_no_more_logits_than_it_compares() -> None:
    """Rows of logits are copies: views would keep those of whole texts, twice, in a vocabulary of 256,000 words."""
    found = read_rows(wrap(llama(), CPU), make_probe(wrap(llama(), CPU), 100), 4)
    assert not isinstance(found, str)
    assert all(row.untyped_storage().nbytes() == row.nbytes for row in found.logits.values())
