"""`python -m parity servers`: the same model in this process and behind a real server, request by request.

SmolLM2 in float32 answers tasks of five kinds twice: by `--model hf` and behind vLLM or llama.cpp, by `--model openai`.
Log-likelihoods, texts and scores are compared. Both sides are `assay run` as users run it; answers are read from the
files of samples.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from assay.core.atomic_files import cache_folder
from assay.core.errors import AssayError
from parity.server_process import CONTEXT, LLAMACPP, MODEL, VLLM, Server, model_folder, python_with, running

# A server needs room for two more tokens than a model in this process.
_LENGTH = CONTEXT - 2
_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Case:
    """A task and how it is run.

    Attributes:
        name: name in the table.
        task: the task.
        arguments: further arguments of `assay run`.
        most: highest number of documents.
        is_chat: whether the prompts are conversations.
        servers: servers that it is run on.
    """

    name: str
    task: str
    arguments: tuple[str, ...] = ()
    most: int = 1000
    is_chat: bool = False
    servers: tuple[str, ...] = (VLLM, LLAMACPP)

    @property
    def is_generation(self) -> bool:
        """Whether the answers are texts."""
        return "--gen_kwargs" in self.arguments


_WHOLE = "wikitext"
_SHORT = ("--gen_kwargs", "max_gen_toks=48")
CASES = (
    Case("continuations", "hellaswag"),
    Case("letters", "mmlu_anatomy", ("--num_fewshot", "5")),
    Case("last words", "lambada_openai"),
    # llama.cpp is forced to generate a whole text token by token, which takes minutes.
    Case("whole texts", _WHOLE, most=2, servers=(VLLM,)),
    Case("generation", "gsm8k", ("--num_fewshot", "5", *_SHORT), most=8),
    Case("chat", "gsm8k", ("--num_fewshot", "0", "--apply_chat_template", *_SHORT), most=8, is_chat=True),
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may differ between the two sides.

    Attributes:
        nats: largest difference of the log-likelihood of a continuation.
        share: largest difference of the log-likelihood of a whole text, as a share of it.
        texts: least share of equal generated texts.
    """

    nats: float
    share: float
    texts: float


# Float32 sums in another order: about ten times the largest difference that was measured.
BOUNDS = {VLLM: Bounds(2e-3, 1e-4, 0.9), LLAMACPP: Bounds(3e-2, 1e-3, 0.9)}
# How log-likelihoods are asked for.
DIALECTS = {VLLM: (VLLM, "openai"), LLAMACPP: (LLAMACPP,)}


@dataclass(slots=True)
class Comparison:
    """Answers to one task on both sides.

    Attributes:
        case: the task.
        dialect: how the server was asked.
        differences: absolute differences of log-likelihoods, in nats.
        shares: the same as shares of the log-likelihoods.
        same_greedy: number of equal greedy flags.
        texts: number of generated texts.
        same_texts: number of equal ones.
        scores: metric → (in this process, behind the server).
    """

    case: Case
    dialect: str
    differences: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    same_greedy: int = 0
    texts: int = 0
    same_texts: int = 0
    scores: dict[str, tuple[float, float]] = field(default_factory=dict)

    def is_within(self, bounds: Bounds) -> bool:
        """Whether the two sides differ by no more than is accepted, and anything was compared."""
        if self.case.task == _WHOLE and self.shares:
            return max(self.shares) <= bounds.share
        if self.differences:
            return max(self.differences) <= bounds.nats
        return self.texts > 0 and self.same_texts >= bounds.texts * self.texts


def compare_servers(name: str, chosen: str | None, documents: int, data: Path | None, names: Sequence[str]) -> bool:
    """Runs both sides and prints a table; returns whether they agree.

    Args:
        name: `vllm` or `llamacpp`.
        chosen: a Python that has the server.
        documents: documents per task, at most.
        data: folder of datasets; None for the Hub.
        names: names of cases; empty for all.
    """
    python = python_with(name, chosen)
    cases = [case for case in CASES if name in case.servers and (not names or case.name in names)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        # Before the server starts: both compute with all cores.
        own = {case.name: _run(_own_model(), case, documents, data, folder / f"hf-{case.name}") for case in cases}
        with running(name, python, folder / "server.log") as server:
            found = [
                _compare(
                    case, dialect, own[case.name], _run(model, case, documents, data, folder / _folder(dialect, case))
                )
                for case in cases
                for dialect, model in _models(server, case)
            ]
    _print(name, found)
    return bool(found) and all(entry.is_within(BOUNDS[name]) for entry in found)


def _folder(dialect: str, case: Case) -> str:
    return f"{dialect}-{case.name}"


def _own_model() -> tuple[str, str]:
    tokens = "add_bos_token=false,prefix_token_id=0"
    return "hf", f"pretrained={model_folder()},dtype=float32,max_length={_LENGTH},{tokens}"


def _models(server: Server, case: Case) -> Iterator[tuple[str, tuple[str, str]]]:
    """The model behind the server, in every form that the case has: dialect and arguments of `assay run`."""
    place = f"model={MODEL},base_url={server.url}"
    if case.is_chat:
        yield "chat", ("openai-chat", place)
        return
    tokens = f"tokenizer={model_folder()},add_bos_token=false,prefix_token_id=0"
    for dialect in DIALECTS[server.name][: 1 if case.is_generation else None]:
        yield dialect, ("openai", f"{place},{tokens},dialect={dialect}")


Answers = dict[tuple[Any, ...], Any]
Run = tuple[Answers, Mapping[str, float]]


def _run(model: tuple[str, str], case: Case, documents: int, data: Path | None, folder: Path) -> Run:
    """Answers by document and place, and scores by metric, of one `assay run`."""
    # Answers of this process are kept for the next comparison; those of a server must be its own.
    store = (cache_folder() / "parity" / "servers.db") if model[0] == "hf" else folder / "runs.db"
    command = [sys.executable, "-m", "assay", "run", "--model", model[0], "--model_args", model[1], *case.arguments]
    command += ["--tasks", case.task, "--limit", str(min(documents, case.most)), "--store", str(store)]
    command += ["--output_path", str(folder), "--log_samples", *(("--data", str(data)) if data else ())]
    folder.mkdir()
    started = time.monotonic()
    print(f"{folder.name} …", end="", file=sys.stderr, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    print(f" {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    if done.returncode:
        raise AssayError(f"assay run ended with code {done.returncode}:\n{done.stderr.strip()}")
    answers: Answers = {}
    for file in folder.rglob("samples_*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            for place, response in enumerate(row["resps"]):
                # Prompts are equal as texts, unless one side is sent the conversation.
                prompt = "" if case.is_chat else row["prompt_hash"]
                answers[row["doc_id"], prompt, place] = response[0]
    (results,) = folder.rglob("results_*.json")
    scores = json.loads(results.read_text(encoding="utf-8"))["results"][case.task]
    return answers, {name: value for name, value in scores.items() if "," in name and "_stderr" not in name}


def _compare(case: Case, dialect: str, own: Run, other: Run) -> Comparison:
    found = Comparison(case, dialect)
    if own[0].keys() != other[0].keys():
        raise AssayError(f"{case.name}: the two sides have different documents or prompts")
    for key, mine in own[0].items():
        theirs = other[0][key]
        if case.is_generation:
            found.texts += 1
            found.same_texts += mine == theirs
            continue
        # A whole text has a number alone.
        (first, *greedy), (second, *other_greedy) = _listed(mine), _listed(theirs)
        difference = abs(float(first) - float(second))
        found.differences.append(difference)
        found.shares.append(difference / abs(float(first)))
        found.same_greedy += greedy == other_greedy
    found.scores = {name: (value, other[1][name]) for name, value in own[1].items()}
    return found


def _listed(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else [answer]


def _print(name: str, found: Sequence[Comparison]) -> None:
    table = Table("Task", "Dialect", "Answers", "Mean |Δ|", "Max |Δ|", "Greedy", "Texts", "Score: hf, server", "")
    for entry in found:
        count = len(entry.differences)
        mean = f"{math.fsum(entry.differences) / count:.1e}" if count else ""
        worst = f"{max(entry.differences):.1e}" if count else ""
        greedy = f"{entry.same_greedy}/{count}" if count else ""
        texts = f"{entry.same_texts}/{entry.texts}" if entry.texts else ""
        score = "\n".join(
            f"{metric.removesuffix(',none')} {mine:.6g}, {theirs:.6g}"
            for metric, (mine, theirs) in entry.scores.items()
        )
        verdict = "within" if entry.is_within(BOUNDS[name]) else "BEYOND"
        row = (f"{entry.case.task} ({entry.case.name})", entry.dialect, str(count or entry.texts), mean, worst, greedy)
        table.add_row(*row, texts, score, verdict)
    bounds = BOUNDS[name]
    console = Console() if sys.stdout.isatty() else Console(width=150)
    console.print(table)
    console.print(
        f"{name}: accepted are differences of {bounds.nats:g} nats, for whole texts of {bounds.share:g} of the "
        f"log-likelihood; {bounds.texts:.0%} of generated texts must be equal"
    )
