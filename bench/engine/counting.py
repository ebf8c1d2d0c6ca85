"""Counts the tokens that a loaded model forwards, padding included: the ids given to its embedding.

A hook on that module works in both workers and has no measurable cost.
"""

from __future__ import annotations

import gc
from typing import Any


class TokenCounter:
    """Adds up the ids given to every embedding of vocabulary size in this process.

    Args:
        vocabulary: rows of the embedding; position embeddings have another size and are not counted.
    """

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.tokens = 0
        self._watched: set[int] = set()

    def attach(self) -> None:
        """Finds embeddings that have been loaded since."""
        import torch

        for found in gc.get_objects():
            # Not isinstance: that would load lazy objects of other packages.
            is_ours = type(found) is torch.nn.Embedding and found.num_embeddings == self.vocabulary
            if is_ours and id(found) not in self._watched:
                found.register_forward_pre_hook(self._count)
                self._watched.add(id(found))

    def _count(self, module: Any, inputs: tuple[Any, ...]) -> None:
        self.tokens += inputs[0].numel()


def gemm_rate(shapes: list[tuple[int, int, int]], seconds: float = 1.0) -> float:
    """The best GFLOPS of float32 matrix products (rows, in, out) through a linear layer's own path."""
    import time

    import torch

    best = 0.0
    for rows, width, out in shapes:
        inputs, weight = torch.randn(rows, width), torch.randn(out, width)
        torch.nn.functional.linear(inputs, weight)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            started = time.perf_counter()
            torch.nn.functional.linear(inputs, weight)
            best = max(best, 2e-9 * rows * width * out / (time.perf_counter() - started))
    return best
