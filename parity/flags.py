"""The flags of `lm_eval run`, as recorded and as an installed lm-eval has them; a page in docs lists them."""

from __future__ import annotations

import json
import subprocess

from parity.installation import LM_EVAL_VERSION

# Of lm-eval `VERSION`: every option with its short form; `python -m parity files` compares them with a real one.
VERSION = LM_EVAL_VERSION
FLAGS: dict[str, str | None] = {
    "--config": "-C",
    "--tasks": "-t",
    "--model": "-M",
    "--model_args": "-a",
    "--apply_chat_template": None,
    "--limit": "-L",
    "--use_cache": "-c",
    "--num_fewshot": "-f",
    "--batch_size": "-b",
    "--max_batch_size": None,
    "--device": None,
    "--gen_kwargs": None,
    "--output_path": "-o",
    "--log_samples": "-s",
    "--samples": "-E",
    "--cache_requests": None,
    "--check_integrity": None,
    "--system_instruction": None,
    "--fewshot_as_multiturn": None,
    "--include_path": None,
    "--verbosity": "-v",
    "--write_out": "-w",
    "--show_config": None,
    "--wandb_args": None,
    "--wandb_config_args": None,
    "--trackio_args": None,
    "--hf_hub_log_args": None,
    "--predict_only": "-x",
    "--seed": None,
    "--trust_remote_code": None,
    "--confirm_run_unsafe_code": None,
    "--metadata": None,
}

_QUESTION = """
import argparse, json
from lm_eval._cli.run import Run
commands = argparse.ArgumentParser().add_subparsers()
Run.create(commands)
flags = [action.option_strings for action in commands.choices["run"]._actions]
print(json.dumps([sorted(names, key=len, reverse=True) for names in flags if "--help" not in names]))
"""


def installed_flags(python: str) -> dict[str, str | None]:
    """The flags of the lm-eval of a Python."""
    answer = subprocess.run([python, "-c", _QUESTION], capture_output=True, text=True, check=True)
    rows: list[list[str]] = json.loads(answer.stdout.splitlines()[-1])
    return {row[0]: row[1] if len(row) > 1 else None for row in rows}
