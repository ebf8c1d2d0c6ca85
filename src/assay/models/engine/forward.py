"""Packed forward passes: one pass per pack of a prefix tree, over the KV cache of the current path.

In: packs of a prefix tree, in order. Out: the last hidden states (or logits) of the requested rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.models.engine import attention
from assay.models.engine.attention import KeyValueHook, PackAttention, PrefixCache, Unsupported
from assay.models.engine.c_kernels import CKernels
from assay.models.engine.packs import Pack
from assay.models.engine.prefix_tree import IntArray
from assay.models.engine.vocabulary_head import OutputLayer, PrecomputedLogits, find_output_layer
from assay.models.loading.network import Network
from assay.models.runtime import quiet

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True)
class TreeReader:
    """Runs packed forward passes one after the other.

    Attributes:
        network: the model.
        head: its output layer, or a placeholder if the model computes its own logits.
        layers: number of attention calls per forward pass.
        length_threshold: length above which the model treats all positions of a batch differently.
        stock: name of the attention implementation that the model was loaded with.
        c_kernels: C kernels for attention, if available.
        path: KV cache from the root to the last computed row.
    """

    network: Network
    head: OutputLayer | PrecomputedLogits
    layers: int
    length_threshold: int | None = None
    stock: str = "sdpa"
    c_kernels: CKernels | None = None
    path: PrefixCache = field(default_factory=PrefixCache)

    def read(self, pack: Pack, wanted: IntArray, key_value_hook: KeyValueHook | None = None, reach: int = 0) -> Tensor:
        """Forwards a pack; the path then ends at its last row. On failure nothing changes.

        Args:
            pack: the successor of the previous pack.
            wanted: rows of the pack to return.
            key_value_hook: receives the keys and values of each layer.
            reach: length of the longest text in the tree.
        """
        import torch

        device = self.network.device
        positions = torch.from_numpy(pack.positions).to(device)
        dtype = self.network.module.dtype
        joining = torch.from_numpy(pack.path).to(device)
        shares = device.type == "cpu"
        entry = PackAttention(
            pack=pack,
            path=self.path,
            device=device,
            dtype=dtype,
            shares=shares,
            positions=positions,
            joining=joining,
            key_value_hook=key_value_hook,
            c_kernels=self.c_kernels,
        )
        ids = torch.from_numpy(pack.tokens).long().to(device)
        rows = torch.from_numpy(wanted).to(device)
        if self.length_threshold is not None and reach > self.length_threshold:
            # Such a model looks for the maximum position in its input: one extra row provides it, and no row attends to
            # it.
            ids = torch.cat([ids, ids[-1:]])
            positions = torch.cat([positions, positions.new_tensor([reach - 1])])
        with attention.answering_attention(entry), torch.inference_mode():
            states = self.forward(ids, positions, rows)
            if len(entry.staged) != self.layers:
                raise Unsupported(f"attention was called {len(entry.staged)} times for {self.layers} layers")
            self.path.extend(pack.cached, entry.staged)
        return states

    def forward(self, ids: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
        """One forward pass over a row of ids; returns states (or logits) of the requested rows."""
        module = self.network.module
        given = {
            "input_ids": ids[None],
            "position_ids": positions[None],
            # All ones: otherwise transformers takes a jump in positions for a document boundary.
            "attention_mask": ids.new_ones(1, len(ids)),
            "use_cache": False,
        }
        if isinstance(self.head, OutputLayer):
            states: Tensor = module.base_model(**given).last_hidden_state
            return states[0].index_select(0, rows)
        if self.network.keeps_logits:
            logits: Tensor = module(**given, logits_to_keep=rows).logits
            return logits[0]
        logits = module(**given).logits
        return logits[0].index_select(0, rows)


@contextmanager
def using_attention(network: Network, name: str = attention.NAME) -> Iterator[None]:
    """Switches the model's attention implementation, by default to the engine's, and restores it afterwards."""
    module = network.module
    before = module.config._attn_implementation
    attention.register()
    with quiet():
        module.set_attn_implementation(name)
    try:
        yield
    finally:
        with quiet():
            module.set_attn_implementation(before)


def make_reader(network: Network) -> TreeReader:
    """A reader for a network.

    Raises:
        Unsupported: if the architecture does not support packed sequences, with the reason.
    """
    module = network.module
    config = module.config.get_text_config()
    if module.training:
        raise Unsupported("it is in training mode")
    if getattr(module, "_is_stateful", False):
        raise Unsupported("it has a recurrent state, which cannot branch inside a row")
    if not getattr(module, "_can_set_attn_implementation", lambda: True)():
        raise Unsupported("it does not call attention through transformers' interface")
    for known in (module.forward, module.base_model.forward):
        if "position_ids" not in inspect.signature(known).parameters:
            raise Unsupported("it does not take position ids")
    kinds = rope_kinds(config)
    if "dynamic" in kinds:
        raise Unsupported("its positions depend on the longest text in a batch (dynamic rope)")
    head = find_output_layer(module)
    vocabulary = int(config.vocab_size)
    threshold = kinds.get("longrope", {}).get("original_max_position_embeddings")
    layers, stock = int(config.num_hidden_layers), str(module.config._attn_implementation)
    return TreeReader(network, head or PrecomputedLogits(vocabulary), layers, threshold, stock)


def rope_kinds(config: Any) -> dict[str, dict[str, Any]]:
    """RoPE types (`default`, `linear`, `dynamic`, `longrope`, …) with their settings."""
    found = dict(getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {})
    # Some models have one entry per layer type.
    entries = [entry for entry in found.values() if isinstance(entry, dict)] or [found]
    return {str(entry.get("rope_type", entry.get("type", "default"))): entry for entry in entries}


def depends_on_batch_length(network: Network) -> bool:
    """Whether position embeddings depend on the longest text in the batch."""
    return not {"dynamic", "longrope"}.isdisjoint(rope_kinds(network.module.config.get_text_config()))


def reset_dynamic_rope(network: Network) -> None:
    """Resets dynamic RoPE before every pass; otherwise it stays scaled to the longest text seen so far."""
    for layer in network.module.modules():
        if hasattr(layer, "original_max_seq_len") and hasattr(layer, "max_seq_len_cached"):
            layer.register_forward_pre_hook(_reset_rope)


def _reset_rope(layer: Any, _: Any) -> None:
    for name in [name for name in vars(layer) if name.endswith("max_seq_len_cached")]:
        kind = name.removesuffix("max_seq_len_cached")
        frequencies = getattr(layer, f"{kind}inv_freq", None)
        if frequencies is not None:
            setattr(layer, name, layer.original_max_seq_len)
            first = getattr(layer, f"{kind}original_inv_freq").to(frequencies.device)
            layer.register_buffer(f"{kind}inv_freq", first, persistent=False)
