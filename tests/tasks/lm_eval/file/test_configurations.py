"""A file with configurations: its tasks, groups and locations, and the faults of the keys themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.errors import TaskFileError
from assay.tasks.lm_eval.file.configurations import defined_files, stray_faults
from assay.tasks.lm_eval.file.yaml_reader import TaskFile, read_task_file

Write = Callable[..., Path]

FILE = """\
task: quiz
dataset_path: owner/quiz
test_split: test
doc_to_text: q
doc_to_target: a
card: {title: Quiz, chance: 0.25, rows: {test: 9}, references: [{task: quiz, model: m, metric: acc, value: 1}]}
configurations:
  algebra: {}
  botany:
  odd:
    task: other
    dataset_name: X
    card: {rows: {test: 7}}
    test_split: dev
subgroups:
  quiz_science: [algebra, botany]
group_alias: The quiz
aggregate_metric_list: [{metric: acc}]
metadata: {version: 2.0}
"""


@pytest.fixture
def read(write_yaml: Write) -> Callable[[str], TaskFile]:
    return lambda text: read_task_file(write_yaml("quiz.yaml", text))


Read = Callable[[str], TaskFile]


def test_each_configuration_is_an_ordinary_task_file(read: Read) -> None:
    files = defined_files(read(FILE))
    assert list(files) == ["quiz_algebra", "quiz_botany", "other", "quiz_science", "quiz"]
    algebra = files["quiz_algebra"].data
    assert (algebra["task"], algebra["dataset_name"], algebra["test_split"]) == ("quiz_algebra", "algebra", "test")
    assert not {"configurations", "subgroups", "group_alias", "aggregate_metric_list"} & algebra.keys()
    assert files["quiz_botany"].data["dataset_name"] == "botany"


def test_the_keys_of_an_entry_replace_those_of_the_file(read: Read) -> None:
    odd = defined_files(read(FILE))["other"].data
    assert (odd["dataset_name"], odd["test_split"]) == ("X", "dev")
    assert (odd["card"]["title"], odd["card"]["rows"]) == ("Quiz", {"test": 7})


def test_subgroups_are_members_of_the_group_besides_the_tasks_in_none(read: Read) -> None:
    files = defined_files(read(FILE))
    main, science = files["quiz"].data, files["quiz_science"].data
    assert (main["task"], main["group_alias"]) == (["quiz_science", "other"], "The quiz")
    assert science["task"] == ["quiz_algebra", "quiz_botany"]
    assert science["metadata"] == main["metadata"] == {"version": 2.0}
    assert science["aggregate_metric_list"] == main["aggregate_metric_list"]
    assert "group_alias" not in science


def test_locations_point_to_the_entry_or_else_to_the_file(read: Read) -> None:
    file = defined_files(read(FILE))["other"]
    assert file.where("test_split") == f"{file.path}:14  test_split"
    assert file.where("doc_to_text") == f"{file.path}:4  doc_to_text"
    assert file.where("card", "rows") == f"{file.path}:13  card.rows"
    assert file.where("card", "chance") == f"{file.path}:6  card.chance"


def test_files_of_data_get_no_name_of_a_configuration(read: Read) -> None:
    text = "task: t\ndataset_path: json\nconfigurations: {a: {}, b: {dataset_name: c}}\n"
    assert "dataset_name" not in defined_files(read(text))["t_a"].data
    text = "task: t\ndataset_path: owner/data\ndataset_name: all\nconfigurations: {a: {}, b: {dataset_name: null}}\n"
    files = defined_files(read(text))
    assert (files["t_a"].data["dataset_name"], files["t_b"].data["dataset_name"]) == ("all", None)


def test_a_file_without_configurations_stands_for_itself(read: Read) -> None:
    file = read("task: t\n")
    assert defined_files(file) == {"t": file}
    group = read("group: g\ntask: [t]\n")
    assert defined_files(group) == {"g": group}


FAULTS = {
    "configurations:": "configurations: is None (NoneType); expected a mapping",
    "configurations: [a]": "configurations: is ['a'] (list); expected a mapping",
    "configurations: {no: {}}": "the key is False (bool); expected text. Quote it",
    "configurations: {a b: {}}": "'a b' is not the name of a configuration; expected letters",
    "configurations: {a: 3}": "configurations.a: is 3 (int); expected the keys that this configuration changes",
    "configurations: {a: {subgroups: {}}}": "configurations.a.subgroups: subgroups applies to the whole file",
    "configurations: {a: {task: 3}}": "configurations.a.task: is 3 (int); expected letters",
    "configurations: {a: {task: t}}": 'configurations.a.task: "t" is the name of the group, too',
    "configurations: {a: {task: x}, b: {task: x}}": 'configurations.b.task: "x" is the name of another configuration',
    "configurations: {a: {}}\nsubgroups: [a]": "subgroups: is ['a'] (list); expected a mapping",
    "configurations: {a: {}}\nsubgroups: {s: a}": "subgroups.s: is 'a' (str); expected a list of configurations",
    "configurations: {alpha: {}}\nsubgroups: {s: [alpa]}": (
        "subgroups.s[0]: 'alpa' is not a configuration of this file (did you mean \"alpha\"?)"
    ),
    "configurations: {a: {}}\nsubgroups: {s: [a, a]}": 'subgroups.s[1]: "a" is listed twice',
    "configurations: {a: {}}\nsubgroups: {t_a: [a]}": 'configurations.a.task: "t_a" is the name of a subgroup, too',
    "configurations: {a: {}}\nclass: !function x.Y": "class: names a class, which cannot have configurations",
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults_name_file_line_and_key(text: str, read: Read) -> None:
    with pytest.raises(TaskFileError) as caught:
        defined_files(read(f"task: t\n{text}\n"))
    (fault,) = caught.value.faults
    assert FAULTS[text] in str(fault)
    assert "quiz.yaml:" in str(fault)


def test_keys_of_the_group_need_configurations(read: Read) -> None:
    (fault,) = stray_faults(read("task: t\nsubgroups: {s: [a]}\n"))
    assert "subgroups: applies to a file with the key configurations" in str(fault)
