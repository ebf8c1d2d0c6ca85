"""Tasks read from a folder of datasets have the same documents and prompts as through a hub (needs the shared data)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("ASSAY_SHARED", Path(__file__).parents[3] / "shared"))
pytestmark = pytest.mark.skipif(not (SHARED / "data" / "hub").is_dir(), reason=f"no {SHARED}/data/hub")

# Task → keys; every one names its few-shot split, and together they have all column types and layouts of the folder.
TASKS: dict[str, dict[str, Any]] = {
    "arc": {"dataset_path": "allenai/ai2_arc", "dataset_name": "ARC-Easy", "split": "test", "shots": "train"},
    "hellaswag": {"dataset_path": "Rowan/hellaswag", "split": "validation", "shots": "train"},
    "boolq": {"dataset_path": "aps/super_glue", "dataset_name": "boolq", "split": "validation", "shots": "train"},
    "multirc": {"dataset_path": "aps/super_glue", "dataset_name": "multirc", "split": "validation", "shots": "train"},
    "sst2": {"dataset_path": "nyu-mll/glue", "dataset_name": "sst2", "split": "validation", "shots": "train"},
    "anatomy": {"dataset_path": "cais/mmlu", "dataset_name": "anatomy", "split": "test", "shots": "dev"},
    "gsm8k": {"dataset_path": "openai/gsm8k", "dataset_name": "main", "split": "test", "shots": "train"},
    "anli": {"dataset_path": "facebook/anli", "split": "test_r1", "shots": "train_r1"},
    "squad": {"dataset_path": "lighteval/squad_v2", "split": "validation", "shots": "train"},
    "truthful": {"dataset_path": "truthfulqa/truthful_qa", "dataset_name": "generation", "split": "validation"},
    "unscramble": {"dataset_path": "EleutherAI/unscramble", "dataset_name": "reversed_words", "split": "validation"},
    "enwik8": {"dataset_path": "LTCB/enwik8", "split": "train"},
    "arithmetic": {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"v": "hf://datasets/EleutherAI/arithmetic/data/two_digit_addition.jsonl"}},
        "split": "v",
    },
    "card": {"dataset_path": "EleutherAI/arithmetic", "dataset_name": "arithmetic_1dc", "split": "validation"},
}
# Also read by task code, which gets them through `datasets`: from parquet, with nested columns, from JSON Lines.
WITH_CODE = ("arc", "squad", "gsm8k", "unscramble", "arithmetic")
_DIGESTS = """
import json, sys
from assay.core.identity import digest_all
from assay.options.specification import make_spec
from assay.run.resolve import select_for_run
folder, names, settings = json.loads(sys.argv[1])
found = {}
for task in select_for_run(make_spec("dummy", names, include_path=folder, allow_code=True, **settings), ()).tasks:
    documents = task.documents()
    shots = [example.fields for document in documents[:5] for example in task.examples(document)]
    own = digest_all(document.fields for document in documents)
    found[task.card.name] = [len(documents), own, len(shots), digest_all(shots)]
print("#" + json.dumps(found))
"""


def write_tasks(folder: Path) -> None:
    (folder / "code.py").write_text("def same(rows):\n    return rows.map(lambda row: row)\n", encoding="utf-8")
    for name, keys in TASKS.items():
        own = {key: value for key, value in keys.items() if key not in ("split", "shots")}
        own |= {"test_split": keys["split"], "fewshot_split": keys.get("shots", keys["split"]), "num_fewshot": 2}
        own |= {"output_type": "generate_until", "doc_to_text": "Row", "doc_to_target": "yes"}
        lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in own.items())
        (folder / f"{name}.yaml").write_text(f"task: copy_{name}\n{lines}", encoding="utf-8")
        code = "process_docs: !function code.same\n"
        if name not in WITH_CODE:
            continue
        (folder / f"{name}_code.yaml").write_text(f"task: code_{name}\n{lines}{code}", encoding="utf-8")


def digests(folder: Path, settings: dict[str, Any], environment: dict[str, str]) -> dict[str, Any]:
    names = [*(f"copy_{name}" for name in TASKS), *(f"code_{name}" for name in WITH_CODE)]
    command = [sys.executable, "-c", _DIGESTS, json.dumps([str(folder), names, settings])]
    kept = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "ASSAY_DATA")}
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.rpartition("#")[2])
    return found


def test_a_folder_of_datasets_gives_the_documents_of_the_hub(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "tasks").mkdir()
    write_tasks(tmp_path / "tasks")
    command = [sys.executable, str(SHARED / "tools" / "hub.py"), str(SHARED / "data" / "hub")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        online = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "online")}
        expected = digests(tmp_path / "tasks", {}, online)
        process.terminate()
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "offline")}
    found = digests(tmp_path / "tasks", {"data": str(SHARED / "data" / "hub")}, offline)
    assert len(expected) == len(TASKS) + len(WITH_CODE)
    assert {name for name in expected if found.get(name) != expected[name]} == set()
