"""Write the golden files that Assay's parity tests compare with, by running lm-eval 0.4.13 itself.

    python -m tests.parity.make_golden --lm-eval-python PYTHON --shared DIR \\
        [--case arc_easy_2shot …] [--golden DIR]

In: the tasks in tests/parity/tasks, the benchmark data and the model stories260k under --shared (served
as a hub on loopback), and a Python that has lm-eval. Out: golden/<case>.json. The files hold numbers and
hashes only, never a benchmark's text: its licence need not allow that.
"""

import argparse
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parity.hub import served_hub

HERE = Path(__file__).resolve().parent
LM_EVAL_VERSION = "0.4.13"
MODEL = "stories260k"
BOOLEANS = {"True": True, "False": False}


@dataclass(frozen=True, slots=True)
class Case:
    """One run of lm-eval: a task of ours, how many documents, and shots where the task's own do not do."""

    name: str
    task: str
    limit: int
    num_fewshot: int | None = None


CASES = (
    Case("arc_easy_0shot", "parity_arc_easy", limit=40, num_fewshot=0),
    Case("arc_easy_2shot", "parity_arc_easy", limit=40, num_fewshot=2),
    Case("wikitext", "parity_wikitext", limit=6),
    Case("gsm8k", "parity_gsm8k", limit=12),
    Case("lambada", "parity_lambada", limit=40),
    Case("story", "parity_story", 24),
)


def environment(hub: str, scratch: Path) -> dict[str, str]:
    """The caller's environment, pointed at our hub and an empty cache, one thread."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    # The number of threads can change the last bits of a sum, so it is fixed here.
    return kept | {"HF_ENDPOINT": hub, "HF_HOME": str(scratch / "hf"), "OMP_NUM_THREADS": "1"}


def command_for(case: Case, python: str, model: Path, output: Path) -> list[str]:
    """The lm-eval command line of a case."""
    command = [python, "-m", "lm_eval", "run", "--model", "hf"]
    command += ["--model_args", f"pretrained={model},dtype=float32", "--device", "cpu", "--batch_size", "1"]
    command += ["--tasks", case.task, "--include_path", str(HERE / "tasks"), "--limit", str(case.limit)]
    command += ["--log_samples", "--output_path", str(output)]
    if case.num_fewshot is not None:
        command += ["--num_fewshot", str(case.num_fewshot)]
    return command


def run_lm_eval(command: Sequence[str], env: dict[str, str], output: Path) -> tuple[dict[str, Any], list[Any]]:
    """Run lm-eval; gives the contents of its results file and of its one samples file."""
    finished = subprocess.run(command, env=env, cwd=output.parent, capture_output=True, text=True, check=False)
    # lm-eval only warns when it cannot write its files, so a missing file is a failure too.
    results, samples = sorted(output.glob("*/results_*.json")), sorted(output.glob("*/samples_*.jsonl"))
    if finished.returncode or len(results) != 1 or len(samples) != 1:
        raise SystemExit(f"{' '.join(command)}\nfailed (exit {finished.returncode}):\n{finished.stderr[-3000:]}")
    with samples[0].open(encoding="utf-8") as lines:
        return json.loads(results[0].read_text(encoding="utf-8")), [json.loads(line) for line in lines]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def file_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def responses(sample: dict[str, Any]) -> dict[str, Any]:
    """The responses of a logged sample as numbers, or as hashes where they are text.

    lm-eval writes every scalar of a response as a string: ["-1.5", "False"] for a log-likelihood, "-1.5" for
    a rolling one, the text itself for a generation. Telling a number from a text is left to the arguments: a
    generation's second argument is its settings, a rolling request has no second argument.
    """
    first = [repeats[0] for repeats in sample["resps"]]
    arguments = sample["arguments"]["gen_args_0"]
    if "arg_1" not in arguments:
        return {"loglikelihoods": [float(total) for total in first]}
    if isinstance(arguments["arg_1"], dict):
        (text,), (filtered,) = first, sample["filtered_resps"]
        return {"text_sha256": sha256(text), "text_length": len(text), "filtered_sha256": sha256(filtered)}
    return {
        "loglikelihoods": [float(total) for total, _ in first],
        "is_greedy": [BOOLEANS[greedy] for _, greedy in first],
    }


def document_row(sample: dict[str, Any]) -> dict[str, Any]:
    """What a golden file keeps of one line of lm-eval's sample log."""
    kept = {key: sample[key] for key in ("doc_id", "filter", "doc_hash", "prompt_hash", "target_hash")}
    return kept | responses(sample) | {"metrics": {name: sample[name] for name in sample["metrics"]}}


def golden(case: Case, model: Path, results: dict[str, Any], samples: list[Any]) -> dict[str, Any]:
    """The whole content of a case's golden file."""
    config, task = results["config"], case.task
    if results["lm_eval_version"] != LM_EVAL_VERSION:
        raise SystemExit(f"--lm-eval-python has lm-eval {results['lm_eval_version']}, expected {LM_EVAL_VERSION}")
    seeds = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
    return {
        "case": case.name,
        "settings": {
            "lm_eval_version": results["lm_eval_version"],
            "transformers_version": results["transformers_version"],
            "task": task,
            "task_sha256": file_sha256(HERE / "tasks" / f"{task}.yaml"),
            "model": MODEL,
            "weights_sha256": file_sha256(model / "model.safetensors"),
            "tokenizer_sha256": file_sha256(model / "tokenizer.json"),
            "dtype": "float32",
            "limit": case.limit,
            "num_fewshot": results["n-shot"][task],
            **{key: config[key] for key in ("batch_size", "bootstrap_iters", *seeds)},
        },
        "results": results["results"][task],
        "n_samples": results["n-samples"][task],
        "higher_is_better": results["higher_is_better"][task],
        "task_hash": results["task_hashes"][task],
        "documents": [document_row(sample) for sample in samples],
    }


def as_text(content: dict[str, Any]) -> str:
    """JSON with one document per line, so that a change shows as the documents it touches."""
    head = json.dumps({**content, "documents": []}, indent=1).removesuffix("[]\n}")
    rows = ",\n".join("  " + json.dumps(row) for row in content["documents"])
    return f"{head}[\n{rows}\n ]\n}}\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm-eval-python", required=True, help=f"a Python with lm-eval {LM_EVAL_VERSION}")
    parser.add_argument("--shared", type=Path, required=True, help="the folder with data/ and tools/")
    parser.add_argument("--case", nargs="*", choices=[case.name for case in CASES], help="only these (default: all)")
    parser.add_argument("--golden", type=Path, default=HERE / "golden", help="where to write (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    model = asked.shared.resolve() / "data" / "models" / MODEL
    asked.golden.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, served_hub(asked.shared.resolve()) as hub:
        scratch = Path(folder)
        for case in CASES:
            if asked.case and case.name not in asked.case:
                continue
            command = command_for(case, asked.lm_eval_python, model, scratch / case.name)
            results, samples = run_lm_eval(command, environment(hub.address, scratch), scratch / case.name)
            path = asked.golden / f"{case.name}.json"
            path.write_text(as_text(golden(case, model, results, samples)), encoding="utf-8")
            print(f"{path}: {len(samples)} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
