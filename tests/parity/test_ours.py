"""The tool that compares Assay with lm-eval builds documents as a run does."""

from __future__ import annotations

from pathlib import Path

from assay.options.specification import make_spec
from assay.run.resolve import resolve_tasks
from assay.tasks.catalog import open_catalog
from parity.ours import Renderer, documents_of, like_lm_eval


def test_the_first_documents_are_written_with_their_requests() -> None:
    spec = make_spec("none", ["demo_questions"], limit=2)
    (task,) = resolve_tasks(spec, ["demo_questions"], open_catalog([])).tasks
    found = documents_of(task, lambda: task, spec, Renderer(None))
    assert [row["id"] for row in found] == [0, 1]
    assert [len(row["requests"]) for row in found] == [4, 4]


def test_documents_among_their_own_examples_are_built_like_lm_eval(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f'{{"q": "{n}", "a": "{n}"}}\n' for n in range(40)), encoding="utf-8")
    keys = "dataset_path: json\ndataset_kwargs: {data_files: {test: x.jsonl}}\ntest_split: test\n"
    (tmp_path / "t.yaml").write_text(f"task: t\n{keys}doc_to_text: '{{{{q}}}}'\ndoc_to_target: a\n", encoding="utf-8")
    spec = make_spec("none", ["t"], include_path=tmp_path, num_fewshot=6)
    own, like = (resolve_tasks(one, ["t"], open_catalog([tmp_path])).tasks[0] for one in (spec, like_lm_eval(spec)))
    found = documents_of(own, lambda: like, spec, Renderer(None))
    assert sum(row["is_mended"] for row in found) == 10
    assert [row["requests"] for row in found] == [
        row["requests"] for row in documents_of(like, lambda: like, spec, Renderer(None))
    ]
