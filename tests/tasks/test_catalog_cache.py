"""The index of a folder is remembered, and every change to its files is noticed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from assay.core.version import __version__
from assay.tasks.catalog import index_folder
from assay.tasks.catalog_entries import TaskEntry

COUNT = 220


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "tasks"
    root.mkdir()
    (root / "base").write_text("tag: old\noutput_type: multiple_choice\n")
    for number in range(COUNT):
        (root / f"{number:03}.yaml").write_text(f"include: base\ntask: task{number:03}\n")
    return root


def indexed(root: Path, cache_folder: Path | None) -> dict[str, TaskEntry]:
    entries, faults = index_folder(root, cache_folder)
    assert faults == []
    return {entry.name: entry for entry in entries}


def touch(path: Path, text: str) -> None:
    """Writes a file with a later time, whatever the clock's steps are."""
    later = path.stat().st_mtime_ns + 10**9 if path.exists() else None
    path.write_text(text)
    if later is not None:
        os.utime(path, ns=(later, later))


def test_a_remembered_index_equals_a_fresh_one(folder: Path, tmp_path: Path) -> None:
    first = indexed(folder, tmp_path / "memory")
    assert len(list((tmp_path / "memory").iterdir())) == 1
    assert indexed(folder, tmp_path / "memory") == first == indexed(folder, None)
    entry = TaskEntry("task007", "task", str(folder / "007.yaml"), "multiple_choice", ("old",), shots=0)
    assert first["task007"] == entry


def test_cards_and_configurations_are_remembered(folder: Path, tmp_path: Path) -> None:
    card = "{description: d, primary: acc, languages: [en]}"
    (folder / "quiz.yaml").write_text(f"task: quiz\ncard: {card}\nconfigurations: {{a: {{num_fewshot: 2}}, b: {{}}}}\n")
    first = indexed(folder, tmp_path / "memory")
    assert indexed(folder, tmp_path / "memory") == first
    assert (first["quiz_a"].languages, first["quiz_a"].shots, first["quiz"].members) == (
        ("en",),
        2,
        ("quiz_a", "quiz_b"),
    )


def test_a_remembered_file_is_not_read_again(folder: Path, tmp_path: Path) -> None:
    indexed(folder, tmp_path / "memory")
    path = folder / "000.yaml"
    stat = path.stat()
    path.write_text(path.read_text().replace("task000", "other00"))
    os.utime(path, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    assert "task000" in indexed(folder, tmp_path / "memory")


def test_changed_new_and_deleted_files_are_noticed(folder: Path, tmp_path: Path) -> None:
    indexed(folder, tmp_path / "memory")
    touch(folder / "000.yaml", "task: renamed\n")
    touch(folder / "zzz.yaml", "group: all\ntask: [task001, {task: task002}]\n")
    (folder / "001.yaml").unlink()
    found = indexed(folder, tmp_path / "memory")
    assert found == indexed(folder, None)
    assert found["all"].members == ("task001", "task002")
    assert "renamed" in found and "task000" not in found and "task001" not in found


def test_a_changed_or_deleted_include_is_noticed(folder: Path, tmp_path: Path) -> None:
    indexed(folder, tmp_path / "memory")
    touch(folder / "base", "tag: new\n")
    found = indexed(folder, tmp_path / "memory")
    assert {entry.tags for entry in found.values()} == {("new",)}
    (folder / "base").unlink()
    entries, faults = index_folder(folder, tmp_path / "memory")
    assert (entries, len(faults)) == ([], COUNT)


ODD_ROW = json.dumps({"format": [2, __version__], "rows": {"x": 5}, "includes": {}})


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": [0, ""]}', '{"rows": {}, "format": null}', ODD_ROW])
def test_a_damaged_memory_is_not_a_memory(folder: Path, tmp_path: Path, damage: str) -> None:
    first = indexed(folder, tmp_path / "memory")
    (place,) = (tmp_path / "memory").iterdir()
    place.write_text(damage)
    assert indexed(folder, tmp_path / "memory") == first


def test_a_memory_that_cannot_be_written_is_not_an_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("a file in the way")
    assert len(indexed(folder, tmp_path / "memory")) == COUNT


def test_faulty_files_are_reported_every_time(folder: Path, tmp_path: Path) -> None:
    (folder / "bad.yaml").write_text("task: [\n")
    for _ in range(2):
        entries, faults = index_folder(folder, tmp_path / "memory")
        assert (len(entries), len(faults)) == (COUNT, 1)
