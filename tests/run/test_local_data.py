"""Runs on a folder of datasets: what is recorded, tasks with code, and reopening a run when the folder has moved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay import UserError, evaluate, load_run

CODE = """
from lm_eval.api.task import ConfigurableTask

def longer(rows):
    return rows.filter(lambda row: row["label"] == 1)

class Own(ConfigurableTask):
    DATASET_PATH = "me/sums"

    def __init__(self, config=None):
        super().__init__(config={**(config or {}), "output_type": "multiple_choice", "test_split": "test",
            "doc_to_text": "{{q}}", "doc_to_choice": ["yes", "no"], "doc_to_target": "label",
            "metric_list": [{"metric": "acc"}]})
"""


@pytest.fixture
def folder(tmp_path: Path, write_task: Callable[..., None]) -> Path:
    """A folder with the dataset me/sums of six rows, and the task `sums` on it."""
    own = tmp_path / "data/me/sums/default"
    own.mkdir(parents=True)
    rows = [json.dumps({"q": f"{number}?", "label": number % 2}) + "\n" for number in range(6)]
    (own / "test.jsonl").write_text("".join(rows))
    write_task("sums", dataset_path="me/sums", dataset_kwargs="", fewshot_split="test")
    return tmp_path / "data"


def test_a_run_records_where_its_rows_came_from(folder: Path, tmp_path: Path) -> None:
    found = evaluate("dummy", "sums", store=":memory:", include_path=tmp_path / "tasks", data=folder)
    entry = found.manifest["tasks"]["sums"]["data"]
    assert entry == {
        "from": "copy",
        "dataset": "me/sums",
        "config": None,
        "folder": str(folder / "me/sums/default"),
        "commit": "",
        "rows": {"test": 6},
    }


def test_a_run_on_local_files_records_nothing_new(tmp_path: Path, write_task: Callable[..., None]) -> None:
    write_task("odd")
    for name in ("odd", "shots"):
        (tmp_path / f"tasks/{name}.jsonl").write_text('{"q": "1?", "label": 1}\n')
    found = evaluate("dummy", "odd", store=":memory:", include_path=tmp_path / "tasks")
    assert "data" not in found.manifest["tasks"]["odd"]


def test_code_of_tasks_sees_the_folder(folder: Path, tmp_path: Path, write_task: Callable[..., None]) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "tasks/code.py").write_text(CODE)
    process = {"process_docs": "!function code.longer", "card": "{rows: {test: 9}}"}
    write_task("some", dataset_path="me/sums", dataset_kwargs="", fewshot_split="test", **process)
    (tmp_path / "tasks/own.yaml").write_text("task: own\nclass: !function code.Own\n")
    tasks, more = ["some", "own"], {"include_path": tmp_path / "tasks", "allow_code": True}
    found = evaluate("dummy", tasks, store=":memory:", data=folder, **more)  # type: ignore[arg-type]
    assert [found.task(name).denominators.total for name in tasks] == [3, 6]
    assert "some: 6 of 9 official rows of `test`" in found.notices


def test_a_run_is_reopened_where_its_folder_is_now(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datasets")
    monkeypatch.delenv("ASSAY_DATA", raising=False)
    store = tmp_path / "store.db"
    first = evaluate("dummy", "sums", store=store, include_path=tmp_path / "tasks", data=folder)
    folder.rename(tmp_path / "moved")
    monkeypatch.setenv("ASSAY_DATA", str(tmp_path / "moved"))
    again = load_run(first.run_id, store=store)
    assert again.task("sums").metrics == first.task("sums").metrics
    path = tmp_path / "moved/me/sums/default/test.jsonl"
    path.write_text(path.read_text().replace("0?", "7?"))
    with pytest.raises(UserError, match="changed"):
        load_run(first.run_id, store=store)


def test_faults_in_the_data_of_several_tasks_are_one_error(
    folder: Path, tmp_path: Path, write_task: Callable[..., None]
) -> None:
    write_task("renamed", dataset_path="me/sums", dataset_kwargs="", doc_to_text='"{{question}}"')
    (folder / "me/sums/default/none.jsonl").write_text("")
    write_task("nothing", dataset_path="me/sums", dataset_kwargs="", test_split="none")
    store = tmp_path / "store.db"
    with pytest.raises(UserError) as caught:
        evaluate("dummy", ["sums", "renamed", "nothing"], store=store, include_path=tmp_path / "tasks", data=folder)
    undefined, empty = str(caught.value).splitlines()
    assert "'question' is undefined; expected one of the columns: q, label" in undefined
    assert 'the split "none" is empty; expected at least one document' in empty
