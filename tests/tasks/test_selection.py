"""Selection: names, wildcards, files, folders and groups become tasks, or every fault at once."""

from __future__ import annotations

import cProfile
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import TaskFileError, UnknownName, UserError
from assay.core.specs import TaskOptions, VariationAxes
from assay.tasks.catalog import Catalog
from assay.tasks.lm_eval.file.schema import KnownNames
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.selection import Selection, select_tasks
from assay.testing import toy_choice_task

Write = Callable[..., Path]

TASK = (
    "dataset_path: json\ndataset_kwargs: {data_files: {test: x.jsonl}}\n"
    "test_split: test\ndoc_to_text: q\ndoc_to_target: a\n"
)


@pytest.fixture
def select(tmp_path: Path, names: KnownNames) -> Callable[..., Selection]:
    def run(*wanted: Any, folders: Any = None) -> Selection:
        folders = [tmp_path] if folders is None else folders
        return select_tasks(wanted, Catalog(folders), TaskOptions(), names)

    return run


@pytest.fixture
def tasks(write_yaml: Write) -> None:
    """Three tasks a, b, c; b and c have a tag."""
    write_yaml("a.yaml", f"task: a\n{TASK}")
    write_yaml("b.yaml", f"task: b\ntag: t\n{TASK}")
    write_yaml("c.yaml", f"task: c\ntag: t\n{TASK}")


def task_names(selection: Selection) -> list[str]:
    return [task.card.name for task in selection.tasks]


def own(selection: Selection, name: str) -> LmEvalTask:
    (task,) = [task for task in selection.tasks if task.card.name == name]
    assert isinstance(task, LmEvalTask)
    return task


@pytest.mark.usefixtures("tasks")
def test_names_tags_and_patterns(select: Callable[..., Selection]) -> None:
    assert task_names(select("c", "a")) == ["c", "a"]
    assert task_names(select("t")) == ["b", "c"]
    assert task_names(select("[ab]")) == ["a", "b"]
    assert task_names(select("a", "a", "t", "b")) == ["a", "b", "c"]


@pytest.mark.usefixtures("tasks")
def test_a_tag_has_no_group_of_its_own(select: Callable[..., Selection]) -> None:
    assert select("t").groups == ()


def test_a_task_object_is_taken_as_it_is(select: Callable[..., Selection]) -> None:
    toy = toy_choice_task(2)
    assert select(toy).tasks == (toy,)


@pytest.mark.usefixtures("tasks")
def test_files_patterns_of_files_and_folders(
    select: Callable[..., Selection], tmp_path: Path, write_yaml: Write
) -> None:
    write_yaml("_base.yaml", "test_split: test\n")
    assert task_names(select(str(tmp_path / "b.yaml"), folders=[])) == ["b"]
    assert task_names(select(str(tmp_path / "[bc].yaml"), folders=[])) == ["b", "c"]
    assert task_names(select(str(tmp_path), folders=[])) == ["a", "b", "c"]
    with pytest.raises(TaskFileError, match="_base.yaml: defines neither a task nor a group"):
        select(str(tmp_path / "_base.yaml"))
    with pytest.raises(TaskFileError, match="no file .*nowhere.yaml"):
        select(str(tmp_path / "nowhere.yaml"))


@pytest.mark.usefixtures("tasks")
def test_faults_of_all_files_of_a_folder_come_together(
    select: Callable[..., Selection], tmp_path: Path, write_yaml: Write
) -> None:
    write_yaml("d.yaml", "task: d\n")
    write_yaml("e.yaml", "task: [\n")
    with pytest.raises(TaskFileError) as caught:
        select(str(tmp_path), folders=[])
    files = {fault.where.partition(":")[0].partition(" ")[0].rpartition("/")[2] for fault in caught.value.faults}
    assert files == {"d.yaml", "e.yaml"}


@pytest.mark.usefixtures("tasks")
def test_unknown_names_are_reported_together(select: Callable[..., Selection]) -> None:
    with pytest.raises(UnknownName) as caught:
        select("demo_clze", "a", "zzz*", "demo_txt")
    assert [fault.found.split('"')[1] for fault in caught.value.faults] == ["demo_clze", "zzz*", "demo_txt"]
    assert 'did you mean "demo_cloze"' in str(caught.value)


def test_nothing_named_is_an_error(select: Callable[..., Selection]) -> None:
    with pytest.raises(UserError, match="names no task"):
        select()


def test_faults_of_all_tasks_come_together(select: Callable[..., Selection], write_yaml: Write) -> None:
    write_yaml("a.yaml", f"task: a\nnum_fewshot: x\n{TASK}")
    write_yaml("b.yaml", f"task: b\nrepeats: x\n{TASK}")
    with pytest.raises(TaskFileError) as caught:
        select("a", "b", "nowhere")
    assert len(caught.value.faults) == 3


# Groups


@pytest.mark.usefixtures("tasks")
def test_groups_come_bottom_up_with_their_direct_members(select: Callable[..., Selection], write_yaml: Write) -> None:
    write_yaml("inner.yaml", "group: inner\ntask: [b, c]\n")
    write_yaml("outer.yaml", "group: outer\ntask: [a, inner]\naggregate_metric_list: {metric: acc}\n")
    selection = select("outer")
    assert task_names(selection) == ["a", "b", "c"]
    assert [(group.name, group.members) for group in selection.groups] == [
        ("inner", ("b", "c")),
        ("outer", ("a", "inner")),
    ]


@pytest.mark.usefixtures("tasks")
def test_a_varied_group_is_one_group_per_level(tmp_path: Path, names: KnownNames, write_yaml: Write) -> None:
    write_yaml("inner.yaml", "group: inner\ntask: [b]\n")
    write_yaml("outer.yaml", "group: outer\ntask: [a, inner]\n")
    options = TaskOptions(num_fewshot=1, axes=VariationAxes((1, 2)))
    groups = select_tasks(["outer"], Catalog([tmp_path]), options, names).groups
    assert [(group.name, group.members) for group in groups] == [
        ("inner#seed=1", ("b#seed=1",)),
        ("inner#seed=2", ("b#seed=2",)),
        ("outer#seed=1", ("a#seed=1", "inner#seed=1")),
        ("outer#seed=2", ("a#seed=2", "inner#seed=2")),
    ]


@pytest.mark.usefixtures("tasks")
def test_a_tag_in_a_group_represents_its_tasks(select: Callable[..., Selection], write_yaml: Write) -> None:
    write_yaml("g.yaml", "group: g\ntask: [t, a]\n")
    assert select("g").groups[0].members == ("b", "c", "a")


@pytest.mark.usefixtures("tasks")
def test_what_a_group_sets_reaches_every_task_below(select: Callable[..., Selection], write_yaml: Write) -> None:
    write_yaml("inner.yaml", "group: inner\ntask: [b]\nnum_fewshot: 2\nrepeats: 2\n")
    write_yaml("outer.yaml", "group: outer\ntask: [a, inner]\nnum_fewshot: 5\n")
    selection = select("outer")
    assert [own(selection, name).num_fewshot for name in "ab"] == [5, 5]
    assert own(selection, "b").definition.repeats == 2


@pytest.mark.usefixtures("tasks")
def test_what_is_set_at_the_member_wins(select: Callable[..., Selection], write_yaml: Write) -> None:
    """lm-eval: {**what the group and its callers say, **what the member says}."""
    write_yaml("inner.yaml", "group: inner\ntask: [c]\nnum_fewshot: 2\n")
    members = "task:\n  - {task: a, num_fewshot: 1, task_alias: A}\n  - b\n  - {group: inner, num_fewshot: 3}\n"
    write_yaml("g.yaml", f"group: g\n{members}num_fewshot: 5\n")
    selection = select("g")
    assert [own(selection, name).num_fewshot for name in "abc"] == [1, 5, 3]
    assert own(selection, "a").card.alias == "A"


@pytest.mark.usefixtures("tasks")
def test_a_group_reached_through_a_task_reference_keeps_its_tasks_apart(
    select: Callable[..., Selection], write_yaml: Write
) -> None:
    """In lm-eval 0.4.13 every task below gets the group's name, so only the last survives."""
    write_yaml("inner.yaml", "group: inner\ntask: [b, c]\n")
    write_yaml("g.yaml", "group: g\ntask:\n  - {task: inner, num_fewshot: 1}\n")
    selection = select("g")
    assert task_names(selection) == ["b", "c"]
    assert own(selection, "c").num_fewshot == 1


def test_inline_tasks_and_groups_have_the_groups_name_before_theirs(
    select: Callable[..., Selection], write_yaml: Write, tasks: None
) -> None:
    inline = TASK.strip().replace("\n", "\n    ")
    write_yaml(
        "g.yaml", f"group: g\ntask:\n  - task: own\n    {inline}\n  - group: sub\n    group_alias: S\n    task: [a]\n"
    )
    selection = select("g")
    assert task_names(selection) == ["g::own", "a"]
    assert [(group.name, group.alias) for group in selection.groups] == [("g::sub", "S"), ("g", "g")]


def test_faults_of_an_inline_task_have_their_line(select: Callable[..., Selection], write_yaml: Write) -> None:
    path = write_yaml("g.yaml", "group: g\ntask:\n  - task: own\n    dataset_path: json\n    repeats: x\n")
    with pytest.raises(TaskFileError) as caught:
        select("g")
    assert f"{path}:5  repeats: is 'x' (str)" in str(caught.value)


@pytest.mark.usefixtures("tasks")
def test_faults_of_what_a_group_sets_point_at_the_group(select: Callable[..., Selection], write_yaml: Write) -> None:
    path = write_yaml("g.yaml", "group: g\ntask:\n  - task: a\n    repeats: x\n")
    with pytest.raises(TaskFileError) as caught:
        select("g")
    assert str(caught.value).startswith(f"{path}:4  repeats: is 'x' (str)")


@pytest.mark.usefixtures("tasks")
def test_a_task_in_two_groups_is_built_once(select: Callable[..., Selection], write_yaml: Write) -> None:
    write_yaml("g.yaml", "group: g\ntask: [a, b]\n")
    write_yaml("h.yaml", "group: h\ntask: [b, c]\n")
    selection = select("g", "h", "g")
    assert task_names(selection) == ["a", "b", "c"]
    assert [group.members for group in selection.groups] == [("a", "b"), ("b", "c")]


@pytest.mark.usefixtures("tasks")
def test_a_task_wanted_in_two_ways_is_refused(select: Callable[..., Selection], write_yaml: Write) -> None:
    write_yaml("g.yaml", "group: g\ntask: [a]\nnum_fewshot: 1\n")
    with pytest.raises(TaskFileError, match='"g" and "a" request the task "a" with different settings: num_fewshot'):
        select("g", "a")


@pytest.mark.usefixtures("tasks")
def test_two_suites_that_ask_one_task_differently_are_one_error(
    select: Callable[..., Selection], write_yaml: Write
) -> None:
    write_yaml("g.yaml", "group: g\ntask: [a, b]\n")
    write_yaml("h.yaml", "group: h\ntask: [g, c]\nrepeats: 2\n")
    write_yaml("i.yaml", "group: i\ntask: [a]\nnum_fewshot: 2\n")
    with pytest.raises(TaskFileError) as caught:
        select("g", "h")
    said = str(caught.value)
    assert said.startswith('--tasks: "g" and "h" request the task "a" and 1 other with different settings: repeats; ')
    assert said.endswith("Run them one after the other: answers that both need are requested once")
    with pytest.raises(TaskFileError) as caught:
        select("*")
    assert len(caught.value.faults) == 1 and "pairs of names clash" in str(caught.value)
    assert '--tasks "$(assay ls tasks --format names)"' in str(caught.value)


@pytest.mark.usefixtures("tasks")
def test_a_suite_that_asks_a_task_in_two_ways_names_the_task(
    select: Callable[..., Selection], write_yaml: Write
) -> None:
    write_yaml("g.yaml", "group: g\ntask: [a]\nnum_fewshot: 1\n")
    write_yaml("h.yaml", "group: h\ntask: [g, a]\n")
    with pytest.raises(TaskFileError, match='the task "a" is requested twice with different settings: num_fewshot'):
        select("h")


@pytest.mark.usefixtures("tasks")
def test_unknown_members_are_reported_at_their_line(select: Callable[..., Selection], write_yaml: Write) -> None:
    path = write_yaml("g.yaml", "group: g\ntask:\n  - a\n  - demo_clze\n")
    with pytest.raises(UnknownName) as caught:
        select("g")
    assert str(caught.value).startswith(f'{path}:4  task[1]: unknown task "demo_clze" (did you mean "demo_cloze"')


def test_groups_that_hold_each_other_are_reported(select: Callable[..., Selection], write_yaml: Write) -> None:
    write_yaml("g.yaml", "group: g\ntask: [h]\n")
    write_yaml("h.yaml", "group: h\ntask: [g]\n")
    with pytest.raises(TaskFileError, match="group cycle: g → h → g"):
        select("g")


@pytest.mark.usefixtures("tasks")
def test_a_registered_group_cannot_be_defined_again_inside(select: Callable[..., Selection], write_yaml: Write) -> None:
    write_yaml("g.yaml", "group: g\ntask: [a]\n")
    path = write_yaml("h.yaml", "group: h\ntask:\n  - {group: g, task: [b]}\n")
    with pytest.raises(TaskFileError) as caught:
        select("h")
    assert f'{path}:3  task[0]: "g" is a registered group, but task is given' in str(caught.value)


PLUGIN = """
import assay

@assay.task("towns", rows=[{"q": "a"}])
def towns(row):
    return assay.Complete("The town is", " " + row["q"])
"""
SELECTED = """
from assay.core.specs import TaskOptions
from assay.run.resolve import known_names
from assay.tasks.catalog import Catalog
from assay.tasks.selection import select_tasks
found = select_tasks(["both", "acme/capitals"], Catalog(["groups"]), TaskOptions(), known_names())
print([task.card.name for task in found.tasks], *found.notices, sep="\\n")
"""


def test_another_name_and_changes_of_a_plugin_are_said(tmp_path: Path, write_yaml: Write) -> None:
    write_yaml("acme-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    write_yaml("acme-1.0.dist-info/entry_points.txt", "[assay.tasks]\ncapitals = acme_towns:towns\n")
    write_yaml("acme_towns.py", PLUGIN)
    write_yaml("groups/both.yaml", "group: both\ntask: [{task: acme/capitals, num_fewshot: 3}]\n")
    path = os.pathsep.join((str(tmp_path), *sys.path))
    made = subprocess.run(
        [sys.executable, "-c", SELECTED], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True
    )
    assert made.stdout.decode().splitlines() == [
        "['towns']",
        'the task "acme/capitals" calls itself "towns" and is recorded under that name',
        "towns: the settings of its group (num_fewshot) have no effect, because it is written in Python",
    ], made.stderr.decode()


def calls(function: str, work: Callable[[], object]) -> int:
    """How often a function is called in the course of some work."""
    profile = cProfile.Profile()
    profile.runcall(work)
    rows = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return sum(row[1] for (_, _, name), row in rows.items() if name == function)


def test_a_task_is_read_once_however_many_tags_and_groups_lead_to_it(
    select: Callable[..., Selection], write_yaml: Write
) -> None:
    for number in range(30):
        write_yaml(f"t{number}.yaml", f"task: t{number}\ntag: [odd, even]\n{TASK}")
    write_yaml("g.yaml", f"group: g\ntask: [{', '.join(f't{number}' for number in range(30))}]\n")
    named = ("t[0-9]*", "g")
    assert calls("read_task_file", lambda: select(*named, "odd")) == calls("read_task_file", lambda: select(*named))
    assert calls("task_faults", lambda: select("odd", "even", "g", "t[0-9]*")) == 30


def test_only_the_first_unknown_names_are_compared_with_all_known_ones(select: Callable[..., Selection]) -> None:
    """Comparing takes 30 ms with lm-eval's 14,000 names: five minutes for 10,000 unknown ones."""

    def unknown() -> None:
        with pytest.raises(UnknownName) as caught:
            select(*(f"none{number}" for number in range(500)))
        assert len(caught.value.faults) == 500

    assert calls("set_seq1", unknown) <= 500 + 20 * len(Catalog([]).entries)


def test_thousands_of_faults_are_gathered_in_seconds(select: Callable[..., Selection]) -> None:
    began = time.process_time()
    with pytest.raises(UnknownName) as caught:
        select(*(f"none{number}" for number in range(20_000)))
    assert len(caught.value.faults) == 20_000
    assert time.process_time() - began < 20
