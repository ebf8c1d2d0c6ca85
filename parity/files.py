"""`python -m parity files`: lm-eval and Assay write result and sample files for the same runs, compared key by key.

The runs use our own task files and data (tests/parity/files) and a tiny model created for them, so that only lm-eval's
Python is needed. What may differ is in `KNOWN`, each with its reason. The same runs, without everything
that hangs on the model's numbers, are a golden file of the ordinary tests (`record` writes it).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, UserError
from parity.flags import FLAGS, installed_flags
from parity.golden import COMMAND, GOLDEN, TESTS, digest_of
from parity.installation import LM_EVAL_VERSION, find_lm_eval

FOLDER = TESTS / "files"
GOLDEN_FILE = GOLDEN / "files.json"
SYSTEM = "You answer in one word."
CHAT = ("--tasks", "files_choice,files_write", "--num_fewshot", "2", "--apply_chat_template")
# Runs by name: the arguments that both programs are given, besides `COMMON`.
CASES: dict[str, tuple[str, ...]] = {
    "choice": ("--tasks", "files_choice"),
    "write": ("--tasks", "files_write", "--num_fewshot", "1", "--gen_kwargs", "max_gen_toks=3"),
    "whole": ("--tasks", "files_whole"),
    "chat": CHAT,
    "chat_system": (*CHAT, "--system_instruction", SYSTEM),
    "chat_one_turn": (*CHAT, "--system_instruction", SYSTEM, "--fewshot_as_multiturn", "false"),
    "group": ("--tasks", "files_group", "--limit", "3"),
    "changed": ("--tasks", "files_changed,files_changed_plainly"),
}
COMMON = ("--log_samples", "--device", "cpu", "--batch_size", "1", "--include_path", ".")
# Places in a file that may differ (`*` matches anything), and why.
KNOWN = {
    "results/date": "the time",
    "results/total_evaluation_time_seconds": "the time",
    "results/git_hash": "the whole revision; lm-eval has it shortened",
    "results/pretty_env_info": "Python and platform; the manifest has every package",
    "results/lm_eval_version": "null: lm-eval was not run",
    "results/transformers_version": "each program's own",
    "results/upper_git_hash": "not looked for",
    "results/configs/*/metadata/config_source": "the whole path",
}
# A task's own code: lm-eval has its source, or its address in memory; here it has its name.
_CODE = "!function "
# Keys that are ours alone.
OURS = ("assay", "failures")
Runs = dict[str, dict[str, Any]]
Difference = tuple[str, Any, Any]
MISSING = "(missing)"
# Numbers of the model, and what differs from machine to machine.
_MEASURED = re.compile(r".*,[^/]*|resps|filtered_resps|acc|acc_norm|exact_match|word_perplexity|bits_per_byte")
_LOCAL = re.compile(
    r"pretrained|model_name|model_name_sanitized|config_source|.*_version|.*git_hash|date|pretty_env_info|.*_seconds"
)
MASKED = "…"


def compare_files(python: str | None) -> bool:
    """Runs both programs and prints the differences; returns whether there are none."""
    with tempfile.TemporaryDirectory() as scratch:
        model = build_model(Path(scratch) / "model")
        lm_eval = find_lm_eval(python).python
        theirs = run_lm_eval(lm_eval, model, Path(scratch) / "lm_eval")
        ours = run_all([sys.executable, "-m", "assay"], model, Path(scratch) / "assay", ("--allow_code",))
    found = [(case, item) for case in CASES for item in differences(theirs[case], ours[case])]
    for case, (place, theirs_there, ours_there) in found:
        print(f"{case}: {place}: lm-eval {theirs_there!r:.200}, here {ours_there!r:.200}")
    has_our_flags = installed_flags(lm_eval) == FLAGS
    flags = "as recorded" if has_our_flags else "others than recorded in parity/flags.py"
    print(f"{len(CASES)} runs, {len(found)} differences; the flags of lm_eval run are {flags}")
    return not found and has_our_flags


def record_files(python: str | None) -> None:
    """Rewrites the golden file."""
    with tempfile.TemporaryDirectory() as scratch:
        runs = run_lm_eval(find_lm_eval(python).python, build_model(Path(scratch) / "model"), Path(scratch))
    write_runs(runs)


def write_runs(runs: Runs) -> None:
    """Writes the runs of lm-eval to the golden file."""
    made = {"command": COMMAND, "lm_eval": LM_EVAL_VERSION, "tasks": digest_of(FOLDER), "runs": masked(runs)}
    GOLDEN_FILE.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{GOLDEN_FILE}: {len(runs)} runs, {GOLDEN_FILE.stat().st_size:,} bytes", file=sys.stderr)


def run_lm_eval(python: str, model: Path, out: Path) -> Runs:
    """Every run by lm-eval."""
    return run_all([python, "-m", "lm_eval"], model, out)


def run_all(program: list[str], model: Path, out: Path, more: tuple[str, ...] = ()) -> Runs:
    """Every run by a program; the content of the files that it writes."""
    source = str(TESTS.parents[1] / "src")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "ASSAY_STORE": str(out / "store.db")}
    environment["PYTHONPATH"] = source if program[-1] == "assay" else ""
    for case in CASES:
        command = [*program, *run_arguments(case, model, out / case), *more]
        done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(Fault(f"{program[-1]}, {case}", done.stderr[-2000:]))
    return {case: read_run(out / case) for case in CASES}


def run_arguments(case: str, model: Path, out: Path) -> list[str]:
    """The command line of a run, to be called in `FOLDER`."""
    named = f"pretrained={model},dtype=float32"
    return ["run", "--model", "hf", "--model_args", named, "--output_path", str(out), *COMMON, *CASES[case]]


def read_run(out: Path) -> dict[str, Any]:
    """The files of one run: `results`, and `samples` by task."""
    (results,) = out.rglob("results_*.json")
    samples = {}
    for path in sorted(out.rglob("samples_*.jsonl")):
        name = path.name.removeprefix("samples_").rpartition("_")[0]
        samples[name] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {"results": json.loads(results.read_text(encoding="utf-8")), "samples": samples}


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[Difference]:
    """Differences of two runs, except known ones and Assay's own keys."""
    return [item for item in _different(theirs, ours, "") if not _is_known(*item)]


def _is_known(place: str, theirs: Any, ours: Any) -> bool:
    is_code = isinstance(ours, str) and ours.startswith(_CODE) and isinstance(theirs, str) and theirs != MISSING
    return is_code or any(fnmatchcase(place, known) for known in KNOWN)


def _different(theirs: Any, ours: Any, place: str) -> Iterator[Difference]:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        for key in {**theirs, **{key: None for key in ours if key not in OURS}}:
            inner = f"{place}/{key}".lstrip("/")
            yield from _different(theirs.get(key, MISSING), ours.get(key, MISSING), inner)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _different(one, other, f"{place}/{number}")
    elif not _is_close(theirs, ours):
        yield place, theirs, ours


def _is_close(theirs: Any, ours: Any) -> bool:
    """Whether two values are equal; numbers, also as text, up to the tolerance of two programs."""
    if theirs == ours and type(theirs) is type(ours):
        return True
    try:
        one, other = float(theirs), float(ours)
    except (TypeError, ValueError):
        return False
    return type(theirs) is type(ours) and abs(one - other) <= 1e-4 * max(1.0, abs(one))


def masked(value: Any, key: str = "") -> Any:
    """The same without what depends on the model's numbers or on the machine; shapes and keys stay."""
    if isinstance(value, Mapping):
        return {name: masked(item, "resps" if key == "resps" else name) for name, item in value.items()}
    if isinstance(value, list):
        is_shape = _MEASURED.fullmatch(key) is not None
        return [masked(item, "resps" if is_shape else "") for item in value]
    return MASKED if _MEASURED.fullmatch(key) or _LOCAL.fullmatch(key) else value


def build_model(folder: Path) -> Path:
    """A tiny Llama with random weights, a byte-level tokenizer and a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=258, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator([], trainer)
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = (
        "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}</s>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    config = LlamaConfig(
        vocab_size=258, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=512, bos_token_id=0, eos_token_id=1, initializer_range=0.4,
    )  # fmt: skip
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
