"""Options without effect on a task are reported, for every kind of task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate, rescore, task
from assay.core.errors import DataError, UserError
from assay.core.requests import Generation
from assay.core.responses import Logprob, Text
from assay.tasks.python import Choose, PythonTask, Write
from assay.testing import ScriptedModel

ROWS = [{"q": f"{n} + {n} =", "a": str(2 * n)} for n in range(4)]
BASE = (
    "dataset_path: json\ndataset_kwargs: {data_files: {test: x.jsonl}}\ntest_split: test\n"
    "doc_to_text: '{{q}}'\ndoc_to_target: a\n"
)


def answer(request: Any) -> Any:
    return Text("2") if isinstance(request, Generation) else Logprob(-1.0, 1, is_greedy=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    for name, keys in (("sums", ""), ("none", "num_fewshot: 0\n"), ("whole", "output_type: loglikelihood_rolling\n")):
        (tmp_path / f"{name}.yaml").write_text(f"task: {name}\n{BASE}{keys}", encoding="utf-8")
    return tmp_path


def asking(name: str = "mine") -> PythonTask:
    return task(name, rows=ROWS)(lambda row: Write(row["q"], row["a"]))


def said(tasks: Any, folder: Path, **settings: Any) -> list[str]:
    model = ScriptedModel(answer)
    result = evaluate(model, tasks, include_path=folder, store=":memory:", **settings)
    return [line for line in result.notices if "no effect" in line]


@pytest.mark.parametrize(
    ("settings", "name", "why"),
    [
        ({"num_fewshot": 2}, "none", "--num_fewshot 2 has no effect on none: num_fewshot: 0 in a task file wins"),
        ({"num_fewshot": 2}, "whole", "whole texts are read without examples"),
        ({"fewshot_sampler": "fixed"}, "sums", "no examples are shown"),
        ({"system_instruction": "Be brief."}, "whole", "whole texts are read, without a prompt"),
        ({"apply_chat_template": True}, "whole", "whole texts are read, without a prompt"),
        ({"gen_kwargs": {"temperature": 1}}, "whole", "no text is generated"),
        ({"text_column": "body"}, "sums", "no task of this run is text:PATH"),
        ({"metadata": {"length": 4}}, "sums", "no task of this run makes its own data"),
        ({"original_task": True}, "sums", "no task of this run has several prompts"),
    ],
)
def test_what_a_task_file_does_not_follow_is_said(folder: Path, settings: Any, name: str, why: str) -> None:
    (line,) = said(name, folder, **settings)
    assert why in line


@pytest.mark.parametrize(
    "settings",
    [
        {"num_fewshot": 2},
        {"system_instruction": "Be brief."},
        {"apply_chat_template": True},
        {"gen_kwargs": {"temperature": 1}},
        {"fewshot_sampler": "fixed"},
    ],
)
def test_a_python_task_says_what_it_does_not_follow(folder: Path, settings: Any) -> None:
    flag = f"--{next(iter(settings))}"
    (line,) = said(asking(), folder, **settings)
    assert line.startswith(flag) and " has no effect on mine: a Python task " in line


def test_what_is_followed_is_not_said(folder: Path) -> None:
    settings = {"num_fewshot": 2, "fewshot_sampler": "fixed", "gen_kwargs": {"temperature": 0}}
    assert said("sums", folder, system_instruction="Be brief.", **settings) == []
    assert said("sums", folder, system_instruction="Be brief.", apply_chat_template=True) == []
    assert said("none", folder, num_fewshot=0) == []


def test_tasks_with_the_same_reason_are_one_line(folder: Path) -> None:
    names = [asking(f"mine{number}") for number in range(8)]
    (line,) = said([*names, "sums"], folder, num_fewshot=2)
    assert "no effect on mine0, mine1, mine2, mine3, mine4 and 3 more: a Python task makes its own prompts" in line


def test_a_reason_reads_well_for_several_tasks(folder: Path) -> None:
    (folder / "nought.yaml").write_text(f"task: nought\n{BASE}num_fewshot: 0\n", encoding="utf-8")
    (line,) = said(["none", "nought", "sums"], folder, num_fewshot=2)
    assert line.endswith("on none, nought: num_fewshot: 0 in a task file wins over the run's number, as in lm-eval")


def test_a_python_task_is_only_recorded_when_nothing_is_to_be_scored(folder: Path) -> None:
    chosen = task("chosen", rows=ROWS)(lambda row: Choose(row["q"], ["0", row["a"]], 1))
    result = evaluate(ScriptedModel(answer), [asking(), chosen], store=":memory:", predict_only=True)
    assert [[metric.metric for metric in own.metrics] for own in result.tasks] == [["bypass"], ["bypass"]]


# Names of Python tasks


def test_two_different_tasks_of_one_name_are_refused(folder: Path) -> None:
    (folder / "other.yaml").write_text(f"task: sums\n{BASE}repeats: 2\n", encoding="utf-8")
    for tasks in (
        [asking(), asking()],
        [asking("sums"), "sums"],
        [str(folder / "other.yaml"), str(folder / "sums.yaml")],
    ):
        with pytest.raises(UserError, match="two different tasks are called"):
            said(tasks, folder)
    (folder / "other.yaml").unlink()
    mine = asking()
    assert said([mine, mine, "sums", str(folder / "sums.yaml")], folder) == []


def test_a_renamed_object_is_reported_with_its_earlier_name(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    evaluate(ScriptedModel(answer), asking("before"), store=store)
    with pytest.raises(DataError, match="asked before, and the tasks given are after.*each with the name it had"):
        rescore("last", tasks=[asking("after")], store=store)
    assert rescore("last", tasks=[asking("before")], store=store).tasks[0].name == "before"
