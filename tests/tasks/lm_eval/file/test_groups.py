"""Group files: members, what a group changes, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import TaskFileError
from assay.core.specs import GroupMetricSpec
from assay.tasks.lm_eval.file.groups import GroupDefinition, MemberOverrides, define_group
from assay.tasks.lm_eval.file.yaml_reader import SourceLocation, read_task_file

Define = Callable[[str], GroupDefinition]


@pytest.fixture
def group(write_yaml: Callable[..., Path]) -> Define:
    def define(text: str) -> GroupDefinition:
        file = read_task_file(write_yaml("group.yaml", "group: g\n" + text))
        return define_group(file, file.data, file.data["group"])

    return define


def test_members_are_names_or_names_with_changes(group: Define) -> None:
    found = group("task:\n  - a\n  - {task: b, num_fewshot: 2}\n  - {group: c, task: [d]}\n").members
    assert [(member.name, member.is_group, member.changes.data) for member in found] == [
        ("a", False, {}),
        ("b", False, {"num_fewshot": 2}),
        ("c", True, {"task": ["d"]}),
    ]
    assert found[1].changes.places[("num_fewshot",)].line == 4


def test_other_keys_change_every_member(group: Define) -> None:
    found = group("task: [a]\nnum_fewshot: 3\nmetadata: {version: 2}\ngroup_alias: G\n")
    assert found.changes.data == {"num_fewshot": 3}
    assert (found.alias, found.version) == ("G", 2)
    assert list(found.changes.places) == [("num_fewshot",)]


def test_nearer_changes_win_with_their_places() -> None:
    near = MemberOverrides({"a": 1}, {("a",): SourceLocation(Path("near"), 1)})
    far = MemberOverrides(
        {"a": 2, "b": 3}, {("a",): SourceLocation(Path("far"), 1), ("b",): SourceLocation(Path("far"), 2)}
    )
    both = near.over(far)
    assert both.data == {"a": 1, "b": 3}
    assert {keys: place.file.name for keys, place in both.places.items()} == {("a",): "near", ("b",): "far"}


def test_aggregates(group: Define) -> None:
    text = (
        "task: [a]\naggregate_metric_list:\n  - {metric: acc, weight_by_size: false, filter_list: x}\n  - metric: f1\n"
    )
    assert group(text).metrics == (GroupMetricSpec("acc", ("x",), False), GroupMetricSpec("f1", None, True))
    assert group("task: [a]\naggregate_metric_list: {metric: acc}\n").metrics == (GroupMetricSpec("acc"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: []\n", "group.yaml:2  task: is []; expected a list of members"),
        ("task: a\n", "group.yaml:2  task: is 'a'; expected a list of members"),
        ("task: [7]\n", "group.yaml:2  task[0]: is 7; expected a name, {task: name, …} or {group: name, …}"),
        ("task:\n  - {num_fewshot: 2}\n", "group.yaml:3  task[0]: is {'num_fewshot': 2}; expected a name"),
        ("task: [a]\naggregate_metric_list: [acc]\n", "group.yaml:3  aggregate_metric_list[0]: is 'acc'"),
        (
            "task: [a]\naggregate_metric_list:\n  - metric: acc\n    wieght_by_size: true\n",
            'group.yaml:5  aggregate_metric_list[0].wieght_by_size: unknown key "wieght_by_size" (did you mean "weight',
        ),
    ],
)
def test_faults_have_their_line(group: Define, text: str, message: Any) -> None:
    with pytest.raises(TaskFileError) as caught:
        group(text)
    assert message in str(caught.value)
