"""Other runtimes for a small causal LM on a CPU, each compared with plain transformers in float32.

    python -m bench.alternatives engines   --model DIR --data validation.parquet --work DIR [--only NAME ...]
    python -m bench.alternatives processes --model DIR

In: a Llama folder and HellaSwag's validation file. Each engine has its own process and is interleaved with
the plain one; `--lock FILE` is held for one round at a time. Out: medians of the ratio of each round (above 1: faster
than plain), set-up seconds, and the difference of log-likelihoods from a float64 model. Needs the measured packages:
torch, transformers, openvino, nncf, onnxruntime, onnx, onnxscript. `NAME@1` runs an engine with one thread.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.alternative_engines import ENGINES, Engine, Options, clocks, since
from bench.packed_linear import held

# Case: (kind, batch, tokens, calls in one round).
CASES: dict[str, tuple[str, int, int, int]] = {
    "body 1x1024": ("body", 1, 1024, 1),
    "logits 1x1024": ("logits", 1, 1024, 1),
    "body 8x128": ("body", 8, 128, 1),
    "body 1x128": ("body", 1, 128, 4),
    "step 1": ("step", 1, 1, 5),
    "step 8": ("step", 8, 1, 3),
    "step 16": ("step", 16, 1, 2),
}


# A process per engine, driven over a pipe.


def runner(engine: Engine, case: str) -> Callable[[], tuple[float, float]]:
    """A function that makes one call of a case and gives its seconds."""
    kind, batch, tokens, _ = CASES[case]
    call: Callable[[], Any]
    if kind == "step":
        call = engine.decoder(batch)
    else:
        ids = np.random.default_rng(1).integers(5, 40000, (batch, tokens))
        call = lambda: engine.forward(ids, kind == "logits")  # noqa: E731

    def timed() -> tuple[float, float]:
        started = clocks()
        own = call()
        # A step of transformers fills a fresh cache first and gives the seconds of the step alone.
        return own if kind == "step" and is_seconds(own) else since(started)

    return timed


def is_seconds(found: Any) -> bool:
    return isinstance(found, tuple) and isinstance(found[0], float)


def token_scores(engine: Engine, choices: Sequence[tuple[list[int], int]]) -> list[list[float]]:
    """Log-probabilities of each choice's own tokens, softmax in float64 for every engine."""
    found = []
    for ids, start in choices:
        logits = np.asarray(as_numpy(engine.forward(np.array([ids[:-1]]), True))[0, start - 1 :], dtype=np.float64)
        top = logits.max(axis=1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
        found.append((logits[np.arange(len(logits)), ids[start:]] - total).tolist())
    return found


def as_numpy(found: Any) -> np.ndarray:
    numbers: np.ndarray = found.double().numpy() if hasattr(found, "double") else found
    return numbers


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """For work that is not timed: two OpenMP threads are very slow on a busy machine, one is not."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    if torch:
        torch.set_num_threads(1)
    yield
    if torch:
        torch.set_num_threads(before)


def serve(pipe: Any, name: str, options: Options) -> None:
    try:
        started = time.perf_counter()
        engine = ENGINES[name](options)
        pipe.send(("ready", time.perf_counter() - started))
        runners: dict[str, Callable[[], tuple[float, float]]] = {}
        while (args := pipe.recv()) is not None:
            verb, argument, calls = args
            if verb == "scores":
                with one_thread():
                    pipe.send(("done", token_scores(engine, argument)))
                continue
            if argument not in runners:
                runners[argument] = runner(engine, argument)
            pipe.send(("done", [runners[argument]() for _ in range(calls)]))
    except Exception:
        pipe.send(("failed", traceback.format_exc()))


class Worker:
    """One engine in its own process."""

    def __init__(self, name: str, options: Options) -> None:
        engine, _, threads = name.partition("@")
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        own = Options(options.model, options.work, int(threads or 2))
        self.process = context.Process(target=serve, args=(far, engine, own), daemon=True)
        self.process.start()
        self.setup: float = self.answer()

    def ask(self, verb: str, argument: Any, calls: int = 1) -> None:
        self.pipe.send((verb, argument, calls))

    def answer(self) -> Any:
        state, found = self.pipe.recv()
        if state == "failed":
            raise RuntimeError(found)
        return found

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send(None)
        self.process.join(10)

    def seconds(self, case: str, calls: int) -> tuple[float, float]:
        """Median wall and CPU seconds of a call."""
        self.ask("time", case, calls)
        wall, cpu = zip(*self.answer(), strict=True)
        return median(wall), median(cpu)


def hellaswag(options: Options, data: Path, documents: int) -> list[tuple[list[int], int]]:
    """Token ids of context and ending, and where the ending starts; four in a row are one document."""
    import pyarrow.parquet
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    found = []
    for row in pyarrow.parquet.read_table(data).slice(0, documents).to_pylist():
        context = f"{row['activity_label']}: {row['ctx']}"
        for ending in row["endings"]:
            start = len(tokenizer(context)["input_ids"])
            found.append((tokenizer(f"{context} {ending}")["input_ids"], start))
    return found


def compared(scores: list[list[float]], reference: list[list[float]]) -> dict[str, float]:
    """How far scores are from the reference: per token, and in chosen endings."""
    apart = np.abs(np.concatenate([np.subtract(*pair) for pair in zip(scores, reference, strict=True)]))
    chosen, right = (np.reshape([sum(one) for one in each], (-1, 4)).argmax(axis=1) for each in (scores, reference))
    return {
        "tokens": int(apart.size),
        "max": float(apart.max()),
        "mean": float(apart.mean()),
        "changed": int((chosen != right).sum()),
        "documents": len(chosen),
    }


Turn = dict[str, tuple[tuple[float, float], tuple[float, float]]]


def one_round(worker: Worker, base: Worker, cases: Sequence[str], worker_first: bool) -> Turn:
    """Seconds of each case, (wall, CPU) of the plain engine and of the other."""
    found: Turn = {}
    for case in cases:
        order = (worker, base) if worker_first else (base, worker)
        seconds = {one: one.seconds(case, CASES[case][3]) for one in order}
        found[case] = (seconds[base], seconds[worker])
    return found


def rounds(worker: Worker, base: Worker, cases: Sequence[str], args: argparse.Namespace) -> dict[str, Any]:
    """Both engines, interleaved; on a shared machine, CPU seconds are more reliable than wall seconds."""
    turns = []
    for number in range(args.repeats):
        with held(args.lock):
            turns.append(one_round(worker, base, cases, worker_first=number % 2 == 0))
    report: dict[str, Any] = {}
    for case in cases:
        report[case] = {}
        for clock, name in enumerate(("wall", "cpu")):
            pairs = [(turn[case][0][clock], turn[case][1][clock]) for turn in turns]
            ratios = sorted(plain_s / own_s for plain_s, own_s in pairs)
            seconds = [median(each) for each in zip(*pairs, strict=True)]
            report[case][name] = {"ratio": median(ratios), "range": [ratios[0], ratios[-1]], "seconds": seconds}
    return report


def warmed(worker: Worker, cases: Sequence[str], lock: Path | None) -> float:
    """Seconds of the first calls, during which compilers run."""
    with held(lock):
        started = time.perf_counter()
        for case in cases:
            worker.seconds(case, 1)
        return time.perf_counter() - started


def measured(name: str, base: Worker, items: Any, reference: Any, args: argparse.Namespace) -> dict[str, Any]:
    options = Options(str(args.model), str(args.work))
    worker = Worker(name, options)
    try:
        first = warmed(worker, args.cases, args.lock)
        worker.ask("scores", items)
        scores = compared(worker.answer(), reference)
        times = rounds(worker, base, args.cases, args)
    finally:
        worker.close()
    return {"setup_s": worker.setup, "first_calls_s": first, "scores": scores, "times": times}


def exact_scores(options: Options, items: Any) -> list[list[float]]:
    """Scores of the float64 model, made once per work folder."""
    path = Path(options.work) / f"float64-{len(items)}.json"
    if not path.exists():
        worker = Worker("float64", options)
        worker.ask("scores", items)
        path.write_text(json.dumps(worker.answer()))
        worker.close()
    return list(json.loads(path.read_text()))


def engines(args: argparse.Namespace) -> None:
    args.work.mkdir(parents=True, exist_ok=True)
    options = Options(str(args.model), str(args.work))
    items = hellaswag(options, args.data, args.documents)
    reference = exact_scores(options, items)
    base = Worker("plain", options)
    warmed(base, args.cases, args.lock)
    base.ask("scores", items)
    print("plain", json.dumps(compared(base.answer(), reference)), flush=True)
    for name in args.only:
        try:
            found = measured(name, base, items, reference, args)
        except RuntimeError as error:
            print(f"{name}: failed\n{error}", file=sys.stderr, flush=True)
            continue
        with (args.work / "results.jsonl").open("a") as file:
            file.write(json.dumps({"engine": name, **found}) + "\n")
        times = found["times"]
        cells = [f"{times[case]['cpu']['ratio']:.2f} ({times[case]['wall']['ratio']:.2f})" for case in args.cases]
        rest = {key: found[key] for key in ("setup_s", "first_calls_s", "scores")}
        print(f"| {name} | {' | '.join(cells)} |", rest, flush=True)
    base.close()


def processes(args: argparse.Namespace) -> None:
    """One process with two threads against two with one thread, on the same total work."""
    options = Options(str(args.model), "")
    one, *two = (Worker(name, options) for name in ("plain@2", "plain@1", "plain@1"))
    for case in args.cases:
        calls, ratios = 4 * CASES[case][3], []
        for number in range(args.repeats + 1):
            with held(args.lock):
                walls = {}
                for team in ([one], two) if number % 2 else (two, [one]):
                    started = time.perf_counter()
                    for worker in team:
                        worker.ask("time", case, calls // len(team))
                    for worker in team:
                        worker.answer()
                    walls[len(team)] = time.perf_counter() - started
            ratios.append(walls[1] / walls[2])
        kept = ratios[1:]
        print(f"| {case} | {median(kept):.2f} | {min(kept):.2f} to {max(kept):.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["engines", "processes"])
    parser.add_argument("--model", type=Path, help="a transformers folder of SmolLM2-135M")
    parser.add_argument("--data", type=Path, help="HellaSwag's validation.parquet")
    parser.add_argument("--work", type=Path, help="a folder for exported models and results.jsonl")
    parser.add_argument("--only", nargs="+", default=[one for one in ENGINES if one not in ("plain", "float64")])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--documents", type=int, default=20, help="for the scores (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="counted rounds (default: %(default)s)")
    parser.add_argument(
        "--quiet", type=float, default=0.15, help="discard rounds above this foreign load (default: %(default)s)"
    )
    parser.add_argument("--lock", type=Path, help="a file to lock while timing, for machines that are shared")
    args = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # CPU seconds then exclude waiting
    {"engines": engines, "processes": processes}[args.what](args)


if __name__ == "__main__":
    main()
