"""A model's shape from its folder's small files, and the seconds that the machine's GEMM rate allows for some work."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from bench.engine.tree import Least

# Rows of the products that the rate is measured with: a pack of the usual size.
GEMM_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """What the cost of a forward pass depends on.

    Attributes:
        body: number of weights that every token is multiplied with.
        hidden: width.
        inner: width of the feed-forward layers.
        vocabulary: rows of the output layer.
        attention: floating-point operations per query × key pair, all layers together.
        most: maximum number of tokens of one input.
    """

    body: int
    hidden: int
    inner: int
    vocabulary: int
    attention: int
    most: int

    @property
    def products(self) -> list[list[int]]:
        """Layer-shaped products (rows, in, out)."""
        hidden, inner = self.hidden, self.inner
        return [[GEMM_ROWS, hidden, inner], [GEMM_ROWS, inner, hidden], [GEMM_ROWS, hidden, 2 * inner]]

    def limit_seconds(self, least: Least, gflops: float) -> float:
        """The minimum work at the best rate of a single product."""
        body = 2 * self.body * least.tokens
        head = 2 * self.hidden * self.vocabulary * least.rows
        return (body + head + self.attention * least.pairs) / (gflops * 1e9)


def read_shape(folder: Path) -> Shape:
    """The shape of a Llama-like checkpoint; sizes are read from the header of its weights, not the weights."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    heads = config["num_attention_heads"]
    head_width = config.get("head_dim") or config["hidden_size"] // heads
    body = sum(
        math.prod(entry["shape"])
        for file in sorted(folder.glob("*.safetensors"))
        for name, entry in _header(file).items()
        if len(entry.get("shape", ())) == 2 and "embed" not in name and "lm_head" not in name
    )
    return Shape(
        body=body,
        hidden=config["hidden_size"],
        inner=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        # Two products (query × key, weights × value), each a multiplication and an addition.
        attention=4 * heads * head_width * config["num_hidden_layers"],
        most=config["max_position_embeddings"],
    )


def _header(file: Path) -> dict[str, dict[str, list[int]]]:
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        found: dict[str, dict[str, list[int]]] = json.loads(stream.read(size))
    found.pop("__metadata__", None)
    return found
