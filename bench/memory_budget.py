"""Time and memory of the engine against what it may hold: tokens of a pack, slots, packed copies of the weights.

    python -m bench.memory_budget [--model smollm2] [--texts 60] [--prompts 64] [--tokens 24] [--rounds 3]

Every setting is run in turn, round after round, so that a busy machine slows all alike. Printed are the processor time
of each (best of the rounds), its ratio to the default setting, and how far the process's memory rose above the loaded
model. Run with OMP_NUM_THREADS=1 where other processes need the cores.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.requests import Generation, Loglikelihood, Request
from assay.core.specs import ModelSettings
from assay.models.download.named import NAMED_MODELS
from assay.models.engine import cpu_layers as tuning
from assay.models.engine import engine as engines
from assay.models.engine import memory
from assay.models.model_registry import open_named
from assay.models.runtime import release_memory

WORDS = ("river", "rose", "two", "feet", "Sunday", "small", "boat", "came", "bread", "milk", "letters", "town")


@dataclass(frozen=True, slots=True)
class Setting:
    """What the engine may hold."""

    name: str
    pack: int = memory.CPU_PACK
    slots: int = memory.MOST_SLOTS
    is_packed: bool = True


READING = [*(Setting(f"packs of {size}", pack=size) for size in (256, 512, 1024))]
READING.append(Setting("packs of 1024, plain weights", is_packed=False))
WRITING = [*(Setting(f"{count} slots", slots=count) for count in (16, 32, 64))]
WRITING.append(Setting("64 slots, plain weights", is_packed=False))


@contextmanager
def applied(setting: Setting) -> Iterator[None]:
    """The engine's bounds set for one run, and set back."""
    part = vars(tuning)["PACKED_PART"]
    before = memory.CPU_PACK, memory.MOST_SLOTS, memory.WORTH_PACKING
    memory.CPU_PACK, memory.MOST_SLOTS, memory.WORTH_PACKING = setting.pack, setting.slots, 1
    vars(tuning)["PACKED_PART"] = part if setting.is_packed else 0.0
    try:
        yield
    finally:
        memory.CPU_PACK, memory.MOST_SLOTS, memory.WORTH_PACKING = before
        vars(tuning)["PACKED_PART"] = part


def resident() -> int:
    """Anonymous memory of this process."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@contextmanager
def watched() -> Iterator[list[int]]:
    """The most memory that is held while it lasts, at the front of the list."""
    most, is_over = [resident()], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.01):
            most[0] = max(most[0], resident())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        is_over.set()
        thread.join()


def measure(model: Any, setting: Setting, requests: list[Request]) -> tuple[float, int]:
    """Seconds of the processor and bytes above the loaded model."""
    loaded = model._loaded()
    model._engine = engines.Engine(loaded.network, loaded.choice, loaded.rates)
    release_memory()
    before = resident()
    with applied(setting), watched() as most:
        began = time.process_time()
        for _ in model.respond(requests):
            pass
        seconds = time.process_time() - began
    tuning.undo_all(loaded.network.module)
    tuning.patch_layers(
        loaded.network.module, loaded.choice.reader.c_kernels if loaded.choice.reader is not None else None
    )
    return seconds, most[0] - before


def compare(model: Any, settings: list[Setting], requests: list[Request], rounds: int, usual: str) -> None:
    found: dict[str, list[tuple[float, int]]] = {setting.name: [] for setting in settings}
    for number in range(rounds):
        for setting in settings:
            seconds, size = measure(model, setting, requests)
            found[setting.name].append((seconds, size))
            print(f"round {number + 1}: {setting.name}: {seconds:.2f} s, {size / 1e6:.0f} MB", flush=True)
    best = {name: min(seconds for seconds, _ in rows) for name, rows in found.items()}
    for name, rows in found.items():
        held = max(size for _, size in rows) / 1e6
        print(f"{name:32} {best[name]:8.2f} s  {best[name] / best[usual]:5.2f}  {held:7.0f} MB", flush=True)


def texts(count: int, length: int) -> list[str]:
    """Texts that share nothing."""
    return [
        " ".join(WORDS[(place * 7 + step * (place + 3)) % len(WORDS)] + str(place) for step in range(length))
        for place in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2", help="a model that Assay knows by name")
    parser.add_argument("--texts", type=int, default=60, help="texts to score, about 150 tokens each")
    parser.add_argument("--prompts", type=int, default=64, help="prompts to answer")
    parser.add_argument("--tokens", type=int, default=24, help="tokens to write per answer")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    model: Any = open_named(NAMED_MODELS[asked.model], {}, ModelSettings())
    scored: list[Request] = [Loglikelihood(text, " and so on") for text in texts(asked.texts, 50)]
    written: list[Request] = [Generation(text, (), asked.tokens) for text in texts(asked.prompts, 20)]
    print(f"scoring {model.workload(scored).read:,} tokens")
    compare(model, READING, scored, asked.rounds, "packs of 1024")
    print(f"writing {asked.tokens * asked.prompts:,} tokens")
    compare(model, WRITING, written, asked.rounds, "64 slots")


if __name__ == "__main__":
    main()
