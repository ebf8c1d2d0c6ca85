"""The reader: which models it takes, and that it leaves a model as it found it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from assay.models.engine.attention import NAME, Unsupported
from assay.models.engine.forward import TreeReader, make_reader, rope_kinds, using_attention
from assay.models.engine.packs import make_pack
from assay.models.engine.prefix_tree import build_tree
from assay.models.loading.network import Network
from assay.models.tokens.tokenization import EncodedText

TREE = build_tree([EncodedText(0, (1, 2, 3, 4, 5), 1), EncodedText(1, (1, 2, 9, 4), 1)])


def implementation(network: Network) -> str:
    return str(network.module.config._attn_implementation)


def test_model_has_its_own_attention_again_after_an_error(network: Network) -> None:
    with pytest.raises(KeyError), using_attention(network):
        assert implementation(network) == NAME
        raise KeyError
    assert implementation(network) == "sdpa"


def test_failed_pack_changes_nothing(reader: TreeReader) -> None:
    layer = reader.network.module.model.layers[1]
    none = np.zeros(0, dtype=np.int64)
    with using_attention(reader.network):
        reader.read(make_pack(TREE, 0, 2), none)
        before = [key[:, :2].clone() for key in reader.path.keys]
        hook = layer.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(MemoryError()))
        with pytest.raises(MemoryError):
            reader.read(make_pack(TREE, 2, 4), none)
        hook.remove()
    assert reader.path.length == 2
    assert all(torch.equal(key[:, :2], cached) for key, cached in zip(reader.path.keys, before, strict=True))


def test_rows_come_in_the_order_requested(reader: TreeReader) -> None:
    with using_attention(reader.network):
        both = reader.read(make_pack(TREE, 0, len(TREE)), np.array([0, 4]))
        reader.path.clear()
        turned = reader.read(make_pack(TREE, 0, len(TREE)), np.array([4, 0, 0]))
    assert torch.equal(turned, both[[1, 0, 0]]) and both.shape == (2, 32)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "training": (lambda module: module.train(), "training mode"),
    "state": (lambda module: setattr(module, "_is_stateful", True), "recurrent state"),
    "positions": (
        lambda module: setattr(module.model, "forward", lambda input_ids: None),
        "does not take position ids",
    ),
    "rope": (lambda module: setattr(module.config, "rope_parameters", {"rope_type": "dynamic"}), "dynamic rope"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_designs_that_packs_cannot_serve_are_refused(network: Network, name: str) -> None:
    change, reason = REFUSED[name]
    change(network.module)
    with pytest.raises(Unsupported, match=reason):
        make_reader(network)


def test_positions_may_differ_by_layer_type() -> None:
    kinds = {"full_attention": {"rope_type": "dynamic", "factor": 2.0}, "sliding_attention": {"rope_type": "default"}}
    assert set(rope_kinds(SimpleNamespace(rope_parameters=kinds))) == {"dynamic", "default"}
    assert set(rope_kinds(SimpleNamespace(rope_parameters={"rope_type": "longrope"}))) == {"longrope"}
    assert set(rope_kinds(SimpleNamespace(rope_scaling={"type": "linear"}))) == {"linear"}
    assert set(rope_kinds(SimpleNamespace())) == {"default"}
