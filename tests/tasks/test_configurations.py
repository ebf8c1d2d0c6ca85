"""Files with configurations in the catalog, in selections and in checks: every name works as if it had its own file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import TaskFileError
from assay.core.specs import TaskOptions, VariationAxes
from assay.tasks.catalog import Catalog
from assay.tasks.file_checks import check_paths
from assay.tasks.lm_eval.file.schema import KnownNames
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.selection import Selection, select_tasks

Write = Callable[..., Path]
Select = Callable[..., Selection]

QUIZ = """\
task: quiz
dataset_path: json
dataset_kwargs: {data_files: {test: x.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: q
doc_to_choice: c
doc_to_target: a
card: {description: A quiz., primary: acc}
configurations:
  one: {}
  two: {num_fewshot: 3}
  three: {task: third}
subgroups: {quiz_low: [one, two]}
aggregate_metric_list: [{metric: acc}]
"""


@pytest.fixture
def quiz(write_yaml: Write) -> Path:
    return write_yaml("tasks/quiz.yaml", QUIZ)


@pytest.fixture
def select(tmp_path: Path, names: KnownNames) -> Select:
    def run(*wanted: Any, folders: Any = None, **options: Any) -> Selection:
        folders = [tmp_path / "tasks"] if folders is None else folders
        return select_tasks(wanted, Catalog(folders), TaskOptions(**options), names)

    return run


def task_names(selection: Selection) -> list[str]:
    return [task.card.name for task in selection.tasks]


def groups(selection: Selection) -> dict[str, tuple[str, ...]]:
    return {group.name: group.members for group in selection.groups}


def test_the_catalog_knows_every_name(quiz: Path, tmp_path: Path) -> None:
    entries = Catalog([tmp_path / "tasks"]).entries
    own = {name: (entry.kind, entry.members) for name, entry in entries.items() if entry.path == quiz}
    assert own == {
        "quiz_one": ("task", ()),
        "quiz_two": ("task", ()),
        "third": ("task", ()),
        "quiz_low": ("group", ("quiz_one", "quiz_two")),
        "quiz": ("group", ("quiz_low", "third")),
    }


@pytest.mark.usefixtures("quiz")
def test_tasks_subgroups_and_the_group_are_run_by_name(select: Select) -> None:
    assert task_names(select("quiz_two")) == ["quiz_two"]
    assert task_names(select("quiz_low")) == ["quiz_one", "quiz_two"]
    assert task_names(select("quiz_*")) == ["quiz_one", "quiz_two"]
    everything = select("quiz")
    assert task_names(everything) == ["quiz_one", "quiz_two", "third"]
    assert groups(everything) == {"quiz_low": ("quiz_one", "quiz_two"), "quiz": ("quiz_low", "third")}


def test_the_path_of_the_file_runs_the_group(quiz: Path, select: Select) -> None:
    for folders in ([], None):
        found = select(str(quiz), folders=folders)
        assert task_names(found) == ["quiz_one", "quiz_two", "third"]
        assert list(groups(found)) == ["quiz_low", "quiz"]
    assert task_names(select(str(quiz.parent), folders=[])) == ["quiz_one", "quiz_two", "third"]


def test_a_path_means_its_own_tasks_not_those_of_the_catalog(quiz: Path, select: Select, write_yaml: Write) -> None:
    mine = write_yaml("mine/quiz.yaml", QUIZ)
    assert {task.card.source for task in select(str(mine)).tasks} == {str(mine)}
    assert {task.card.source for task in select("quiz").tasks} == {str(quiz)}


@pytest.mark.usefixtures("quiz")
def test_a_group_of_another_file_overrides_keys(select: Select, write_yaml: Write) -> None:
    write_yaml("tasks/suite.yaml", "group: suite\ntask: [{task: quiz_one, num_fewshot: 2}, {group: quiz_low}]\n")
    write_yaml("tasks/five.yaml", "group: five\ntask: [quiz]\nnum_fewshot: 5\n")
    shots = {task.card.name: task.card.num_fewshot for task in select("five").tasks}
    assert shots == {"quiz_one": 5, "quiz_two": 5, "third": 5}
    with pytest.raises(TaskFileError, match="requested twice with different settings"):
        select("suite")


@pytest.mark.usefixtures("quiz")
def test_styles_and_variations_apply_to_configurations(select: Select) -> None:
    found = select("quiz_low@letters")
    assert task_names(found) == ["quiz_one@letters", "quiz_two@letters"]
    assert list(groups(found)) == ["quiz_low@letters"]
    varied = select("quiz_one", axes=VariationAxes(seeds=(1, 2)), num_fewshot=1)
    assert task_names(varied) == ["quiz_one#seed=1", "quiz_one#seed=2"]


def test_prompts_of_a_configuration(write_yaml: Write, select: Select) -> None:
    write_yaml("tasks/quiz.yaml", QUIZ.replace("one: {}", "one: {prompts: [{name: a, text: q}, {name: b, text: q}]}"))
    assert task_names(select("quiz_one@b")) == ["quiz_one@b"]
    assert len(task_names(select("quiz_one", prompts="all"))) == 2


def test_a_card_is_not_part_of_the_definition(quiz: Path, select: Select) -> None:
    task = select("quiz_one").tasks[0]
    assert isinstance(task, LmEvalTask)
    assert "card" not in task.card.config
    assert task.card.facts == {"description": "A quiz.", "primary": "acc"}
    assert task.card.source == str(quiz)


def test_a_faulty_configuration_stops_only_itself(write_yaml: Write, select: Select) -> None:
    path = write_yaml("tasks/quiz.yaml", QUIZ.replace("num_fewshot: 3", "num_fewshots: 3"))
    assert task_names(select("quiz_one")) == ["quiz_one"]
    with pytest.raises(TaskFileError, match="quiz.yaml:12  num_fewshots: unknown key") as caught:
        select("quiz")
    assert str(path) in str(caught.value)


def test_a_faulty_file_is_still_in_the_catalog(write_yaml: Write, select: Select) -> None:
    write_yaml("tasks/quiz.yaml", QUIZ.replace("[one, two]", "[one, too]"))
    with pytest.raises(TaskFileError, match=r"subgroups.quiz_low\[1\]: 'too' is not a configuration"):
        select("quiz")
    write_yaml("tasks/quiz.yaml", "task: quiz\nconfigurations: [one]\n")
    with pytest.raises(TaskFileError, match="configurations: is"):
        select("quiz")


def test_a_check_counts_and_checks_every_configuration(quiz: Path, names: KnownNames) -> None:
    report = check_paths([quiz], names)
    assert (report.files, report.tasks, report.groups, report.faults) == (1, 3, 2, ())


def test_a_check_reports_faults_of_configurations_once(write_yaml: Write, names: KnownNames) -> None:
    path = write_yaml("quiz.yaml", QUIZ.replace("primary: acc", "primary: f1").replace("one: {}", "one: {x: 1}"))
    texts = list(map(str, check_paths([path], names).faults))
    assert [text.partition("  ")[2].partition(":")[0] for text in texts] == ["card.primary", "x"]
    path = write_yaml("quiz.yaml", QUIZ.replace("[one, two]", "[one, too]"))
    (fault,) = check_paths([path], names).faults
    assert "subgroups.quiz_low[1]" in str(fault)


def test_a_thousand_configurations_are_selected_in_time_linear_in_their_number(
    write_yaml: Write, select: Select
) -> None:
    entries = "".join(f"  c{number}: {{num_fewshot: 0}}\n" for number in range(1000))
    write_yaml("tasks/quiz.yaml", QUIZ.replace("  one: {}\n", f"  one: {{}}\n{entries}"))
    assert len(select("quiz").tasks) == 1003


BASE = """\
card: {licence: MIT}
configurations:
  one: {description: "One.", num_fewshot: 2, card: {rows: {test: 4}}}
  two: {description: "Two."}
"""
LAST = """\
configurations:
  three: {description: "Three."}
"""
OWN = "  one: {description: Own., card: {chance: 0.5}}\n  two:\n  four: {}\n"


def test_included_configurations_are_merged_by_name_and_key(write_yaml: Write, select: Select) -> None:
    write_yaml("tasks/_base.yaml", BASE)
    write_yaml("tasks/_last.yaml", LAST)
    head = QUIZ.partition("configurations:")[0]
    write_yaml("tasks/quiz.yaml", f"include: [_base.yaml, _last.yaml]\n{head}configurations:\n{OWN}")
    tasks = {task.card.name: task.card for task in select("quiz").tasks}
    assert list(tasks) == ["quiz_one", "quiz_two", "quiz_three", "quiz_four"]
    told = {name: card.config.get("description") for name, card in tasks.items()}
    assert told == {"quiz_one": "Own.", "quiz_two": "Two.", "quiz_three": "Three.", "quiz_four": None}
    assert tasks["quiz_one"].num_fewshot == 2
    assert tasks["quiz_one"].facts["rows"] == {"test": 4} and tasks["quiz_one"].facts["chance"] == 0.5
    assert tasks["quiz_one"].facts["licence"] == "MIT"


def test_a_fault_in_an_included_configuration_names_its_file(write_yaml: Write, select: Select) -> None:
    write_yaml("tasks/_base.yaml", BASE.replace("num_fewshot: 2", "num_fewshot: x"))
    head = QUIZ.partition("configurations:")[0]
    write_yaml("tasks/quiz.yaml", f"include: _base.yaml\n{head}configurations:\n{OWN}")
    with pytest.raises(TaskFileError, match=r"_base\.yaml:3  num_fewshot"):
        select("quiz")
