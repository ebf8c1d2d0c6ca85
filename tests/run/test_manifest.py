"""The manifest has everything needed to repeat a run, and no secret."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate
from assay.core.fingerprints import Fingerprint
from assay.core.identity import digest_all
from assay.core.specs import RunSpec
from assay.run.manifest import HIDDEN, make_manifest, redacted, redacted_command
from assay.run.posing import pose_task
from assay.settings import make_spec
from assay.testing import ScriptedModel, toy_generation_task

CANARY = "c4n4ry-51ng5"
SECRET_NAMES = [
    "api_key",
    "OPENAI_API_KEY",
    "apikey",
    "hf_token",
    "token",
    "use_auth_token",
    "auth",
    "password",
    "client_secret",
    "secret_key",
    "aws_secret_access_key",
    "x-api-key",
    "Authorization",
]
OPEN_NAMES = ["add_bos_token", "eos_token", "tokenizer", "max_tokens", "pretrained", "author", "key", "monkey"]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert redacted({"a": [{name: CANARY}]}) == {"a": [{name: HIDDEN}]}


@pytest.mark.parametrize("name", OPEN_NAMES)
def test_other_settings_stay(name: str) -> None:
    assert redacted({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("value", [None, True, False])
def test_a_switch_is_no_secret(value: Any) -> None:
    assert redacted({"token": value}) == {"token": value}


def test_a_secret_of_digits_or_parts_is_hidden() -> None:
    assert redacted({"password": 12345, "auth": ["user", CANARY]}) == {"password": HIDDEN, "auth": HIDDEN}


def test_a_login_in_an_address_is_hidden() -> None:
    assert redacted({"base_url": f"https://me:{CANARY}@host/v1"}) == {"base_url": f"https://{HIDDEN}@host/v1"}


@pytest.mark.parametrize(
    "words",
    [
        ["--model_args", f"a=1,api_key={CANARY},b=2"],
        ["--model_args", f'{{"api_key": "{CANARY} and more", "b": 2}}'],
        ["--model_args", f"password='two {CANARY}',b=2"],
        ["--model_args", f"headers={{'Authorization': 'Bearer {CANARY}'}}"],
        ["--model_args", f"base_url=http://me:{CANARY}@host"],
        ["--hf_token", CANARY],
        [f"--hf-token={CANARY}"],
    ],
)
def test_a_command_line_shows_no_secret(words: list[str]) -> None:
    text = redacted_command(["assay", "run", *words, "--limit", "3"], RunSpec("m", ()))
    assert CANARY not in text
    assert text.startswith("assay run --")
    assert text.endswith("--limit 3")


def test_a_secret_of_the_specification_is_hidden_wherever_it_stands() -> None:
    spec = RunSpec("m", (), model_args={"api_key": CANARY})
    assert redacted_command(["assay", f"--odd:{CANARY}!"], spec) == f"assay --odd:{HIDDEN}!"


def test_a_command_line_without_secrets_is_kept() -> None:
    words = ["assay", "run", "--model_args", "pretrained=/m,add_bos_token=True,tokenizer=/t", "--tasks", "demo"]
    assert redacted_command(words, RunSpec("m", ())) == " ".join(words)


def test_no_secret_reaches_the_store_or_a_file(tmp_path: Path) -> None:
    arguments = {name: f"{CANARY}-{name}" for name in SECRET_NAMES}
    arguments |= {"base_url": f"https://me:{CANARY}@host", "headers": {"Authorization": f"Bearer {CANARY}"}}
    result = evaluate(
        ScriptedModel(lambda request: "7"),
        toy_generation_task(2),
        store=tmp_path / "s.db",
        output_path=tmp_path / "out",
        log_samples=True,
        model_args=arguments,
    )
    assert CANARY not in json.dumps(result.manifest)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 4
    assert [path.name for path in files if CANARY.encode() in path.read_bytes()] == []


# What may be null, and why.
MAY_BE_NULL = {
    "assay_git": "installed from a wheel",
    "working_folder_git": "no checkout",
    "threads": "OMP_NUM_THREADS is not set",
}


def test_the_manifest_has_everything_it_promises() -> None:
    spec = make_spec("m", ["toy_generation"], limit=2)
    posed = pose_task(toy_generation_task(4), spec, "f" * 64)
    manifest = make_manifest(spec, Fingerprint("m", weights="w"), [posed])
    assert [name for name, value in manifest.items() if value is None and name not in MAY_BE_NULL] == []
    assert set(manifest) >= {"date", "assay_version", "command", "spec", "model", "seeds", "python", "platform"}
    assert manifest["tasks"]["toy_generation"] == {
        "version": 1,
        "source": "assay.testing.toys",
        "num_fewshot": 0,
        "documents": 2,
        "documents_available": 4,
        "documents_fingerprint": posed.fingerprint,
        "prompts_fingerprint": posed.keys.prompts,
        "targets_fingerprint": digest_all(instance.gold for instance in posed.instances),
        "config": {"task": "toy_generation", "output_type": "generate_until", "size": 4},
        "scoring": {"metrics": {"exact_match": {}}, "filters": {"none": [{"function": "take_first"}]}, "process": None},
    }
    assert manifest["seeds"] == {"python": 0, "numpy": 1234, "sampling": 1234, "fewshot": 1234}
    assert manifest["model"]["digest"] == Fingerprint("m", weights="w").digest
    assert re.fullmatch(r"\d+\.\d+.*", manifest["packages"]["numpy"])
    json.dumps(manifest)


def test_the_checkout_is_recorded_when_there_is_one() -> None:
    manifest = make_manifest(RunSpec("m", ()), Fingerprint("m"), [])
    for name in ("assay_git", "working_folder_git"):
        found = manifest[name]
        assert found is None or re.fullmatch("[0-9a-f]{40}", found["revision"])
