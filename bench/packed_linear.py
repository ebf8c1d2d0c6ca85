"""Linear layers of a small Llama: F.linear compared with oneDNN with weights reordered once.

    python bench/packed_linear.py [--threads 2] [--repeats 5] [--lock FILE]

In: nothing; the shapes are SmolLM2-135M's. Out: for each number of rows the median milliseconds of all 30 layers, and
the speed of the two ways of packing relative to F.linear (above 1: faster).
"""

import argparse
import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

LAYER_SHAPES = ((576, 576), (192, 576), (192, 576), (576, 576), (1536, 576), (1536, 576), (576, 1536))
LAYERS = 30
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@contextlib.contextmanager
def held(lock: Path | None) -> Iterator[None]:
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def linear(args: argparse.Namespace) -> None:
    """F.linear, oneDNN with weights packed for any number of rows, and packed for this number.

    All layers in turn, so that weights are cold, as in a model.
    """
    import torch

    torch.set_grad_enabled(False)
    torch.set_num_threads(args.threads)
    weights = [torch.randn(shape) * 0.02 for _ in range(LAYERS) for shape in LAYER_SHAPES]
    pack, multiply = torch.ops.mkldnn._reorder_linear_weight, torch.ops.mkldnn._linear_pointwise
    general = [pack(one) for one in weights]
    for rows in ROWS:
        inputs = {width: torch.randn(rows, width) for width in (576, 1536)}
        fitted = [pack(one, rows) for one in weights]

        def by_torch(inputs: Any = inputs) -> None:
            for weight in weights:
                torch.nn.functional.linear(inputs[weight.shape[1]], weight)

        def by_onednn(packed: Any, inputs: Any = inputs) -> None:
            for weight, shaped in zip(packed, weights, strict=True):
                multiply(inputs[shaped.shape[1]], weight, None, "none", [], "")

        ways = (by_torch, lambda: by_onednn(general), lambda fitted=fitted: by_onednn(fitted))
        found = []
        for _ in range(args.repeats + 1):
            with held(args.lock):
                found.append([seconds_of(way) for way in ways])
        times = [1000 * median(each) for each in zip(*found[1:], strict=True)]
        ratios = [median(one[0] / one[way] for one in found[1:]) for way in (1, 2)]
        print(f"| {rows} |", " | ".join(f"{one:.1f}" for one in times), "|", " | ".join(f"{one:.2f}" for one in ratios))


def seconds_of(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="(default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="counted rounds (default: %(default)s)")
    parser.add_argument("--lock", type=Path, help="a file to lock while timing, for machines that are shared")
    linear(parser.parse_args())


if __name__ == "__main__":
    main()
