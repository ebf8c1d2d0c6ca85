"""Which local files a task file may name: absolute paths yes, keys, system files and whole disks no."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError
from assay.data.sources import FileSource, SourceSpec, open_source


def opened(folder: Path, path: str, **options: Any) -> FileSource:
    source = open_source(SourceSpec(path, None, options, folder, "my.yaml:2  dataset_path"))
    assert isinstance(source, FileSource)
    return source


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A task file's folder, and another one with data, a key and notes."""
    task, other = tmp_path / "task", tmp_path / "other"
    for folder in (task, other / ".ssh"):
        folder.mkdir(parents=True)
    for path in (task / "a.jsonl", task / "notes", other / "a.jsonl", other / "notes", other / ".ssh" / "id.txt"):
        path.write_text(json.dumps({"a": 1}) + "\n")
    return task, other


def test_a_file_elsewhere_may_be_named(folders: tuple[Path, Path]) -> None:
    task, other = folders
    for name in (
        "a.jsonl",
        str(task / "a.jsonl"),
        str(other / "a.jsonl"),
        "../other/a.jsonl",
        str(other / "**/a.jsonl"),
    ):
        assert opened(task, "json", data_files={"test": name}).rows("test") == [{"a": 1}]
    assert opened(task, "text", data_files="notes").rows("train") == [{"text": '{"a": 1}'}]


@pytest.mark.parametrize(
    ("path", "options", "found"),
    [
        ("text", {"data_files": "{other}/.ssh/id.txt"}, '".ssh", which is hidden'),
        ("text", {"data_files": {"test": ["../other/.ssh/*"]}}, '".ssh", which is hidden'),
        ("text", {"data_files": "/etc/passwd"}, "belongs to the operating system"),
        ("text", {"data_files": "{other}/notes"}, "has no extension of data files"),
        ("xml", {"data_files": "{other}/.ssh/id.txt"}, '".ssh", which is hidden'),
        ("imagefolder", {"data_dir": "/proc/self"}, "belongs to the operating system"),
        ("{other}/.ssh", {}, '".ssh", which is hidden'),
        ("text", {"data_files": "file:///etc/passwd"}, "means a local file"),
        ("text", {"data_files": "zip://a.txt::/home/me/a.zip"}, "means a local file"),
        ("json", {"data_files": "/**/*.json"}, 'would search all of "/"'),
        ("json", {"data_files": "~/**/*.json"}, "would search all of"),
        ("/", {}, 'would search all of "/"'),
        ("imagefolder", {"data_dir": "~"}, "would search all of"),
    ],
)
def test_what_is_never_data_is_refused(
    folders: tuple[Path, Path], path: str, options: dict[str, Any], found: str
) -> None:
    task, other = folders
    given = json.loads(json.dumps(options).replace("{other}", str(other)))
    with pytest.raises(DataError, match=found):
        opened(task, path.replace("{other}", str(other)), **given)


def test_a_link_to_a_key_is_refused(folders: tuple[Path, Path]) -> None:
    task, other = folders
    (task / "b.txt").symlink_to(other / ".ssh" / "id.txt")
    with pytest.raises(DataError, match="hidden"):
        opened(task, "text", data_files="b.txt")


def test_addresses_and_caches_pass(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    task, other = folders
    monkeypatch.setenv("HF_HOME", str(other / ".hub"))
    (other / ".hub").mkdir()
    (other / ".hub" / "a.jsonl").write_text('{"a": 2}\n')
    assert opened(task, "json", data_files=str(other / ".hub" / "a.jsonl")).rows("train") == [{"a": 2}]
    for address in ("https://host/a.json", "hf://datasets/x/a.json", "zip://a.json::https://host/a.zip"):
        open_source(SourceSpec("json", None, {"data_files": address}, task, "here"))
