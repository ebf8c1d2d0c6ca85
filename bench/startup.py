"""Start-up time of the command line: `assay --help` compared with bare Python and lm-eval.

    python bench/startup.py [--assay-python PYTHON] [--lm-eval-python PYTHON] [--repeats 15]

In: the Pythons to start. Out: the median wall seconds of each command and its ratio to `python -c pass`.
The commands are interleaved, and the first round, which fills the file caches, is not counted.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from statistics import median


def timed(command: Sequence[str]) -> float:
    """Wall seconds of one run of a command, which must succeed."""
    started = time.perf_counter()
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if finished.returncode:
        raise SystemExit(f"{' '.join(command)}\nfailed (exit {finished.returncode}):\n{finished.stderr[-2000:]}")
    return seconds


def medians(commands: dict[str, list[str]], repeats: int) -> dict[str, float]:
    """Median seconds of each command over interleaved repeats."""
    rounds = [{name: timed(command) for name, command in commands.items()} for _ in range(repeats + 1)]
    return {name: median(found[name] for found in rounds[1:]) for name in commands}


def commands_for(args: argparse.Namespace) -> dict[str, list[str]]:
    commands = {"python -c pass": [args.assay_python, "-c", "pass"]}
    if not args.skip_assay:
        commands["assay --help"] = [args.assay_python, "-m", "assay", "--help"]
    if args.lm_eval_python:
        commands["lm_eval --help"] = [args.lm_eval_python, "-m", "lm_eval", "--help"]
    return commands


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assay-python", default=sys.executable, help="a Python with assay (default: this one)")
    parser.add_argument("--lm-eval-python", help="a Python with lm-eval (default: leave lm-eval out)")
    parser.add_argument("--repeats", type=int, default=15, help="counted rounds (default: %(default)s)")
    parser.add_argument("--skip-assay", action="store_true")
    args = parser.parse_args()
    found = medians(commands_for(args), args.repeats)
    bare = found["python -c pass"]
    print(f"{'command':<18}{'median s':>10}{'ratio':>8}")
    for name, seconds in found.items():
        print(f"{name:<18}{seconds:>10.3f}{seconds / bare:>8.1f}")


if __name__ == "__main__":
    main()
