"""The tool that compares Assay with lm-eval poses documents as a run does."""

from __future__ import annotations

from assay.run.resolve import open_catalog, resolve_tasks
from assay.settings import make_spec
from parity.ours import Renderer, documents_of


def test_the_first_documents_are_written_with_their_requests() -> None:
    spec = make_spec("none", ["demo_questions"], limit=2)
    (task,) = resolve_tasks(spec, ["demo_questions"], open_catalog([])).tasks
    found = documents_of(task, lambda: task, spec, Renderer(None))
    assert [row["id"] for row in found] == [0, 1]
    assert [len(row["requests"]) for row in found] == [4, 4]
