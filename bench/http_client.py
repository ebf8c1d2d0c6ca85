"""The client of models behind HTTP against a server that costs nothing: Assay compared with lm-eval.

    python -m bench.http_client --lm-eval-python PYTHON [--documents 500 4000] [--repeats 3] [--json out.json]

In: seeded documents, a tokenizer made here, and `bench.free_server` in a process of its own. Both tools run their
whole command line in turn, each in a new process with an empty store: four log-likelihoods per document, or one
generation. Out: prompts per second of the whole command with its start-up; at the server between the first and the last
twentieth, the client alone; and per second of CPU that a longer run adds to a shorter one. Ratios are to lm-eval's best
settings, which may send several prompts per request; Assay sends one.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.overhead import CHOICES, METRICS, SEED, WORDS, check_results, compile_assay, run_measured

HEAD = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {folder}/{name}.jsonl
test_split: test
"""
LIKELIHOODS = """\
output_type: multiple_choice
doc_to_text: "{{query}}"
doc_to_target: "{{gold}}"
doc_to_choice: "choices"
"""
GENERATIONS = """\
output_type: generate_until
doc_to_text: "{{query}}"
doc_to_target: "stone"
generation_kwargs:
  until: ["\\n"]
  max_gen_toks: 8
metric_list:
  - metric: exact_match
"""
KINDS = {"likelihoods": (LIKELIHOODS + METRICS, CHOICES), "generations": (GENERATIONS, 1)}
# Requests in flight and prompts per request that lm-eval is tried with.
LM_EVAL = ((16, 1), (64, 1), (16, 16), (16, 64))
_TRIMMED = 0.05


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one tool.

    Attributes:
        concurrent: requests in flight.
        batch: prompts per request.
        prompts: number of prompts.
        at_server: prompts per second at the server, without the first and last twentieth.
        seconds: wall seconds of the whole command.
        cpu_seconds: CPU seconds of the whole command.
    """

    kind: str
    tool: str
    concurrent: int
    batch: int
    prompts: int
    at_server: float
    seconds: float
    cpu_seconds: float


def write_documents(folder: Path, documents: int) -> None:
    """Writes the rows and the task file of each kind."""
    tasks = folder / "tasks"
    tasks.mkdir()
    for name, (fields, _) in KINDS.items():
        generator = random.Random(SEED)
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as lines:
            for number in range(documents):
                words = [" ".join(generator.choices(WORDS, k=count)) for count in (60, 12, 12, 12, 12)]
                row = {"query": f"{words[0]} {number}", "choices": [f" {text}" for text in words[1:]]}
                lines.write(json.dumps({**row, "gold": generator.randrange(CHOICES)}) + "\n")
        (tasks / f"{name}.yaml").write_text(HEAD.format(name=name, folder=folder) + fields, encoding="utf-8")


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of words for both tools."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *sorted({*WORDS, *(f"Ġ{word}" for word in WORDS)} - {*alphabet})]
    vocabulary = {"<s>": 0, "</s>": 1, **{piece: 2 + number for number, piece in enumerate(pieces)}}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="<s>", continuing_subword_prefix=""))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


@contextmanager
def served(python: str) -> Iterator[int]:
    """The port of a free server in a process of its own."""
    process = subprocess.Popen([python, "-m", "bench.free_server"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def _arrivals(port: int) -> list[float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats") as reply:
        found: list[float] = json.load(reply)
    return found


def _command(tool: str, python: str, kind: str, concurrent: int, batch: int, port: int, folder: Path) -> list[str]:
    address = f"http://127.0.0.1:{port}/v1"
    arguments = f"model=free,tokenizer={folder / 'tokenizer'},num_concurrent={concurrent},max_length=2048"
    if tool == "assay":
        model = ["--model", "openai", "--model_args", f"{arguments},base_url={address}"]
    else:
        arguments += f",base_url={address}/completions,tokenizer_backend=huggingface"
        model = ["--model", "local-completions", "--model_args", arguments, "--batch_size", str(batch)]
    return [python, "-m", tool, "run", *model, "--tasks", kind, "--include_path", str(folder / "tasks")]


def run_once(
    tool: str, python: str, kind: str, settings: tuple[int, int], port: int, folder: Path, documents: int
) -> Run:
    """One run in a folder of its own, checked to have scored everything."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        command = _command(tool, python, kind, *settings, port, folder)
        command += ["--output_path", str(scratch / "out"), "--limit", str(documents)]
        command += ["--store", str(scratch / "store.db")] if tool == "assay" else []
        (scratch / "out").mkdir()
        _arrivals(port)
        seconds, cpu, _ = run_measured(command, scratch, folder / "bytecode" if tool == "assay" else None)
        check_results(scratch / "out", documents, kind)
        arrived = _arrivals(port)
    wanted = documents * KINDS[kind][1]
    if len(arrived) < wanted:
        raise SystemExit(f"{tool}: {len(arrived)} prompts reached the server, expected {wanted}")
    first, last = int(wanted * _TRIMMED), int(wanted * (1 - _TRIMMED))
    times = arrived[len(arrived) - wanted :]
    rate = (last - first) / (times[last] - times[first])
    run = Run(kind, tool, *settings, wanted, round(rate), round(seconds, 2), round(cpu, 2))
    print(_line(run), flush=True)
    return run


def _line(run: Run) -> str:
    return (
        f"{run.kind:<14}{run.tool:<9}{run.concurrent:>5}{run.batch:>7}{run.prompts:>9,}{run.at_server:>12,.0f}"
        f"{run.seconds:>9.2f}{run.cpu_seconds:>9.2f}"
    )


def measure(options: argparse.Namespace) -> list[Run]:
    """Runs all settings in turn, as often as wanted."""
    runs = []
    with tempfile.TemporaryDirectory() as name, served(sys.executable) as port:
        folder = Path(name).resolve()
        write_documents(folder, max(options.documents))
        write_tokenizer(folder / "tokenizer")
        compile_assay(sys.executable, folder / "bytecode")
        for kind in options.kinds:
            turns = [("assay", sys.executable, (each, 1)) for each in options.concurrent]
            if options.lm_eval_python:
                turns += [("lm_eval", options.lm_eval_python, settings) for settings in LM_EVAL]
            for _ in range(options.repeats):
                for tool, python, settings in turns:
                    for documents in options.documents:
                        runs.append(run_once(tool, python, kind, settings, port, folder, documents))
    return runs


@dataclass(frozen=True, slots=True)
class Rates:
    """Prompts per second with one setting: of the whole command, of the client alone, and of CPU without start-up."""

    tool: str
    settings: tuple[int, int]
    whole: float
    at_server: float
    cpu: float


def rates(runs: Sequence[Run]) -> list[Rates]:
    """Medians over the repeats of each setting of one kind."""
    found = []
    for tool, concurrent, batch in dict.fromkeys((run.tool, run.concurrent, run.batch) for run in runs):
        own = [run for run in runs if (run.tool, run.concurrent, run.batch) == (tool, concurrent, batch)]
        sizes = sorted({run.prompts for run in own})
        low, high = ([run for run in own if run.prompts == size] for size in (sizes[0], sizes[-1]))
        added = sizes[-1] - sizes[0]
        whole = sizes[-1] / median(run.seconds for run in high)
        cpu = added / (median(run.cpu_seconds for run in high) - median(run.cpu_seconds for run in low))
        found.append(Rates(tool, (concurrent, batch), whole, median(run.at_server for run in high), cpu))
    return found


def summary(runs: Sequence[Run]) -> str:
    """The best setting of each tool by each measure, and the ratios."""
    lines = []
    for kind in dict.fromkeys(run.kind for run in runs):
        found = rates([run for run in runs if run.kind == kind])
        for title, key in (("whole command", "whole"), ("client alone", "at_server"), ("per CPU second", "cpu")):
            best = {
                tool: max((each for each in found if each.tool == tool), key=lambda each: float(getattr(each, key)))
                for tool in dict.fromkeys(each.tool for each in found)
            }
            text = f"{kind}, {title}: " + "; ".join(
                f"{tool} {getattr(each, key):,.0f}/s ({each.settings[0]} in flight, {each.settings[1]} per request)"
                for tool, each in best.items()
            )
            if len(best) == 2:
                text += f"; ratio {getattr(best['assay'], key) / getattr(best['lm_eval'], key):.1f}"
            lines.append(text)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm-eval-python", help="a Python with lm-eval; without it Assay runs alone")
    parser.add_argument("--documents", type=int, nargs=2, default=[500, 4000], metavar="N", help="two sizes of a run")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--concurrent", type=int, nargs="+", default=[64], help="requests in flight of Assay")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=tuple(KINDS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures here")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f}")
    print(f"{'kind':<14}{'tool':<9}{'open':>5}{'batch':>7}{'prompts':>9}{'at server/s':>12}{'wall s':>9}{'CPU s':>9}")
    runs = measure(options)
    print(summary(runs))
    if options.json:
        options.json.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
