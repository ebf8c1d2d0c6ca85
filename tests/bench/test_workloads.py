"""The engine's benchmark builds its workloads as a run does."""

from __future__ import annotations

import json
from pathlib import Path

from bench.engine.workloads import Workload, build


def test_a_workload_has_the_requests_of_its_first_documents(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    found = build(Workload("small", "demo_questions", 3, 1.0, 1.0), str(tmp_path / "tasks"), tmp_path, None)
    rows = [json.loads(line) for line in found.file.read_text().splitlines()]
    assert (found.documents, found.requests, found.is_full) == (3, len(rows), True)
    assert len(rows) == 3 * 4 and found.kind == rows[0]["kind"]
