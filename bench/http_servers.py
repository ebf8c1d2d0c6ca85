"""Whole runs behind a real server, beside lm-eval's client: the same tasks, the same vLLM, interleaved.

    python -m bench.http_servers --server-python PYTHON --lm-eval-python PYTHON --shared DIR [--documents 20]

In: a Python with vLLM, one with lm-eval, and the folder with data/ and tools/ (served as a hub on loopback). Out: a
table of seconds per whole run (`assay run --model openai`, `lm_eval run --model local-completions` with each of its
settings), the ratio to lm-eval's best setting, and the scores of both. The server's prefix cache is emptied before each
run, and Assay's store is new each time. Exit code 1 if the ratio is below 1.5 or scores differ.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.core.errors import AssayError, Fault, UserError
from parity.hub import served_hub
from parity.installation import LmEval, find_lm_eval
from parity.server_process import MODEL, VLLM, Server, model_folder, python_with, running

BAR = 1.5
# Tasks by name → the file of lm-eval that it includes, and its number of examples.
TASKS = {
    "hellaswag": ("hellaswag/hellaswag.yaml", 0),
    "mmlu": ("mmlu/default/mmlu_anatomy.yaml", 5),
    "gsm8k": ("gsm8k/gsm8k.yaml", 5),
}
# lm-eval's settings: num_concurrent and batch_size.
SETTINGS = ("1x1", "8x1", "32x1", "1x8", "8x8")
_SECONDS = 3600
OURS = "assay"


@dataclass(slots=True)
class Side:
    """Measurements of one program with one setting.

    Attributes:
        name: `assay`, or lm-eval's num_concurrent x batch_size.
        seconds: seconds per run.
        scores: task and metric → score of the last run.
    """

    name: str
    seconds: list[float] = field(default_factory=list)
    scores: Mapping[str, float] = field(default_factory=dict)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server-python", help="a Python with vLLM (default: the variable VLLM_PYTHON)")
    parser.add_argument("--lm-eval-python", required=True, help="a Python with lm-eval; its task files are used")
    parser.add_argument("--shared", type=Path, required=True, help="the folder with data/ and tools/")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--documents", type=int, default=20, help="documents per task (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens of generations (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=2, help="rounds (default: %(default)s)")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), help="lm-eval's num_concurrent x batch_size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures here")
    return parser.parse_args()


class Bench:
    """Runs both programs on one server."""

    def __init__(self, args: argparse.Namespace, server: Server, lm_eval: LmEval, scratch: Path, hub: str) -> None:
        self._args, self._server, self._lm_eval, self._scratch = args, server, lm_eval, scratch
        self._tasks = write_tasks(args.tasks, lm_eval, scratch / "tasks")
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        self._environment |= {"HF_ENDPOINT": hub, "HF_HOME": str(scratch / "hf"), "TOKENIZERS_PARALLELISM": "true"}
        self._count = 0

    def run(self, side: Side, documents: int) -> float:
        """Seconds of one whole run."""
        self._count += 1
        out = self._scratch / f"out{self._count}"
        command = self._ours(out) if side.name == OURS else self._theirs(side.name, out)
        command += ["--tasks", ",".join(self._tasks), "--include_path", str(self._scratch / "tasks")]
        command += ["--limit", str(documents), "--gen_kwargs", f"max_gen_toks={self._args.tokens}"]
        command += ["--output_path", str(out)]
        _empty_cache(self._server)
        started = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, env=self._environment, timeout=_SECONDS, check=False
        )
        seconds = time.perf_counter() - started
        if done.returncode:
            raise AssayError(f"{side.name} ended with code {done.returncode}:\n{done.stderr[-2000:]}")
        (results,) = out.rglob("results_*.json")
        found = json.loads(results.read_text(encoding="utf-8"))["results"]
        side.scores = {
            f"{task} {metric}": value
            for task, metrics in found.items()
            for metric, value in metrics.items()
            if "," in metric and "_stderr" not in metric
        }
        return seconds

    def _ours(self, out: Path) -> list[str]:
        place = f"model={MODEL},base_url={self._server.url},tokenizer={model_folder()}"
        tokens = "add_bos_token=false,prefix_token_id=0,num_concurrent=32"
        command = [sys.executable, "-m", "assay", "run", "--model", "openai", "--model_args", f"{place},{tokens}"]
        # Code of lm-eval's task files runs here, too, as it does there.
        folders = [str((Path(self._lm_eval.tasks_folder) / TASKS[name][0]).parent) for name in self._args.tasks]
        trusted = [part for folder in folders for part in ("--include_path", folder)]
        return [*command, "--store", f"{out}.db", "--allow_code", *trusted]

    def _theirs(self, setting: str, out: Path) -> list[str]:
        concurrent, batch = setting.split("x")
        place = f"model={MODEL},base_url={self._server.url}/completions,tokenizer={model_folder()}"
        tokens = f"tokenizer_backend=huggingface,tokenized_requests=True,num_concurrent={concurrent},timeout=3600"
        command = [self._lm_eval.python, "-m", "lm_eval", "run", "--model", "local-completions"]
        return [*command, "--model_args", f"{place},{tokens},custom_prefix_token_id=0", "--batch_size", batch]


def write_tasks(names: Sequence[str], lm_eval: LmEval, folder: Path) -> list[str]:
    """Task files for both programs, which include lm-eval's own; gives their names."""
    folder.mkdir()
    made = []
    for name in names:
        file, shots = TASKS[name]
        made.append(f"served_{name}")
        lines = [f"include: {Path(lm_eval.tasks_folder) / file}", f"task: served_{name}", f"num_fewshot: {shots}"]
        (folder / f"served_{name}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


def _empty_cache(server: Server) -> None:
    request = urllib.request.Request(server.url.removesuffix("/v1") + "/reset_prefix_cache", method="POST")
    with urllib.request.urlopen(request, timeout=60):
        pass


def measure(bench: Bench, args: argparse.Namespace) -> list[Side]:
    """All sides, in another order each round."""
    sides = [Side(OURS), *(Side(setting) for setting in args.settings)]
    for side in sides[:2]:
        bench.run(side, 1)  # fills the datasets' cache; the server's first request is slow
    for number in range(args.repeats):
        for side in random.sample(sides, len(sides)):
            side.seconds.append(bench.run(side, args.documents))
            print(f"round {number + 1}: {side.name} {side.seconds[-1]:.1f} s", file=sys.stderr, flush=True)
    return sides


def report(sides: Sequence[Side], args: argparse.Namespace) -> bool:
    """Prints the table; returns whether the bar is reached with the same scores."""
    ours, *theirs = sides
    best = min(theirs, key=lambda side: min(side.seconds))
    print(f"{'run':24} {'best':>8} {'all':>24}   whole run, seconds")
    for side in sides:
        name = side.name if side is ours else f"lm-eval {side.name}" + (" (best)" if side is best else "")
        print(f"{name:24} {min(side.seconds):8.1f} {' '.join(f'{one:.1f}' for one in side.seconds):>24}")
    rounds = [theirs_s / ours_s for ours_s, theirs_s in zip(ours.seconds, best.seconds, strict=True)]
    ratio = min(best.seconds) / min(ours.seconds)
    print(f"ratio {ratio:.2f} (rounds: {', '.join(f'{one:.2f}' for one in rounds)}), at least {BAR}")
    differing = {name for name, value in best.scores.items() if abs(ours.scores.get(name, 9e9) - value) > 1e-9}
    for name, value in best.scores.items():
        print(f"  {name}: assay {ours.scores.get(name)}, lm-eval {value}")
    if args.json:
        figures = {side.name: {"seconds": side.seconds, "scores": side.scores} for side in sides}
        args.json.write_text(json.dumps({"documents": args.documents, "ratio": ratio, "runs": figures}, indent=2))
    return ratio >= BAR and not differing


def run(args: argparse.Namespace) -> int:
    wrong = [setting for setting in args.settings if not all(part.isdecimal() for part in setting.split("x", 1))]
    if wrong or any("x" not in setting for setting in args.settings):
        raise UserError(
            Fault("--settings", f"is {' '.join(args.settings)}", "such as 8x1: num_concurrent x batch_size")
        )
    python, lm_eval = python_with(VLLM, args.server_python), find_lm_eval(args.lm_eval_python)
    # The server's own switch for emptying its cache.
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"
    with tempfile.TemporaryDirectory() as folder, served_hub(args.shared.resolve()) as hub:
        scratch = Path(folder)
        with running(VLLM, python, scratch / "server.log", most=32) as server:
            bench = Bench(args, server, lm_eval, scratch, hub.address)
            return 0 if report(measure(bench, args), args) else 1


def main() -> None:
    try:
        sys.exit(run(arguments()))
    except AssayError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
