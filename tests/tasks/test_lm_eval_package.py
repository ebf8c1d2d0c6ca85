"""`lm_eval/NAME`: tasks of the installed lm-eval under names of their own, found without importing it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate
from assay.api_records import compare, explain, load_run, rescore
from assay.core.errors import TaskFileError, UnknownName, UserError
from assay.core.requests import Request
from assay.core.responses import Logprob
from assay.core.specs import TaskOptions
from assay.run.show import task_card
from assay.tasks.catalog import Catalog
from assay.tasks.lm_eval.file.schema import KnownNames
from assay.tasks.lm_eval_package import names_code, package_catalog, package_tasks, prefixed_entries
from assay.tasks.selection import Selection, select_tasks
from assay.testing import ScriptedModel

Select = Callable[..., Selection]

_FRUIT = (
    "task: fruit\ntag: plants\ndataset_path: json\ndataset_kwargs: {data_files: {test: q.jsonl}}\ntest_split: test\n"
    "output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: [yes it is, it is not]\ndoc_to_target: label\n"
    "metric_list: [{metric: acc}]\n"
)
FILES = {
    "fruit.yaml": _FRUIT,
    "roots.yaml": _FRUIT.replace("task: fruit", "task: roots").replace("{{q}}", "{{q}} Root?"),
    "coded.yaml": _FRUIT.replace("task: fruit\ntag: plants", "task: coded\nprocess_docs: !function code.asked").replace(
        "{{q}}", "{{asked}}"
    ),
    "food.yaml": "group: food\ntask: [fruit, roots]\naggregate_metric_list: [{metric: acc}]\n",
    "q.jsonl": "".join(json.dumps({"q": f"Is it {what}?", "label": 0}) + "\n" for what in ("red", "round", "sweet")),
    "code.py": "from lm_eval.utils import weighted_f1_score\n\n\n"
    "def asked(rows):\n    return rows.map(lambda row: {'asked': row['q']})\n",
}


def answer(request: Request) -> Logprob:
    return Logprob(-float(len(getattr(request, "continuation", ""))), 1, False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `lm_eval` with three tasks, a tag, a group and code."""
    tasks = tmp_path / "site" / "lm_eval" / "tasks"
    tasks.mkdir(parents=True)
    (tasks.parent / "__init__.py").write_text("raise RuntimeError('imported')\n")
    for name, text in FILES.items():
        (tasks / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tasks


@pytest.fixture
def select(folder: Path, names: KnownNames, tmp_path: Path) -> Select:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "fruit.yaml").write_text((folder / "fruit.yaml").read_text())
    (tmp_path / "own" / "q.jsonl").write_text((folder / "q.jsonl").read_text())

    def run(*wanted: str, **options: str) -> Selection:
        return select_tasks(wanted, Catalog([tmp_path / "own"]), TaskOptions(**options), names)

    return run


def found(selection: Selection) -> list[str]:
    return [task.card.name for task in selection.tasks]


def test_a_task_a_tag_a_pattern_and_a_style(select: Select) -> None:
    assert found(select("lm_eval/fruit")) == ["lm_eval/fruit"]
    assert found(select("lm_eval/plants")) == ["lm_eval/fruit", "lm_eval/roots"]
    assert found(select("lm_eval/*oo*")) == ["lm_eval/fruit", "lm_eval/roots"]  # food, a group, and roots
    assert found(select("lm_eval/fruit@letters", "lm_eval/fruit")) == ["lm_eval/fruit@letters", "lm_eval/fruit"]
    assert "lm_eval" not in sys.modules


def test_a_group_and_what_is_below_it_have_the_prefix(select: Select) -> None:
    (group,) = select("lm_eval/food").groups
    assert (group.name, group.alias, group.members) == (
        "lm_eval/food",
        "lm_eval/food",
        ("lm_eval/fruit", "lm_eval/roots"),
    )
    (group,) = select("lm_eval/food@letters").groups
    assert (group.name, group.members) == ("lm_eval/food@letters", ("lm_eval/fruit@letters", "lm_eval/roots@letters"))


def test_ours_and_theirs_of_one_name_are_two_tasks(select: Select, folder: Path) -> None:
    ours, theirs = select("fruit", "lm_eval/fruit").tasks
    assert (ours.card.name, theirs.card.name) == ("fruit", "lm_eval/fruit")
    assert Path(theirs.card.source) == folder / "fruit.yaml"


def test_a_name_that_only_the_package_has_is_named_in_the_error(select: Select) -> None:
    with pytest.raises(UnknownName, match="The installed lm-eval has it: --tasks lm_eval/roots$"):
        select("roots")
    with pytest.raises(UnknownName, match="--tasks lm_eval/coded --trust_package lm_eval, because its file names"):
        select("coded")
    with pytest.raises(UnknownName, match='the installed lm-eval has no task "rootz" .did you mean "lm_eval/roots"'):
        select("lm_eval/rootz")


def test_code_needs_the_users_trust_in_the_package(folder: Path) -> None:
    model = ScriptedModel(answer)
    with pytest.raises(TaskFileError, match="add --trust_package lm_eval$"):
        evaluate(model, "lm_eval/coded", store=":memory:")
    for allowed in (["lm_eval"], True):
        assert (
            evaluate(model, "lm_eval/coded", store=":memory:", allow_code=allowed).tasks[0].metrics[0].estimate.n == 3
        )
    assert "lm_eval" not in sys.modules


def test_without_the_package_the_extra_is_named(names: KnownNames) -> None:
    if package_tasks() is not None:
        pytest.skip("lm-eval is installed")
    with pytest.raises(UserError, match=r"pip install 'assay-eval\[lm-eval-tasks\]'"):
        select_tasks(["lm_eval/fruit"], Catalog(), TaskOptions(), names)
    with pytest.raises(UnknownName, match=r"assay-eval\[lm-eval-tasks\]', then --tasks lm_eval/frobnicate"):
        select_tasks(["frobnicate"], Catalog(), TaskOptions(), names)


@pytest.mark.parametrize("name", ["lm-eval/fruit", "LM_EVAL/fruit"])
def test_the_prefix_in_another_spelling_is_corrected(name: str, select: Select) -> None:
    with pytest.raises(UnknownName, match=r'did you mean "lm_eval/fruit"\?'):
        select(name)


def test_entries_have_the_names_of_a_run(folder: Path) -> None:
    catalog = package_catalog(None, "a test")
    entries = prefixed_entries(catalog)
    assert sorted(entries) == ["lm_eval/coded", "lm_eval/food", "lm_eval/fruit", "lm_eval/plants", "lm_eval/roots"]
    assert entries["lm_eval/food"].members == ("lm_eval/fruit", "lm_eval/roots")
    assert [name for name in catalog.entries if names_code(name, catalog)] == ["coded"]
    assert task_card("lm_eval/fruit")["name"] == "lm_eval/fruit"


def test_records_reopen_rescore_and_compare(folder: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store": tmp_path / "s.db", "log_samples": True, "output_path": tmp_path / "out"}
    runs = [evaluate(ScriptedModel(answer, name=name), "lm_eval/food", **settings) for name in ("a", "b")]
    again = load_run(runs[0].run_id, store=tmp_path / "s.db")
    assert [task.name for task in again.tasks] == ["lm_eval/fruit", "lm_eval/roots"]
    rescored = rescore(runs[0], metrics="+acc_norm", store=tmp_path / "s.db")
    assert rescored.task("lm_eval/roots").metric("acc_norm").estimate.n == 3
    assert "lm_eval/roots" in str(compare(*runs, tasks="lm_eval/roots", store=tmp_path / "s.db").to_dicts())
    names = sorted(path.name.partition("_2")[0] for path in tmp_path.glob("out/*/samples_*"))
    assert set(names) == {"samples_lm_eval__fruit", "samples_lm_eval__roots"}


def test_explain_pairs_ours_with_theirs_and_names_only_the_spelling(folder: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "store": tmp_path / "s.db",
        "include_path": [str(tmp_path / "mine")],
        "allow_code": True,
    }
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "coded.yaml").write_text(FILES["fruit.yaml"].replace("task: fruit", "task: coded"))
    (tmp_path / "mine" / "q.jsonl").write_text(FILES["q.jsonl"])
    one = evaluate(ScriptedModel(answer), ["coded"], **settings)
    two = evaluate(ScriptedModel(answer), ["lm_eval/coded"], **settings)
    (task,) = explain(one, two, store=tmp_path / "s.db").tasks
    assert task.causes == () and task.conclusion.startswith("Nothing differs")
    assert task.caveats[0] == "the documents come from the same rows; only the second task has asked"
    assert (
        "process_docs" in task.caveats[1] and "the same requests and right answers for 3 documents" in task.caveats[1]
    )


def test_a_changed_prompt_is_found_in_the_same_rows(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "coded.yaml"
    path.write_text(FILES["fruit.yaml"].replace("task: fruit", "task: coded").replace("{{q}}", "Q: {{q}}"))
    (tmp_path / "q.jsonl").write_text(FILES["q.jsonl"])
    settings: dict[str, Any] = {"store": tmp_path / "s.db", "allow_code": True}
    runs = [
        evaluate(ScriptedModel(answer), [name, "lm_eval/roots"], **settings) for name in (str(path), "lm_eval/coded")
    ]
    same, named = explain(*runs, store=tmp_path / "s.db").tasks
    assert (same.first.task, same.causes, named.second.task) == ("lm_eval/roots", (), "lm_eval/coded")
    assert [cause.kind for cause in named.causes] == ["definition", "prompts"]
    assert json.dumps(named.causes[1].evidence).count("Q:")


def test_compare_pairs_ours_with_theirs_by_the_same_rows(folder: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store": tmp_path / "s.db", "allow_code": True, "include_path": tmp_path / "mine"}
    (tmp_path / "mine").mkdir()
    for name in ("coded", "roots"):
        text = FILES[f"{'fruit' if name == 'coded' else name}.yaml"]
        (tmp_path / "mine" / f"{name}.yaml").write_text(text.replace("task: fruit", f"task: {name}"))
    rows = FILES["q.jsonl"].splitlines(keepends=True)
    (tmp_path / "mine" / "q.jsonl").write_text("".join(reversed(rows)))
    (folder / "q.jsonl").write_text("".join([*rows, '{"q": "Is it old?", "label": 0}\n']))
    one = evaluate(ScriptedModel(answer, name="a"), ["coded", "roots"], **settings)
    two = evaluate(ScriptedModel(answer, name="b"), ["lm_eval/coded", "lm_eval/roots"], **settings)
    found = compare(one, two, store=tmp_path / "s.db")
    assert [(pair.task, pair.n) for pair in found.pairs] == [("coded", 3), ("roots", 3)]
    rows_of_one_file = (
        "the documents come from the same rows; only the second task has asked: compared on the 3 in common"
    )
    assert found.pairs[0].caveats[0] == rows_of_one_file
    assert found.notices == ("paired with lm-eval's own tasks of these names: coded, roots",)


def test_rows_that_only_a_lost_column_tells_apart_are_not_paired(folder: Path, tmp_path: Path) -> None:
    rows = [{"q": f"{number}?", "label": 0, "hint": "x"} for number in range(20)]
    rows += [{"q": "same?", "label": 0, "hint": hint} for hint in "ab"] + [{"q": "twice?", "label": 0, "hint": "c"}] * 2
    for place in (folder, tmp_path):
        (place / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "code.py").write_text(
        "def asked(rows):\n    return rows.remove_columns('hint').add_column('asked', rows['q'])\n"
    )
    path = tmp_path / "coded.yaml"
    path.write_text(FILES["fruit.yaml"].replace("task: fruit", "task: coded"))
    settings: dict[str, Any] = {"store": tmp_path / "s.db", "allow_code": True}
    runs = [evaluate(ScriptedModel(answer, name=name), name, **settings) for name in (str(path), "lm_eval/coded")]
    (pair,) = compare(*runs, store=tmp_path / "s.db").pairs
    assert pair.n == 22  # all but the two that differ in their hint
