"""The catalog: the library, the user's folders, tags, and what is odd about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.core.errors import UserError
from assay.tasks.catalog import LIBRARY, Catalog
from assay.tasks.unknown_names import unknown_task

Write = Callable[..., Path]


def test_the_library_is_there_without_any_folder() -> None:
    entries = Catalog().entries
    assert entries["demo"].kind == "group"
    assert "demo_questions" in entries["demo"].members
    assert entries["demo_questions"].output_type == "multiple_choice"
    assert entries["demo_questions"].path == LIBRARY / "demo" / "demo_questions.yaml"
    assert Catalog().notices == []


def test_a_folder_adds_tasks_at_any_depth(tmp_path: Path, write_yaml: Write) -> None:
    write_yaml("a.yaml", "task: one\noutput_type: loglikelihood\n")
    write_yaml("deep/er/b.yaml", "include: ../../base\ntask: two\n")
    write_yaml("base", "output_type: multiple_choice\n")
    write_yaml("c.yml", "task: three\n")
    write_yaml("__pycache__/d.yaml", "task: four\n")
    catalog = Catalog([tmp_path])
    own = {
        name: entry.output_type
        for name, entry in catalog.entries.items()
        if entry.path and tmp_path in entry.path.parents
    }
    assert own == {"one": "loglikelihood", "two": "multiple_choice"}


def test_a_file_without_a_name_is_only_an_include(tmp_path: Path, write_yaml: Write) -> None:
    write_yaml("base.yaml", "output_type: loglikelihood\n")
    catalog = Catalog([tmp_path])
    assert catalog.notices == []
    assert catalog.entries.keys() == Catalog().entries.keys()


def test_a_later_folder_replaces_and_says_so(tmp_path: Path, write_yaml: Write) -> None:
    path = write_yaml("mine/a.yaml", "task: demo_cloze\n")
    catalog = Catalog([tmp_path / "mine"])
    assert catalog.entries["demo_cloze"].path == path
    (notice,) = catalog.notices
    assert notice == f'"demo_cloze" of {path} replaces {LIBRARY / "demo" / "demo_cloze.yaml"}'


def test_a_folder_that_replaces_much_says_so_once(tmp_path: Path, write_yaml: Write) -> None:
    for name in ("demo", "demo_cloze", "demo_text", "hellaswag"):
        write_yaml(f"{name}.yaml", f"task: {name}\n")
    (notice,) = Catalog([tmp_path]).notices
    assert notice == f"4 names of {tmp_path} replace earlier ones: demo, demo_cloze, demo_text, …"


def test_a_name_twice_in_one_folder_is_the_first_and_said(tmp_path: Path, write_yaml: Write) -> None:
    first, second = write_yaml("a.yaml", "task: same\n"), write_yaml("b.yaml", "task: same\n")
    catalog = Catalog([tmp_path])
    assert catalog.entries["same"].path == first
    assert catalog.notices == [f'"same" is defined twice: {first} is used, {second} is not']


def test_broken_files_are_listed_and_hurt_no_others(tmp_path: Path, write_yaml: Write) -> None:
    write_yaml("bad.yaml", "task: [\n")
    write_yaml("date.yaml", "task: x\nday: 2024-13-45\n")
    write_yaml("lost.yaml", "include: nowhere\n")
    write_yaml("list.yaml", "- a\n")
    write_yaml("good.yaml", "task: good\n")
    catalog = Catalog([tmp_path])
    assert "good" in catalog.entries
    assert [notice.startswith("task file left out: ") for notice in catalog.notices] == [True] * 4


def test_tags_gather_tasks_in_order_of_name(tmp_path: Path, write_yaml: Write) -> None:
    write_yaml("a.yaml", "task: zebra\ntag: animals\n")
    write_yaml("b.yaml", "task: ape\ntag: [animals, zoo]\n")
    entries = Catalog([tmp_path]).entries
    assert (entries["animals"].kind, entries["animals"].members) == ("tag", ("ape", "zebra"))
    assert entries["zoo"].members == ("ape",)
    assert entries["ape"].tags == ("animals", "zoo")


def test_a_tag_named_like_a_task_means_the_task(tmp_path: Path, write_yaml: Write) -> None:
    write_yaml("a.yaml", "task: a\n")
    write_yaml("b.yaml", "task: b\ntag: [a, demo]\n")
    entries = Catalog([tmp_path]).entries
    assert (entries["a"].kind, entries["demo"].kind) == ("task", "group")


def test_a_tag_of_a_later_folder_replaces_the_earlier_one(tmp_path: Path, write_yaml: Write) -> None:
    write_yaml("one/a.yaml", "task: a\ntag: t\n")
    write_yaml("two/b.yaml", "task: b\ntag: t\n")
    catalog = Catalog([tmp_path / "one", tmp_path / "two"])
    assert catalog.entries["t"].members == ("b",)
    assert catalog.notices == [f'the tag "t" of {tmp_path / "two"} replaces the earlier one']


def test_a_file_with_group_and_task_is_a_group(tmp_path: Path, write_yaml: Write) -> None:
    write_yaml("a.yaml", "group: g\ntask: [a, {task: b}, {group: c, task: [d]}]\n")
    entry = Catalog([tmp_path]).entries["g"]
    assert (entry.kind, entry.members) == ("group", ("a", "b", "c"))


def test_names_and_patterns(tmp_path: Path, write_yaml: Write) -> None:
    for name in ("x1", "x2", "X3", "y1"):
        write_yaml(f"{name}.yaml", f"task: {name}\n")
    catalog = Catalog([tmp_path])
    assert catalog.select("x1") == ["x1"]
    assert catalog.select("x?") == ["x1", "x2"]
    assert catalog.select("[xy]1") == ["x1", "y1"]
    assert catalog.select("nothing") == catalog.select("z*") == []


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--include_path: no folder .*nowhere"):
        Catalog([tmp_path / "nowhere"]).entries  # noqa: B018


def test_entries_have_the_facts_of_cards(tmp_path: Path, write_yaml: Write) -> None:
    card = "{description: One., family: reading, primary: f1, languages: [en, fr]}"
    write_yaml("a.yaml", f"task: a\nnum_fewshot: 3\nmetric_list: [{{metric: acc}}, {{metric: f1}}]\ncard: {card}\n")
    write_yaml("b.yaml", "task: b\nmetric_list: [{metric: acc}, {metric: f1}]\n")
    write_yaml("c.yaml", "task: c\nmetric_list: acc\ncard: [wrong]\n")
    entries = Catalog([tmp_path]).entries
    one = entries["a"]
    assert (one.description, one.family, one.primary, one.shots) == ("One.", "reading", "f1", 3)
    assert one.languages == ("en", "fr")
    assert (entries["b"].primary, entries["b"].shots, entries["b"].family) == ("acc", 0, "")
    assert (entries["c"].primary, entries["c"].description) == ("", "")


def test_the_family_of_a_library_task_is_its_folder() -> None:
    assert Catalog().entries["hellaswag"].family == "commonsense"
    assert {Catalog().entries[name].family for name in ("mmlu", "mmlu_stem", "mmlu_anatomy")} == {"knowledge"}


def test_an_unknown_name_whose_file_is_broken_says_what_is_wrong_with_it(tmp_path: Path, write_yaml: Write) -> None:
    write_yaml("sums.yaml", "task: sums\n  foo: [1,\n")
    catalog = Catalog([tmp_path])
    assert str(unknown_task("sums", catalog, ())) == str(catalog.broken[0])
    found = str(unknown_task("qwertyuiop", catalog, ()))
    assert (
        'unknown task "qwertyuiop", and 1 task file cannot be read: ' in found and "sums.yaml:2: is not YAML" in found
    )
