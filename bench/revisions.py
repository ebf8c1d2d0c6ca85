"""Two checkouts of Assay side by side: is the newer one slower?

    python -m bench.revisions OLD [NEW] [--repeats 5] [--documents 20000] [--lm-eval-python PYTHON --shared DIR]

In: two checkouts (NEW: this one) that run in this Python. Out: per workload the median CPU and wall seconds of both,
and NEW divided by OLD. Workloads: `assay --help`; a run without a model, from a task file to results; the time to the
first request of a demo task; and, with --lm-eval-python (for its task files) and --shared, the engine's seconds on
HellaSwag. The checkouts take turns; the first round, which compiles and fills caches, is not counted.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.first_request import ASSAY
from bench.overhead import assay_command, write_benchmark

Seconds = tuple[float, float]


def measured(command: list[str], checkout: Path) -> Seconds:
    """CPU and wall seconds of a command that runs a checkout's code and must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "HF_HUB_OFFLINE": "1"}
    started = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(command, cwd=checkout, env=environment, stdout=log, stderr=log)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            log.seek(0)
            raise SystemExit(f"{' '.join(command)}\nfailed (exit {child.returncode}):\n{log.read().decode()[-2000:]}")
    return usage.ru_utime + usage.ru_stime, wall


def engine_seconds(args: argparse.Namespace, checkout: Path) -> Seconds:
    """Seconds of the engine on HellaSwag, as that checkout's own benchmark measures them."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "engine.json"
        command = [sys.executable, "-m", "bench.vs_lm_eval", "--only", "ours", "--workloads", "hellaswag"]
        command += ["--lm-eval-python", args.lm_eval_python, "--shared", str(args.shared.resolve())]
        measured([*command, "--repeats", "1", "--json", str(report)], checkout)
        (found,) = json.loads(report.read_text(encoding="utf-8"))["workloads"]
        return found["seconds"], found["seconds"]


def workloads(args: argparse.Namespace, folder: Path) -> dict[str, Callable[[Path], Seconds]]:
    """Name → function that measures a checkout once."""
    write_benchmark(folder, args.documents, templated=False)

    def no_model(checkout: Path) -> Seconds:
        with tempfile.TemporaryDirectory(dir=folder) as output:
            return measured(assay_command(sys.executable, folder / "tasks", Path(output)), checkout)

    def first_request(checkout: Path) -> Seconds:
        with tempfile.TemporaryDirectory(dir=folder) as output:
            words = ["run", "--model", "dummy", "--tasks", "demo_questions", "--store", f"{output}/store.db"]
            return measured([sys.executable, "-c", ASSAY, *words], checkout)

    found: dict[str, Callable[[Path], Seconds]] = {
        "assay --help": lambda checkout: measured([sys.executable, "-m", "assay", "--help"], checkout),
        "first request": first_request,
        f"{args.documents:,} documents, no model": no_model,
    }
    if args.shared and args.lm_eval_python:
        found["HellaSwag, engine"] = lambda checkout: engine_seconds(args, checkout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the checkout to compare with")
    parser.add_argument("new", type=Path, nargs="?", default=Path(__file__).parents[1], help="default: this one")
    parser.add_argument("--repeats", type=int, default=5, help="counted rounds (default: %(default)s)")
    parser.add_argument(
        "--documents", type=int, default=20_000, help="documents in the run without a model (default: %(default)s)"
    )
    parser.add_argument("--lm-eval-python", help="a Python with lm-eval; its task files are used")
    parser.add_argument("--shared", type=Path, help="the folder with data/ and tools/")
    args = parser.parse_args()
    checkouts = args.old.absolute(), args.new.absolute()
    print(f"{'workload':<32}{'old cpu':>10}{'new cpu':>10}{'ratio':>8}{'old wall':>10}{'new wall':>10}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in workloads(args, Path(folder)).items():
            rounds = [[measure(checkout) for checkout in checkouts] for _ in range(args.repeats + 1)][1:]
            cpu, wall = ([median(one[place][kind] for one in rounds) for place in (0, 1)] for kind in (0, 1))
            parts = (f"{old:>10.3f}{new:>10.3f}{new / old:>8.2f}" for old, new in (cpu, wall))
            print(f"{name:<32}{''.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
