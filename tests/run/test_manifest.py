"""The manifest has everything needed to repeat a run, and no secret."""

from __future__ import annotations

import json
import re
from pathlib import Path

from assay.api import evaluate
from assay.core.identity import Fingerprint, digest_all
from assay.core.specs import RunSpec
from assay.options.specification import make_spec
from assay.run.build import build_task
from assay.run.manifest import make_manifest
from assay.testing import ScriptedModel, toy_generation_task

CANARY = "c4n4ry-51ng5"
SECRET_NAMES = ["api_key", "hf_token", "password", "client_secret", "x-api-key", "Authorization"]


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
    built = build_task(toy_generation_task(4), spec, "f" * 64)
    manifest = make_manifest(spec, Fingerprint("m", weights="w"), [built])
    assert [name for name, value in manifest.items() if value is None and name not in MAY_BE_NULL] == []
    assert set(manifest) >= {"date", "assay_version", "command", "spec", "model", "seeds", "python", "platform"}
    assert manifest["tasks"]["toy_generation"] == {
        "version": 1,
        "source": "assay.testing.toys",
        "num_fewshot": 0,
        "documents": 2,
        "documents_available": 4,
        "documents_fingerprint": built.fingerprint,
        "prompts_fingerprint": built.keys.prompts,
        "targets_fingerprint": digest_all(instance.gold for instance in built.instances),
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
