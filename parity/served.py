"""`python -m parity served`: lm-eval's `local-completions` against `assay serve`, and lm-eval's own `hf` backend.

Both are runs of `lm_eval run --log_samples` with the same model, tasks and limits; compared are the scores, and the
answers document by document: log-likelihoods within a tolerance, greedy flags and texts exactly. lm-eval's client needs
lm-eval[api]. Its windows are two tokens shorter than those of `hf`, so it is given two tokens more.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, Fault, UserError
from assay.models.download.named import NAMED_MODELS, locate, opener_arguments
from parity.hub import served_hub
from parity.installation import find_lm_eval
from parity.lifetime import end_with_parent

ROOT = Path(__file__).resolve().parents[1]
MODEL = "smollm2"
LENGTH = 2048
# lm-eval's log-softmax in float32 is off by about 1.6e-5 a token, always to one side: 2e-5 for each.
TOLERANCE_PER_TOKEN = 2e-5
# English text has about four bytes per token; a tolerance for twice as many tokens leaves room for others.
_BYTES_PER_TOKEN = 2.0


@dataclass(frozen=True, slots=True)
class ServedCase:
    """A task as both runs are given it: its number of examples, None for its own, and its documents."""

    task: str
    documents: int
    shots: int | None = None
    more: tuple[str, ...] = ()


CASES = (
    ServedCase("hellaswag", 20),
    ServedCase("mmlu_high_school_biology", 8, 5),
    ServedCase("lambada_openai", 20),
    ServedCase("wikitext", 2),
    ServedCase("gsm8k", 4, None, ("--gen_kwargs", "max_gen_toks=48")),
)


@contextmanager
def served(model: str, folder: Path) -> Iterator[str]:
    """`assay serve` in a process of its own; its address."""
    command = [sys.executable, "-m", "assay", "serve", "--model", model, "--port", "0"]
    command += ["--store", str(folder / "store.db")]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
        preexec_fn=end_with_parent,
    ) as process:
        try:
            assert process.stdout is not None, "the output is a pipe"
            address = process.stdout.readline().strip()
            if not address.startswith("http://"):
                raise AssayError(f"assay serve printed {address!r}, expected an address")
            yield address
        finally:
            process.terminate()


def compare_served(python: str | None, shared: Path, documents: int | None = None) -> bool:
    """Runs and compares every case; returns whether nothing differs."""
    lm_eval = find_lm_eval(python)
    model = opener_arguments(NAMED_MODELS[MODEL], locate(NAMED_MODELS[MODEL]), {})
    folder, prefix = model["pretrained"], model["prefix_token_id"]
    own = f"pretrained={folder},prefix_token_id={prefix},dtype=float32,add_bos_token=False,max_length={LENGTH}"
    is_same = True
    with tempfile.TemporaryDirectory() as scratch, served_hub(shared.resolve()) as hub:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment |= {"HF_ENDPOINT": hub.address, "HF_HOME": f"{scratch}/hf", "TOKENIZERS_PARALLELISM": "true"}
        with served(MODEL, Path(scratch)) as address:
            client = (
                f"model={MODEL},base_url={address}/v1/completions,tokenizer={folder},tokenizer_backend=huggingface,"
                f"custom_prefix_token_id={prefix},max_length={LENGTH + 2},num_concurrent=4,timeout=3600"
            )
            for case in CASES:
                hub.check()
                arguments = _arguments(case, documents)
                found = [
                    _run(lm_eval.python, name, given, arguments, Path(scratch) / case.task / name, environment)
                    for name, given in (("hf", own), ("local-completions", client))
                ]
                is_same &= _compare(case, *found)
    return is_same


def _arguments(case: ServedCase, documents: int | None) -> tuple[str, ...]:
    shots = () if case.shots is None else ("--num_fewshot", str(case.shots))
    limit = min(case.documents, documents or case.documents)
    return ("--tasks", case.task, "--limit", str(limit), *shots, *case.more)


def _run(
    python: str, model: str, given: str, arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Results and samples of one run of lm-eval."""
    batch = "1" if model == "hf" else "16"
    command = [python, "-m", "lm_eval", "run", "--model", model, "--model_args", given, "--batch_size", batch]
    command += ["--output_path", str(folder), "--log_samples", "--confirm_run_unsafe_code", *arguments]
    command += ["--device", "cpu"] if model == "hf" else []
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join(done.stderr.splitlines()[-15:])
        raise UserError(Fault(" ".join(command), f"ended with {done.returncode}:\n{last}", "a run of lm-eval"))
    (results,) = folder.rglob("results_*.json")
    (samples,) = folder.rglob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    scores = json.loads(results.read_text(encoding="utf-8"))["results"]
    return {"scores": scores, "answers": {row["doc_id"]: _answers(row) for row in rows}}


def _answers(row: Mapping[str, Any]) -> list[tuple[Any, Any, int]]:
    """The answers of a document: log-likelihood or text, greedy flag, length of the scored text in bytes."""
    arguments = list(row["arguments"].values())
    found: list[tuple[Any, Any, int]] = []
    for given, responses in zip(arguments, row["resps"], strict=True):
        texts = list(given.values())
        response = responses[0]
        size = len(str(texts[-1] if len(texts) > 1 else texts[0]).encode())
        if isinstance(response, list):
            found.append((float(response[0]), str(response[1]), size))
        else:
            is_number = isinstance(response, float) or _is_number(response, row)
            found.append((float(response) if is_number else response, None, size))
    return found


def _is_number(response: Any, row: Mapping[str, Any]) -> bool:
    """Whether a response of a whole text, which the file has as text, is a number."""
    if "until" in str(row["arguments"]):
        return False
    try:
        return math.isfinite(float(response))
    except ValueError:
        return False


def _compare(case: ServedCase, own: Mapping[str, Any], client: Mapping[str, Any]) -> bool:
    """Prints a case's line and its differences; returns whether there is none."""
    faults: list[str] = []
    worst = 0.0
    for document, answers in own["answers"].items():
        for (one, flag, size), (other, other_flag, _) in zip(answers, client["answers"][document], strict=True):
            if isinstance(one, float):
                apart = abs(one - float(other))
                worst = max(worst, apart)
                if not apart <= max(TOLERANCE_PER_TOKEN * size / _BYTES_PER_TOKEN, 1e-4) or flag != other_flag:
                    faults.append(f"document {document}: {one} {flag}; client: {other} {other_flag}")
            elif one != other:
                faults.append(f"document {document}: {one!r}; client: {other!r}")
    faults += _score_faults(own["scores"], client["scores"])
    count = sum(len(answers) for answers in own["answers"].values())
    scores = ", ".join(f"{name} {value:.6g}" for name, value in _scores(client["scores"]).items())
    print(
        f"{case.task}: {len(own['answers'])} documents, {count} answers, at most {worst:.1e} apart; {scores}",
        flush=True,
    )
    for fault in faults:
        print(f"  {fault}", flush=True)
    return not faults


def _scores(scores: Mapping[str, Any]) -> dict[str, float]:
    (found,) = scores.values()
    return {name: value for name, value in found.items() if isinstance(value, float) and "stderr" not in name}


def _score_faults(own: Mapping[str, Any], client: Mapping[str, Any]) -> Iterator[str]:
    others = _scores(client)
    for name, value in _scores(own).items():
        if not math.isclose(value, others[name], rel_tol=1e-4):
            yield f"{name}: {value}; client: {others[name]}"
