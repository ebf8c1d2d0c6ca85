"""Formats and training examples of well-known tasks, from lm-eval's files and the benchmarks' rows.

ASSAY_SHARED names the folder of the rows, LM_EVAL_PYTHON a Python with lm-eval; without them these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("ASSAY_SHARED", Path(__file__).parents[3] / "shared"))
HUB, SERVER = SHARED / "data" / "hub", SHARED / "tools" / "hub.py"
LM_EVAL = Path(os.environ.get("LM_EVAL_PYTHON", "nowhere/bin/python")).parents[1]
TASKS = next(LM_EVAL.glob("lib/*/site-packages/lm_eval/tasks"), Path("nowhere"))
SCRIPT = """
import json, sys
from assay.core.requests import HEAD_KINDS
from assay.core.specs import RunSpec
from assay.run.resolve import resolve_tasks
from assay.tasks.catalog import open_catalog
folder, *names = sys.argv[1:]
for name in names:
    spec = RunSpec("none", (name,), include_path=(folder,), allow_code=True)
    (task,) = resolve_tasks(spec, (), open_catalog(spec.include_path)).tasks
    questions = [task.question(document) for document in task.documents()[:100]]
    lessons = task.lessons("training", frozenset(HEAD_KINDS))
    first = lessons[0].requests[0]
    pairs = sum(getattr(question, "pair", None) is not None for question in questions)
    formats = sorted({type(question).__name__ for question in questions})
    learnt = task.lessons("training", frozenset({"loglikelihood"}))
    print(json.dumps([name, formats, pairs, first.kind, len(lessons), len(learnt)]))
"""
EXPECTED = {
    "sst2": ("LabelledText", False),
    "rte": ("LabelledText", True),
    "cb": ("LabelledText", True),
    "boolq": ("LabelledText", True),
    "wic": ("LabelledText", True),
    "mrpc": ("LabelledText", True),
    "wnli": ("LabelledText", True),
    "qnli": ("LabelledText", False),
    "copa": ("MultipleChoice", False),
    "arc_easy": ("MultipleChoice", False),
    "piqa": ("MultipleChoice", False),
    "winogrande": ("MultipleChoice", False),
    "hellaswag": ("MultipleChoice", False),
    "commonsense_qa": ("MultipleChoice", False),
}


@pytest.fixture
def address() -> Iterator[str]:
    if not (TASKS.is_dir() and HUB.is_dir() and SERVER.is_file()):
        pytest.skip("needs lm-eval's task files and a hub of real data")
    pytest.importorskip("datasets")
    with subprocess.Popen([sys.executable, str(SERVER), str(HUB)], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def test_real_tasks_have_their_formats_and_teach(address: str, tmp_path: Path) -> None:
    environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT, str(TASKS), *EXPECTED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {name: (formats, pairs > 0) for name, formats, pairs, *_ in rows} == {
        name: ([kind], has_pairs) for name, (kind, has_pairs) in EXPECTED.items()
    }
    for name, formats, _, kind, taught, learnt in rows:
        assert kind == ("classification" if formats == ["LabelledText"] else "choosing"), name
        assert taught == learnt > 0, name
