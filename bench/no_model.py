"""100,000 requests without a model, in the shapes of HellaSwag 0-shot and ARC 25-shot: Assay compared with lm-eval.

    python -m bench.no_model --lm-eval-python PYTHON [--repeats 3] [--lm-eval-documents 0 500 2000] [--json out.json]

In: seeded data of the real shapes, with the real tasks' templates. Both tools run their whole command line, in turn,
each in a process of its own with empty caches and store, and write what --output_path alone makes them write.
Out: wall seconds, CPU seconds, peak memory, ratio. Where lm-eval answers fewer documents, its time for all of them is
the straight line through its two sizes: start-up and reading the data count once, and the row says "extrapolated".
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench.overhead import CHOICES, METRICS, SEED, WORDS, check_results, compile_assay, run_measured

EXAMPLES = 1119  # as many as ARC-Challenge's training split has
HEAD = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    train: {folder}/{name}_train.jsonl
    {split}: {folder}/{name}.jsonl
output_type: multiple_choice
training_split: train
{split}_split: {split}
"""
# The fields of lm-eval's hellaswag.yaml, whose process_docs has run already, and of its arc_easy.yaml.
HELLASWAG = """\
doc_to_text: "{{query}}"
doc_to_target: "{{label}}"
doc_to_choice: "choices"
"""
ARC = """\
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
should_decontaminate: true
doc_to_decontamination_query: "Question: {{question}}\\nAnswer:"
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of benchmark: how its rows are made, its task file and its shots."""

    name: str
    split: str
    fields: str
    shots: int
    make_row: Callable[[random.Random, int], dict[str, object]]


@dataclass(frozen=True, slots=True)
class NoModelOptions:
    """What to measure.

    Attributes:
        lm_eval_python: a Python with lm-eval; None measures Assay alone.
        assay_python: a Python with assay.
        documents: documents of each shape, 4 requests each.
        repeats: runs of each tool, size and shape.
        lm_eval_sizes: shape → documents that lm-eval answers; a shape that is not named is run whole. Fewer than all
            need two sizes.
        shapes: names of the shapes to run.
    """

    lm_eval_python: str | None = None
    assay_python: str = sys.executable
    documents: int = 25_000
    repeats: int = 3
    lm_eval_sizes: dict[str, tuple[int, ...]] = field(default_factory=lambda: {"arc_25_shot": (500, 2000)})
    shapes: tuple[str, ...] = ("hellaswag_0_shot", "arc_25_shot")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one tool. Memory is the largest of the process and of the children it waited for."""

    tool: str
    documents: int
    wall_seconds: float
    cpu_seconds: float
    peak_megabytes: float


@dataclass(frozen=True, slots=True)
class NoModelRow:
    """Medians of one shape.

    Attributes:
        requests: number of requests that the seconds are for.
        seconds: Assay's wall seconds; `cpu_seconds` and `peak_megabytes` are also Assay's.
        lm_eval_seconds: lm-eval's for as many requests; None when it did not run.
        lm_eval_documents: how many documents it answered; fewer than all means that its seconds are extrapolated.
        ratio: lm-eval's wall seconds by Assay's.
        runs: every single run.
    """

    shape: str
    requests: int
    seconds: float
    cpu_seconds: float
    peak_megabytes: float
    lm_eval_seconds: float | None
    lm_eval_cpu_seconds: float | None
    lm_eval_peak_megabytes: float | None
    lm_eval_documents: tuple[int, ...]
    is_extrapolated: bool
    ratio: float | None
    cpu_ratio: float | None
    runs: tuple[Run, ...]


def _words(generator: random.Random, fewest: int, most: int) -> str:
    return " ".join(generator.choices(WORDS, k=generator.randint(fewest, most)))


def _hellaswag_row(generator: random.Random, number: int) -> dict[str, object]:
    label, context = _words(generator, 2, 4), f"{_words(generator, 15, 60)} {number}"
    endings = [_words(generator, 10, 42) + "." for _ in range(CHOICES)]
    gold = generator.randrange(CHOICES)
    row = {"ind": number, "activity_label": label, "ctx_a": context, "ctx_b": "", "ctx": context, "endings": endings}
    row |= {"source_id": f"made~{number}", "split": "val", "split_type": "indomain", "label": str(gold)}
    return row | {"query": f"{label}: {context}", "choices": endings, "gold": gold}


def _arc_row(generator: random.Random, number: int) -> dict[str, object]:
    texts = [_words(generator, 1, 10) for _ in range(CHOICES)]
    question = f"{_words(generator, 10, 38)} {number}?"
    choices = {"text": texts, "label": list("ABCD")}
    return {"id": f"made-{number}", "question": question, "choices": choices, "answerKey": generator.choice("ABCD")}


SHAPES = {
    "hellaswag_0_shot": Shape("hellaswag_0_shot", "validation", HELLASWAG, 0, _hellaswag_row),
    "arc_25_shot": Shape("arc_25_shot", "test", ARC, 25, _arc_row),
}


def write_shape(shape: Shape, folder: Path, documents: int) -> None:
    """Writes a shape's rows, its pool of examples and its task file; the same for the same number of documents."""
    generator = random.Random(SEED)
    for name, count, first in ((f"{shape.name}_train", EXAMPLES, documents), (shape.name, documents, 0)):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as lines:
            for number in range(first, first + count):
                lines.write(json.dumps(shape.make_row(generator, number)) + "\n")
    tasks = folder / "tasks"
    tasks.mkdir(exist_ok=True)
    head = HEAD.format(name=shape.name, folder=folder, split=shape.split)
    (tasks / f"{shape.name}.yaml").write_text(head + shape.fields + METRICS, encoding="utf-8")


def _run(tool: str, options: NoModelOptions, shape: Shape, documents: int, folder: Path) -> Run:
    """One run in a folder of its own, checked to have scored everything."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        output = scratch / "out"
        output.mkdir()
        python = options.assay_python if tool == "assay" else options.lm_eval_python
        command = [str(python), "-m", tool, "run", "--model", "dummy", "--tasks", shape.name]
        command += ["--include_path", str(folder / "tasks"), "--output_path", str(output)]
        command += ["--num_fewshot", str(shape.shots)] if shape.shots else []
        command += ["--limit", str(documents)] if documents < options.documents else []
        command += ["--store", str(scratch / "store.db")] if tool == "assay" else []
        figures = [
            round(figure, 3)
            for figure in run_measured(command, scratch, folder / "bytecode" if tool == "assay" else None)
        ]
        check_results(output, documents, shape.name)
    run = Run(tool, documents, *figures)
    print(
        f"{shape.name:<20}{tool:<10}{documents:>8}{figures[0]:>10.2f}{figures[1]:>10.2f}{figures[2]:>10.0f}", flush=True
    )
    return run


def _line(sizes: Sequence[int], seconds: Sequence[float], wanted: int) -> float:
    """Seconds for the wanted size: as measured, else on the straight line through the smallest and largest size."""
    measured = dict(zip(sizes, seconds, strict=True))
    if wanted in measured:
        return measured[wanted]
    low, high = min(measured), max(measured)
    if low == high:
        raise SystemExit(f"lm-eval ran {low} of {wanted} documents: a second size must separate its start-up time")
    slope = (measured[high] - measured[low]) / (high - low)
    return measured[high] + slope * (wanted - high)


def _medians(runs: Sequence[Run], tool: str, figure: str) -> dict[int, float]:
    sizes = sorted({run.documents for run in runs if run.tool == tool})
    return {
        size: median(getattr(run, figure) for run in runs if run.tool == tool and run.documents == size)
        for size in sizes
    }


def _row(shape: Shape, options: NoModelOptions, runs: Sequence[Run]) -> NoModelRow:
    own = {name: _medians(runs, "assay", name)[options.documents] for name in ("wall_seconds", "cpu_seconds")}
    walls, cpus = (_medians(runs, "lm_eval", name) for name in ("wall_seconds", "cpu_seconds"))
    sizes = tuple(walls)
    wall = _line(sizes, tuple(walls.values()), options.documents) if sizes else None
    cpu = _line(sizes, tuple(cpus.values()), options.documents) if sizes else None
    peaks = [run.peak_megabytes for run in runs if run.tool == "lm_eval"]
    return NoModelRow(
        shape=shape.name,
        requests=options.documents * CHOICES,
        seconds=own["wall_seconds"],
        cpu_seconds=own["cpu_seconds"],
        # A bound must hold in every run, so compare the maximum of ours with the maximum of theirs.
        peak_megabytes=max(run.peak_megabytes for run in runs if run.tool == "assay"),
        lm_eval_seconds=wall,
        lm_eval_cpu_seconds=cpu,
        lm_eval_peak_megabytes=max(peaks, default=None),
        lm_eval_documents=sizes,
        is_extrapolated=bool(sizes) and options.documents not in sizes,
        ratio=None if wall is None else wall / own["wall_seconds"],
        cpu_ratio=None if cpu is None else cpu / own["cpu_seconds"],
        runs=tuple(runs),
    )


def measure(options: NoModelOptions) -> list[NoModelRow]:
    """Runs every shape with the tools interleaved, so that a slow phase of the machine affects both."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        compile_assay(options.assay_python, folder / "bytecode")
        for shape in (SHAPES[name] for name in options.shapes):
            write_shape(shape, folder, options.documents)
            sizes = options.lm_eval_sizes.get(shape.name) or (options.documents,)
            turns = [("lm_eval", min(size, options.documents)) for size in sizes] if options.lm_eval_python else []
            turns.append(("assay", options.documents))
            runs = [_run(tool, options, shape, size, folder) for _ in range(options.repeats) for tool, size in turns]
            rows.append(_row(shape, options, runs))
    return rows


def table(rows: Sequence[NoModelRow]) -> str:
    """The rows for people."""
    lines = [f"{'shape':<20}{'requests':>10}{'assay s':>10}{'MB':>6}{'lm-eval s':>11}{'MB':>6}{'ratio':>8}{'CPU':>8}"]
    for row in rows:
        line = f"{row.shape:<20}{row.requests:>10}{row.seconds:>10.2f}{row.peak_megabytes:>6.0f}"
        if row.ratio is not None and row.lm_eval_seconds is not None:
            line += (
                f"{row.lm_eval_seconds:>11.1f}{row.lm_eval_peak_megabytes:>6.0f}{row.ratio:>8.1f}{row.cpu_ratio:>8.1f}"
            )
        if row.is_extrapolated:
            line += f"  extrapolated from {' and '.join(map(str, row.lm_eval_documents))} documents"
        lines.append(line)
    return "\n".join(lines)


def _options() -> tuple[NoModelOptions, Path | None]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm-eval-python", help="a Python with lm-eval; without it Assay runs alone")
    parser.add_argument("--assay-python", default=sys.executable, help="a Python with assay (default: this one)")
    parser.add_argument("--documents", type=int, default=25_000, help="4 requests each (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each (default: %(default)s)")
    parser.add_argument(
        *("--lm-eval-documents", "-n"),
        type=int,
        nargs="+",
        default=[500, 2000],
        metavar="N",
        help="documents that lm-eval answers 25-shot, two sizes, or 0 for all, 15 minutes (default: 500 2000)",
    )
    parser.add_argument("--shapes", nargs="+", choices=tuple(SHAPES), default=tuple(SHAPES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures here")
    args = parser.parse_args()
    sizes = tuple(size for size in args.lm_eval_documents if size)
    options = NoModelOptions(
        lm_eval_python=args.lm_eval_python,
        assay_python=args.assay_python,
        documents=args.documents,
        repeats=args.repeats,
        lm_eval_sizes={"arc_25_shot": sizes},
        shapes=tuple(args.shapes),
    )
    return options, args.json


def main() -> None:
    options, path = _options()
    print(f"{options.documents * CHOICES} requests, load {os.getloadavg()[0]:.2f}")
    print(f"{'shape':<20}{'tool':<10}{'docs':>8}{'wall s':>10}{'CPU s':>10}{'peak MB':>10}")
    rows = measure(options)
    print(table(rows))
    if path:
        path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
