"""Attention over packs, function by function, against dense attention along each row's path."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from assay.models.engine.attention import (
    Kernel,
    PackAttention,
    PrefixCache,
    Unsupported,
    answering_attention,
    attend,
    make_mask,
    merge,
)
from assay.models.engine.packs import COMMON_PREFIX, make_pack
from assay.models.engine.prefix_tree import PrefixTree, build_tree
from assay.models.tokens.tokenization import EncodedText

CPU = torch.device("cpu")
MODULE = SimpleNamespace(training=False)
HEADS, KEPT, WIDTH = 4, 2, 8


def some_tree(stem: int = COMMON_PREFIX + 10) -> PrefixTree:
    draw = random.Random(2)
    ids = lambda count: tuple(draw.randrange(50) for _ in range(count))  # noqa: E731
    trunk = ids(stem)
    branches = [(*trunk, *ids(7)) for _ in range(4)]
    rows = [(*branch, *ids(count)) for branch in branches for count in (3, 1, 12)]
    return build_tree([EncodedText(number, row, 1) for number, row in enumerate(rows)])


def drawn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def by_packs(tree: PrefixTree, size: int, rule: Any = None, dtype: Any = torch.float64, **options: Any) -> Tensor:
    """What every row of the tree sees, read pack by pack."""
    query, key, value = tensors(tree, options.pop("value_width", WIDTH), dtype)
    path, parts = PrefixCache(), []
    for low in range(0, len(tree), size):
        pack = make_pack(tree, low, min(low + size, len(tree)))
        entry = PackAttention(
            pack, path, CPU, dtype, True, torch.from_numpy(pack.positions), torch.from_numpy(pack.path)
        )
        rows = slice(pack.low, pack.high)
        with answering_attention(entry):
            mask = make_mask(mask_function=rule) if rule is not None else None
            found, _ = attend(MODULE, query[:, :, rows], key[:, :, rows], value[:, :, rows], mask, **options)
        path.extend(pack.cached, entry.staged)
        parts.append(found)
    return torch.cat(parts, dim=1)[0]


def tensors(tree: PrefixTree, value_width: int, dtype: Any) -> tuple[Tensor, Tensor, Tensor]:
    query = drawn(1, HEADS, len(tree), WIDTH, dtype=dtype) * 2
    return query, drawn(1, KEPT, len(tree), WIDTH, dtype=dtype), drawn(1, KEPT, len(tree), value_width, dtype=dtype)


def dense(tree: PrefixTree, rule: Any = None, scaling: float | None = None, **options: Any) -> Tensor:
    """The same in float64, row by row along its path."""
    query, key, value = (one[0].double() for one in tensors(tree, options.get("value_width", WIDTH), torch.float64))
    lines, path = [], []
    for segment in tree.segments:
        path = path[: segment.depth]
        for row in range(segment.start, segment.end):
            path.append(row)
            at = len(path) - 1
            seen = [place for place in range(at + 1) if rule is None or bool(rule(0, 0, at, place))]
            rows = [path[place] for place in seen]
            lines.append([one_row(query[head, row], key, value, head, rows, scaling, options) for head in range(HEADS)])
    return torch.stack([torch.stack(line) for line in lines])


def one_row(
    asking: Tensor, key: Tensor, value: Tensor, head: int, rows: list[int], scaling: float | None, options: Any
) -> Tensor:
    cached = head // (HEADS // KEPT)
    scores = key[cached, rows] @ asking * (WIDTH**-0.5 if scaling is None else scaling)
    if options.get("softcap") is not None:
        scores = torch.tanh(scores / options["softcap"]) * options["softcap"]
    if options.get("s_aux") is not None:
        scores = torch.cat([scores, options["s_aux"][head : head + 1].double()])
    return scores.softmax(0)[: len(rows)] @ value[cached, rows]


def chunk(batch: Any, head: Any, asking: Any, key: Any) -> Any:
    """Rows look at their own chunk of 8 positions only."""
    return asking // 8 == key // 8


def window(batch: Any, head: Any, asking: Any, key: Any) -> Any:
    """Rows look back at 9 positions, their own included."""
    return asking - key < 9


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scaling": {"scaling": 0.9},
    "soft-capped": {"softcap": 1.5},
    "sinks": {"s_aux": torch.tensor([0.5, -1.0, 3.0, 0.0])},
    "window": {"rule": window},
    "window and sinks": {"rule": window, "s_aux": torch.tensor([0.5, -1.0, 3.0, 0.0])},
    "window and soft-capped": {"rule": window, "softcap": 1.5},
    "window that is not in the mask": {"sliding_window": 9},
    "chunks": {"rule": chunk},
    "narrow values": {"value_width": 5},
    "harmless": {"position_ids": torch.zeros(1), "use_cache": False, "is_causal": True, "indices": None},
}


@pytest.mark.parametrize("size", [1, 17, 60, 1000])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_row_sees_its_path(name: str, size: int) -> None:
    tree, options = some_tree(), OPTIONS[name]
    found = by_packs(tree, size, **options)
    known = {key: value for key, value in options.items() if key in WORDS}
    assert torch.allclose(found, dense(tree, **known), atol=1e-12, rtol=0)


WORDS = ("scaling", "softcap", "s_aux", "rule", "value_width")


@pytest.mark.parametrize("size", [17, 1000])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.bfloat16, 0.05)])
def test_narrow_formats_lose_no_more_than_their_digits(dtype: Any, tolerance: float, size: int) -> None:
    tree = some_tree()
    found = by_packs(tree, size, dtype=dtype)
    assert found.dtype == dtype and float((found.double() - dense(tree)).abs().max()) < tolerance


@pytest.mark.parametrize("name", ["indices", "block_indices", "position_bias", "something_new"])
def test_unknown_arguments_are_refused(name: str) -> None:
    with pytest.raises(Unsupported, match=f"unsupported arguments: {name}"):
        by_packs(some_tree(), 20, **{name: torch.zeros(1)})


def test_other_kinds_of_attention_are_refused() -> None:
    with pytest.raises(Unsupported, match="not causal"):
        by_packs(some_tree(), 20, is_causal=False)
    with pytest.raises(Unsupported, match="training"):
        by_packs(some_tree(), 20, dropout=0.1)
    tensor = drawn(1, 1, 1, 8)
    for module in (SimpleNamespace(training=True), SimpleNamespace(training=False, is_causal=False)):
        with pytest.raises(Unsupported):
            attend(module, tensor, tensor, tensor, None)
    with pytest.raises(Unsupported, match="outside a packed forward pass"):
        attend(MODULE, tensor, tensor, tensor, None)


def test_rule_that_rules_nothing_out_needs_no_mask() -> None:
    pack = make_pack(some_tree(), 0, 30)
    entry = PackAttention(
        pack, PrefixCache(), CPU, torch.float32, True, torch.from_numpy(pack.positions), torch.from_numpy(pack.path)
    )
    with answering_attention(entry):
        assert make_mask(mask_function=lambda batch, head, asking, key: asking - key < 30) is None
        assert make_mask(mask_function=lambda batch, head, asking, key: asking - key < 29) is not None
        assert make_mask() is None


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("masked", ["no", "causal", "bias"])
def test_kernels_agree(softcap: float | None, masked: str) -> None:
    query, key, value = drawn(1, 4, 6, 8) * 3, drawn(1, 2, 6, 8), drawn(1, 2, 6, 8) + 1
    bias = torch.zeros(1, 1, 6, 6, dtype=torch.float64).masked_fill(torch.eye(6).roll(1, 0).bool(), -math.inf)
    given = (query, key, value, bias if masked == "bias" else None, masked == "causal")
    kernel = Kernel(0.7, softcap)
    plain, weight = kernel.plain(*given)
    found, other = kernel(*given)
    assert torch.allclose(plain, found, atol=1e-12) and torch.allclose(weight, other, atol=1e-12)
    assert torch.equal(kernel.output(*given), found)
    if softcap is None:
        assert torch.allclose(kernel.by_torch(*given), found, atol=1e-12)


def test_merged_halves_are_the_whole() -> None:
    query, key, value, kernel = drawn(1, 4, 3, 8), drawn(1, 2, 10, 8), drawn(1, 2, 10, 8), Kernel(0.9)
    left, right = (
        kernel(query, key[:, :, part], value[:, :, part], None, False) for part in (slice(4), slice(4, None))
    )
    whole = kernel(query, key, value, None, False)
    for found, expected in zip(merge(*left, *right), whole, strict=True):
        assert torch.allclose(found, expected, atol=1e-12)


def staged(count: int, value: float) -> list[tuple[Tensor, Tensor]]:
    return [(torch.full((2, count, 4), value + call), torch.full((2, count, 3), -value - call)) for call in range(2)]


def test_path_is_cut_and_grows() -> None:
    path = PrefixCache()
    path.extend(0, staged(5, 1.0))
    path.extend(3, staged(2000, 7.0))
    path.extend(2001, staged(1, 9.0))
    assert path.length == 2002 and path.keys[1].shape[2] == 4 and path.values[1].shape[2] == 3
    assert path.keys[1][0, :2002, 0].tolist() == [2.0] * 3 + [8.0] * 1998 + [10.0]
    assert path.values[0][1, :2002, 2].tolist() == [-1.0] * 3 + [-7.0] * 1998 + [-9.0]


class NoRoom(Tensor):
    """A tensor so large that no other fits."""

    def new_empty(self, *_: Any, **__: Any) -> Any:
        raise MemoryError


def test_path_that_cannot_grow_stays_as_it_was() -> None:
    path = PrefixCache()
    path.extend(0, staged(5, 1.0))
    path.values[1] = path.values[1].as_subclass(NoRoom)  # type: ignore[call-overload]
    before = [path.keys[0][:, :5].clone(), path.values[0][:, :5].clone()]
    with pytest.raises(MemoryError):
        path.extend(2, staged(50, 7.0))
    assert path.length == 5
    assert torch.equal(path.keys[0][:, :5], before[0]) and torch.equal(path.values[0][:, :5], before[1])


def test_cleared_path_holds_nothing() -> None:
    path = PrefixCache()
    path.extend(0, staged(5, 1.0))
    path.clear()
    assert (path.length, path.keys, path.values) == (0, [], [])
