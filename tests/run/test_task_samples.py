"""The key `sample`: a random sample of each task that a file or group states; options of the run override it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from assay import evaluate, load_run, rescore
from assay.core.errors import UserError
from assay.core.results import RunResult

TASK = (
    "dataset_path: json\ndataset_kwargs: {data_files: {test: x.jsonl}}\ntest_split: test\n"
    "output_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [a, b]\ndoc_to_target: l\n"
)
Run = Callable[..., RunResult]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"q": f"{place}?", "l": place % 2} for place in range(60)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"task: {name}\n{TASK}")
    (tmp_path / "quick.yaml").write_text("group: quick\ntask: [one, {task: two, sample: 0.1}]\nsample: 20\n")
    return tmp_path


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Run:
    def call(tasks: str = "quick", **settings: Any) -> RunResult:
        return evaluate("dummy", tasks, include_path=folder, store=tmp_path / "s.db", bootstrap_iters=0, **settings)

    return call


def documents(result: RunResult) -> list[list[int]]:
    return [[item.document.id for item in task.answered] for task in result.tasks]


def test_a_group_states_the_sample_of_its_tasks(run: Run) -> None:
    result = run()
    one, two = documents(result)
    assert (len(one), len(two)) == (20, 6) and set(two) < set(one) and one != list(range(20))
    assert documents(run("one", sample=20)) == [one]
    assert "evaluated a random sample of the documents (seed 1234): one 20 of 60, two 6 of 60" in result.notices
    whole = result.task("one").subsample.whole
    assert whole[0].estimate.method == "finite-wilson"


def test_a_file_may_state_the_sample_of_pythons_generator(run: Run, folder: Path) -> None:
    text = "group: quick\ntask: [one, {task: two, sample: {documents: 7, python_seed: 3}}]\nsample: 20\n"
    (folder / "quick.yaml").write_text(text)
    result = run()
    assert documents(result)[1] == sorted(Random(3).sample(range(60), 7))
    assert "evaluated a random sample of the documents (seed 1234): one 20 of 60" in result.notices
    assert "evaluated a random sample of the documents (Python's Random(3)): two 7 of 60" in result.notices
    assert len(documents(run("two", sample=9))[0]) == 9


def test_the_record_lists_the_sample_and_loads_again(run: Run, tmp_path: Path) -> None:
    result = run()
    assert [entry["sample"] for entry in result.manifest["tasks"].values()] == documents(result)
    loaded = load_run(result.run_id, store=tmp_path / "s.db")
    assert documents(loaded) == documents(result) and loaded.to_dicts() == result.to_dicts()
    assert documents(rescore(result.run_id, metrics="+acc_bytes", store=tmp_path / "s.db")) == documents(result)


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [({"sample": 30}, [30, 30]), ({"limit": 5}, [5, 5]), ({"sample": 1000}, [60, 60])],
)
def test_options_of_the_run_override_the_file(run: Run, settings: dict[str, Any], sizes: list[int]) -> None:
    result = run(**settings)
    assert list(map(len, documents(result))) == sizes
    assert any("not a random sample" in line for line in result.notices) is ("limit" in settings)


def test_chosen_documents_override_the_sample_of_their_task(run: Run) -> None:
    assert list(map(len, documents(run(samples={"one": [3, 4]})))) == [2, 6]


def test_a_sample_that_is_no_size_is_a_fault(folder: Path, run: Run) -> None:
    (folder / "quick.yaml").write_text("group: quick\ntask: [one]\nsample: 1.5\n")
    with pytest.raises(UserError, match=r"quick.yaml:3  sample: is 1.5 .* a share below 1"):
        run()
