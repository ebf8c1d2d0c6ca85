"""What the framework itself costs: requests through a dummy model, from YAML to results, compared with lm-eval.

    python bench/overhead.py --lm-eval-python PYTHON [--repeats 3] [--json out.json]

In: a synthetic multiple-choice benchmark made here (seeded; 4 requests a document). Both tools run it, interleaved,
each run in its own process, with empty output, store and cache folders. Out: wall seconds, CPU seconds and
peak memory of each run, medians and their ratio. On a shared machine, CPU seconds are more reliable than wall seconds.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

SEED = 20240229
CHOICES = 4
WORD_LIST = (
    "the of and to in is that it was for on are as with they be at one have this from by hot word but what some we can "
    "out other were all there when up use your how said an each she which do their time if will way about many then "
    "them write would like so these her long make thing see him two has look more day could go come did number sound "
    "no most people my over know water than call first who may down side been now find river stone light garden winter "
    "teacher animal music bridge copper engine planet forest metal island"
)
WORDS = WORD_LIST.split()
METRICS = """\
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1.0
"""
TASK = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
output_type: multiple_choice
test_split: test
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: {choices}
doc_to_target: {target}
"""
TASK += METRICS
NAME = "bench_overhead"


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one tool. CPU and memory include child processes the tool waited for."""

    tool: str
    repeat: int
    wall_seconds: float
    cpu_seconds: float
    peak_megabytes: float


def write_benchmark(folder: Path, documents: int, templated: bool) -> None:
    """Write the synthetic data and its task file, the same for the same number of documents.

    Choices and target are plain columns, or templates as in many real tasks, which cost lm-eval much more.
    """
    generator = random.Random(SEED)
    data = folder / "data.jsonl"
    with data.open("w", encoding="utf-8") as lines:
        for number in range(documents):
            words = generator.choices(WORDS, k=generator.randint(20, 30))
            choices = [" ".join(generator.choices(WORDS, k=generator.randint(1, 6))) for _ in range(CHOICES)]
            # The number keeps documents distinct, so that no tool may answer two of them at once.
            row = {
                "question": f"{' '.join(words)} {number}?",
                "choices": choices,
                "label": generator.randrange(CHOICES),
            }
            lines.write(json.dumps(row) + "\n")
    (folder / "tasks").mkdir()
    fields = {"choices": "choices", "target": "label"}
    if templated:
        fields = {"choices": '"{{choices}}"', "target": '"{{label}}"'}
    (folder / "tasks" / f"{NAME}.yaml").write_text(TASK.format(name=NAME, data=data, **fields), encoding="utf-8")


def lm_eval_command(python: str, tasks: Path, output: Path) -> list[str]:
    command = [python, "-m", "lm_eval", "run", "--model", "dummy", "--tasks", NAME]
    return [*command, "--include_path", str(tasks), "--output_path", str(output)]


def assay_command(python: str, tasks: Path, output: Path) -> list[str]:
    command = [python, "-m", "assay", "run", "--model", "dummy", "--tasks", NAME]
    return [*command, "--include_path", str(tasks), "--output_path", str(output), "--store", str(output / "store.db")]


def environment(scratch: Path, bytecode: Path | None) -> dict[str, str]:
    """Environment with caches in an empty folder of the run, and without access to a hub."""
    caches = {"HF_HOME": str(scratch / "hf"), "XDG_CACHE_HOME": str(scratch / "cache")}
    settings = {**os.environ, **caches, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    if bytecode is not None:
        settings |= {"PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    return settings


def compile_assay(python: str, bytecode: Path) -> None:
    """Compiles Assay's modules into a folder. An installed lm-eval has its bytecode; a checkout has none."""
    with tempfile.TemporaryDirectory() as name:
        command = [python, "-m", "assay", "run", "--model", "dummy", "--tasks", "demo_questions", "--limit", "1"]
        run_measured([*command, "--store", f"{name}/store.db", "--output_path", name], Path(name), bytecode)


def run_measured(command: Sequence[str], scratch: Path, bytecode: Path | None = None) -> tuple[float, float, float]:
    """Run a command to its end; gives wall seconds, CPU seconds and peak resident megabytes."""
    log = scratch / "log.txt"
    with log.open("wb") as stream:
        started = time.perf_counter()
        child = subprocess.Popen(command, cwd=scratch, env=environment(scratch, bytecode), stdout=stream, stderr=stream)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise SystemExit(f"{' '.join(command)}\nfailed (exit {child.returncode}):\n{tail}")
    # Linux counts ru_maxrss in kilobytes, macOS in bytes.
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit


def check_results(output: Path, documents: int, task: str = NAME) -> None:
    """Rejects a run that did not score everything."""
    found = sorted(output.rglob("results_*.json"))
    if len(found) != 1:
        raise SystemExit(f"{output}: {len(found)} results_*.json found, expected 1")
    scored = json.loads(found[0].read_text(encoding="utf-8"))["results"][task]["sample_len"]
    if scored != documents:
        raise SystemExit(f"{found[0]}: {scored} documents scored, expected {documents}")


def measure(tool: str, command: Callable[[Path], list[str]], folder: Path, repeat: int, documents: int) -> Measured:
    """One run of one tool in its own folders, checked, with its figures printed."""
    scratch = folder / f"{tool}_{repeat}"
    output = scratch / "out"
    output.mkdir(parents=True)
    bytecode = folder / "bytecode" if tool == "assay" else None
    run = Measured(tool, repeat, *(round(figure, 3) for figure in run_measured(command(output), scratch, bytecode)))
    check_results(output, documents)
    print(row(f"{tool} {repeat}", run.wall_seconds, run.cpu_seconds, run.peak_megabytes), flush=True)
    return run


def row(label: str, wall: float, cpu: float, memory: float) -> str:
    return f"{label:<16}{wall:>12.2f}{cpu:>12.2f}{memory:>12.0f}"


def summary(runs: Sequence[Measured]) -> dict[str, Any]:
    """Median figures of each tool, and lm-eval's divided by Assay's where both ran."""
    figures = ("wall_seconds", "cpu_seconds", "peak_megabytes")
    tools = {run.tool for run in runs}
    found: dict[str, Any] = {
        tool: {name: median(getattr(run, name) for run in runs if run.tool == tool) for name in figures}
        for tool in sorted(tools)
    }
    if {"lm_eval", "assay"} <= tools:
        found["ratio"] = {name: found["lm_eval"][name] / found["assay"][name] for name in figures}
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm-eval-python", help="a Python with lm-eval; needed unless --skip-lm-eval")
    parser.add_argument("--assay-python", default=sys.executable, help="a Python with assay (default: this one)")
    parser.add_argument("--documents", type=int, default=50_000, help="4 requests each (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each tool (default: %(default)s)")
    parser.add_argument("--templated", action="store_true", help="choices and target as Jinja, not as columns")
    parser.add_argument("--skip-lm-eval", action="store_true")
    parser.add_argument("--skip-assay", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures here")
    args = parser.parse_args()
    if not args.skip_lm_eval and not args.lm_eval_python:
        parser.error("--lm-eval-python: missing; name a Python that has lm-eval, or use --skip-lm-eval")
    return args


def measure_all(args: argparse.Namespace, folder: Path) -> list[Measured]:
    """All runs, with the tools interleaved, so that a slow phase of the machine affects both."""
    tasks = folder / "tasks"
    commands: dict[str, Callable[[Path], list[str]]] = {}
    if not args.skip_lm_eval:
        commands["lm_eval"] = lambda output: lm_eval_command(args.lm_eval_python, tasks, output)
    if not args.skip_assay:
        commands["assay"] = lambda output: assay_command(args.assay_python, tasks, output)
        compile_assay(args.assay_python, folder / "bytecode")
    return [
        measure(tool, command, folder, repeat, args.documents)
        for repeat in range(1, args.repeats + 1)
        for tool, command in commands.items()
    ]


def main() -> None:
    args = arguments()
    print(f"{args.documents} documents, {args.documents * CHOICES} requests, load {os.getloadavg()[0]:.2f}")
    print(f"{'run':<16}{'wall s':>12}{'CPU s':>12}{'peak MB':>12}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        write_benchmark(folder, args.documents, args.templated)
        runs = measure_all(args, folder)
    found = summary(runs)
    for tool in ("lm_eval", "assay"):
        if tool in found:
            print(row(f"{tool} median", *found[tool].values()))
    if "ratio" in found:
        print(row("ratio", *found["ratio"].values()))
    if args.json:
        machine = {"platform": platform.platform(), "processors": os.cpu_count(), "python": platform.python_version()}
        content = {"documents": args.documents, "requests": args.documents * CHOICES, "templated": args.templated}
        content |= {"machine": machine, "runs": [asdict(run) for run in runs], "summary": found}
        args.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
