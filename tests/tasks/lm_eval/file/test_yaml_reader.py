"""Task files as text: YAML with places, includes, and references to code that is never run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.errors import TaskFileError
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, TopLevelKeyReader, read_task_file, show_path

Write = Callable[..., Path]


def fault(path: Path) -> str:
    with pytest.raises(TaskFileError) as caught:
        read_task_file(path)
    return str(caught.value)


def test_keys_have_file_and_line(write_yaml: Write) -> None:
    path = write_yaml("a.yaml", "task: x\nmetric_list:\n  - metric: acc\n  - metric: f1\n")
    file = read_task_file(path)
    assert file.where("task") == f"{path}:1  task"
    assert file.where("metric_list", 1, "metric") == f"{path}:4  metric_list[1].metric"
    assert file.where("metric_list", 0, "nothing") == f"{path}:3  metric_list[0].nothing"
    assert file.where("nothing") == f"{path}  nothing"
    assert file.where() == str(path)


def test_key_paths_read_like_code() -> None:
    assert show_path(("filter_list", 1, "filter", 0, "function")) == "filter_list[1].filter[0].function"


def test_includes_merge_shallowly_and_own_keys_win(write_yaml: Write) -> None:
    write_yaml("base", "a: 1\nb: {x: 1, y: 2}\nc: base\ntask_list: [z]\n")
    write_yaml("other.yaml", "c: other\nd: 4\n")
    path = write_yaml("sub/top.yaml", "include: [../base, ../other.yaml]\nb: {x: 9}\n")
    assert read_task_file(path).data == {"a": 1, "b": {"x": 9}, "c": "other", "d": 4}


def test_keys_point_at_the_file_they_came_from(write_yaml: Write) -> None:
    base = write_yaml("base.yaml", "a: 1\nb: {x: 1, y: 2}\n")
    top = write_yaml("top.yaml", "include: base.yaml\n\nb: {x: 9}\n")
    file = read_task_file(top)
    assert file.where("a") == f"{base}:1  a"
    assert file.where("b", "x") == f"{top}:3  b.x"
    assert file.where("b", "y") == f"{top}:3  b.y"  # y of the base was replaced, so the nearest key is ours


def test_a_shared_base_is_not_a_cycle(write_yaml: Write) -> None:
    write_yaml("base.yaml", "a: 1\n")
    write_yaml("left.yaml", "include: base.yaml\nb: 2\n")
    write_yaml("right.yaml", "include: base.yaml\nc: 3\n")
    top = write_yaml("top.yaml", "include: [left.yaml, right.yaml]\n")
    assert read_task_file(top).data == {"a": 1, "b": 2, "c": 3}


def test_a_cycle_is_reported_at_its_line(write_yaml: Write) -> None:
    write_yaml("sub/b.yaml", "x: 1\ninclude: ../sub/../a.yaml\n")
    found = fault(write_yaml("a.yaml", "include: sub/b.yaml\n"))
    assert "b.yaml:2  include: include cycle" in found and "a.yaml → " in found


def test_a_file_that_includes_itself_is_a_cycle(write_yaml: Write) -> None:
    assert "include cycle" in fault(write_yaml("sub/a.yaml", "include: ../sub/a.yaml\n"))


def test_a_missing_include_is_reported_at_its_line(write_yaml: Write) -> None:
    path = write_yaml("a.yaml", "task: x\ninclude: nowhere.yaml\n")
    assert fault(path).startswith(f'{path}:2  include: no file "{path.parent / "nowhere.yaml"}"')


def test_an_include_that_is_not_a_path_is_reported(write_yaml: Write) -> None:
    path = write_yaml("a.yaml", "include: {a: b}\n")
    assert fault(path) == f"{path}:1  include: is {{'a': 'b'}}; expected a path or a list of paths"


def test_broken_yaml_is_reported_at_its_line(write_yaml: Write) -> None:
    path = write_yaml("a.yaml", "task: x\nlist: [1, 2\nother: 3\n")
    assert fault(path).startswith(f"{path}:2: is not YAML: the [ ] that is opened on this line goes wrong at line 3")


def test_values_that_yaml_itself_trips_over_are_reported_all_at_once(write_yaml: Write) -> None:
    text = 'task: x\nday: 2024-13-45\nnumber: 0x_\na: !!bool x\nb: !!int ""\nc: !!timestamp x\n'
    found = fault(write_yaml("a.yaml", text)).splitlines()
    assert [line.split("yaml:")[1].split(",")[0] for line in found] == [
        "2: '2024-13-45' looks like a date",
        "3: '0x_' looks like a whole number",
        "4: 'x' looks like true or false",
        "5: '' looks like a whole number",
        "6: 'x' looks like a date",
    ]


def test_a_file_must_hold_a_mapping(write_yaml: Write) -> None:
    assert "holds a list; expected a mapping" in fault(write_yaml("a.yaml", "- a\n"))
    assert "holds nothing; expected a mapping" in fault(write_yaml("b.yaml", "# only a comment\n"))


def test_other_tags_construct_nothing(write_yaml: Write) -> None:
    text = "a: !!python/object/apply:os.system [ls]\n"
    assert 'unknown tag "!!python/object/apply:os.system"' in fault(write_yaml("a.yaml", text))


def test_code_is_kept_as_a_reference(write_yaml: Write) -> None:
    write_yaml("sub/base.yaml", "process_docs: !function utils.process\n")
    file = read_task_file(write_yaml("top.yaml", "include: sub/base.yaml\n"))
    reference = file.data["process_docs"]
    assert isinstance(reference, FunctionReference)
    assert (str(reference), reference.folder.name) == ("!function utils.process", "sub")


def test_a_file_that_is_not_there_or_not_text_is_reported(tmp_path: Path) -> None:
    assert "no file" in fault(tmp_path / "nowhere.yaml")
    (tmp_path / "a.yaml").write_bytes(b"task: \xff")
    assert "is not UTF-8: invalid start byte at byte 6" in fault(tmp_path / "a.yaml")


def test_yaml_has_the_rules_of_version_1_1(write_yaml: Write) -> None:
    path = write_yaml("a.yaml", "\ufeffa: yes\nb: off\nc: 1e3\nd: 1.0e+3\ne: 010\nf: x\nf: y\n")
    expected = {"a": True, "b": False, "c": "1e3", "d": 1000.0, "e": 8, "f": "y"}
    assert read_task_file(path).data == expected


def test_a_changed_file_is_read_again(write_yaml: Write) -> None:
    path = write_yaml("a.yaml", "task: x\n")
    assert read_task_file(path).data == {"task": "x"}
    write_yaml("a.yaml", "task: longer\n")
    assert read_task_file(path).data == {"task": "longer"}


def test_aliases_that_multiply_are_refused(write_yaml: Write) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "more than 200,000 keys" in fault(write_yaml("a.yaml", "\n".join(lines)))


def test_an_alias_to_itself_is_refused(write_yaml: Write) -> None:
    assert "refers to itself" in fault(write_yaml("a.yaml", "a: &a [*a]\n"))


def test_the_quick_reader_of_an_index_sees_what_the_careful_one_sees(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "base").write_text("tag: [a, b]\noutput_type: multiple_choice\ntask_list: 1\n")
    (tmp_path / "deep" / "middle.yaml").write_text("include: ../base\ntag: c\nprocess_docs: !function utils.f\n")
    (tmp_path / "leaf.yaml").write_text("include: [base, deep/middle.yaml]\ntask: leaf\n")
    reader = TopLevelKeyReader()
    for name in ("leaf.yaml", "deep/middle.yaml", "leaf.yaml"):
        careful = read_task_file(tmp_path / name).data
        quick, _ = reader.top_level_keys(str(tmp_path / name))
        wanted = ("task", "group", "tag", "output_type")
        assert {key: quick.get(key) for key in wanted} == {key: careful.get(key) for key in wanted}


@pytest.mark.parametrize("text", ["a: [1", "- a", "include: nowhere\n", "include: self.yaml\n", "d: 2024-13-45\n"])
def test_the_quick_reader_leaves_faults_to_the_careful_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "self.yaml"
    path.write_text(text)
    with pytest.raises(TaskFileError) as quick:
        TopLevelKeyReader().top_level_keys(str(path))
    with pytest.raises(TaskFileError) as careful:
        read_task_file(path)
    assert quick.value.faults == careful.value.faults
