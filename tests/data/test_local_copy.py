"""Folders of datasets: which files a dataset means there, and what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import DataError
from assay.data.copy_source import CopySource, open_with_copies
from assay.data.local_copy import (
    RECORD,
    CopiedFile,
    CopyRecord,
    config_folder_name,
    file_sha256,
    find_copy,
    read_record,
    repository_file,
)
from assay.data.sources import (
    FileSource,
    IncompleteCopy,
    SourceSpec,
    check_splits,
    official_rows,
    origin_of,
    split_rows,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write_split(root: Path, name: str, *values: Any) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"a": value}) + "\n" for value in values), encoding="utf-8")
    return path


def write_record(folder: Path, is_default: bool = False, revision: str | None = None, **official: int | None) -> None:
    files = {}
    for path in sorted(folder.glob("*.jsonl")):
        rows = len(path.read_text().splitlines())
        size, split = path.stat().st_size, path.name.partition(".")[0]
        files[path.name] = CopiedFile(size, file_sha256(path), split, rows, official.get(split))
    dataset = "/".join(folder.parts[-3:-1])
    CopyRecord(dataset, folder.name, is_default, revision, COMMIT, "", files).write(folder)


def spec(path: str = "me/sums", name: str | None = None, **options: Any) -> SourceSpec:
    return SourceSpec(path, name, options, None, "my.yaml:2", "mine")


def values(root: Path, asked: SourceSpec, split: str = "test") -> list[Any]:
    return [row["a"] for row in split_rows(open_with_copies(asked, root), split, "my.yaml:3")]


def message(root: Path, asked: SourceSpec, split: str = "test") -> str:
    with pytest.raises(DataError) as caught:
        values(root, asked, split)
    return str(caught.value)


def test_a_dataset_is_found_by_configuration_and_split(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    write_split(tmp_path, "me/sums/hard/test_r1.jsonl", 2)
    assert values(tmp_path, spec()) == [1]
    assert values(tmp_path, spec(name="hard"), "test_r1") == [2]
    assert find_copy(tmp_path, "me/sums", "easy", {}) is None
    assert find_copy(tmp_path, "me/others", None, {}) is None


def test_the_only_configuration_is_the_default_one(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/plain/test.jsonl", 1)
    assert values(tmp_path, spec()) == [1]
    write_split(tmp_path, "me/sums/other/test.jsonl", 2)
    assert find_copy(tmp_path, "me/sums", None, {}) is None


def test_a_recorded_configuration_is_the_default_if_its_record_says_so(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/en/test.jsonl", 1)
    write_record(tmp_path / "me/sums/en")
    assert find_copy(tmp_path, "me/sums", None, {}) is None
    write_record(tmp_path / "me/sums/en", is_default=True)
    assert values(tmp_path, spec()) == [1]


def test_the_parts_of_a_split_are_read_in_order(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/default/test-00001-of-00002.jsonl", 2)
    write_split(tmp_path, "me/sums/default/test-00000-of-00002.jsonl", 1)
    assert values(tmp_path, spec()) == [1, 2]


@pytest.mark.parametrize("name", ["../secret", "a/b", ".hidden", ".."])
def test_a_configuration_does_not_lead_out_of_its_dataset(tmp_path: Path, name: str) -> None:
    write_split(tmp_path, "me/secret/test.jsonl", 1)
    write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    assert find_copy(tmp_path, "me/sums", name, {}) is None
    assert find_copy(tmp_path, "../me/sums", None, {}) is None
    assert repository_file("hf://datasets/me/sums/../../other/x.jsonl") is None


def test_a_clone_has_the_configurations_of_its_card(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    write_split(tmp_path, "me/sums/data/x.jsonl", 1)
    configs = "configs:\n- config_name: easy\n  data_files:\n  - split: test\n    path: data/x.jsonl\n"
    (tmp_path / "me/sums/README.md").write_text(f"---\n{configs}---\n")
    assert values(tmp_path, spec(name="easy")) == [1]
    assert find_copy(tmp_path, "me/sums", "eas", {}) is None


def test_files_of_a_repository_are_found_by_their_address(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/data/x.jsonl", 1)
    write_split(tmp_path, "me/sums/data/y.jsonl", 2)
    named = {"test": "hf://datasets/me/sums/data/*.jsonl", "train": ["hf://datasets/me/sums@main/data/x.jsonl"]}
    source = open_with_copies(spec("json", data_files=named), tmp_path)
    assert isinstance(source, FileSource)
    assert [row["a"] for row in source.rows("test")] == [1, 2]
    assert [row["a"] for row in source.rows("train")] == [1]
    assert origin_of(source) == {"from": "copy", "dataset": "me/sums", "folder": str(tmp_path), "commit": ""}


def test_settings_that_select_rows_have_a_folder_of_their_own(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    assert find_copy(tmp_path, "me/sums", None, {"data_dir": "hard"}) is None
    folder = config_folder_name("default", {"data_dir": "hard", "trust_remote_code": True})
    write_split(tmp_path, f"me/sums/{folder}/test.jsonl", 2)
    assert values(tmp_path, spec(data_dir="hard")) == [2]


def test_data_dir_names_a_configuration_of_a_folder_without_records(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/easy/test.jsonl", 1)
    write_split(tmp_path, "me/sums/hard/test.jsonl", 2)
    assert values(tmp_path, spec(data_dir="hard", revision="refs/convert/parquet")) == [2]
    assert find_copy(tmp_path, "me/sums", None, {"data_dir": "../sums/easy"}) is None


def test_a_local_folder_of_the_task_file_comes_first(tmp_path: Path) -> None:
    write_split(tmp_path, "copies/me/sums/default/test.jsonl", 1)
    write_split(tmp_path, "tasks/me/sums/test.jsonl", 2)
    asked = SourceSpec("me/sums", None, {}, tmp_path / "tasks", "my.yaml:2")
    assert values(tmp_path / "copies", asked) == [2]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/default/test.jsonl", 1, 2)
    write_record(tmp_path / "me/sums/default", True, "v1", test=9)
    record = read_record(tmp_path / "me/sums/default")
    assert record is not None and record.files["test.jsonl"].official == 9
    assert record.suits(None) and record.suits("v1") and record.suits(COMMIT) and not record.suits("main")
    source = open_with_copies(spec(), tmp_path)
    assert official_rows(source) == {"test": 9}
    assert (origin_of(source)["commit"], origin_of(source)["config"]) == (COMMIT, "default")


def test_a_changed_file_is_named(tmp_path: Path) -> None:
    path = write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    write_record(tmp_path / "me/sums/default")
    write_split(tmp_path, "me/sums/default/test.jsonl", 2)
    text = message(tmp_path, spec(name="default"))
    assert text.startswith(f"{path}: has changed since it was fetched; expected the SHA-256 in {RECORD}")
    assert text.endswith(f"Delete it and fetch it again: assay data get --tasks mine --to {tmp_path}")
    path.write_text("{}")
    assert "has 2 bytes; expected 9, as" in message(tmp_path, spec(name="default"))


def test_only_the_files_that_are_read_are_checked(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    write_split(tmp_path, "me/sums/default/train.jsonl", 1)
    write_record(tmp_path / "me/sums/default", True)
    write_split(tmp_path, "me/sums/default/train.jsonl", 2)
    assert values(tmp_path, spec()) == [1]
    assert "train.jsonl: has changed" in message(tmp_path, spec(), "train")


def test_a_half_downloaded_copy_says_so(tmp_path: Path) -> None:
    path = write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    write_record(tmp_path / "me/sums/default", True)
    path.unlink()
    text = message(tmp_path, spec())
    assert f"{path}: is recorded in {RECORD} and not there: the copy is not complete" in text
    assert "Fetch the rest: assay data get --tasks mine" in text


def test_a_split_that_the_copy_lacks_says_how_to_add_it(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    write_record(tmp_path / "me/sums/default", True)
    text = message(tmp_path, spec(), "train")
    assert 'my.yaml:3: no split "train"; expected one of: test. To add it to' in text
    assert f"run: assay data get --tasks mine --to {tmp_path}" in text


def test_what_is_missing_shows_before_rows_are_read(tmp_path: Path) -> None:
    path = write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    write_split(tmp_path, "me/sums/default/train.jsonl", 1)
    write_record(tmp_path / "me/sums/default", True)
    wanted = {"test": "my.yaml:3", "train": "my.yaml:4", "dev": "my.yaml:5"}
    path.write_text("{}")
    with pytest.raises(IncompleteCopy) as caught:
        check_splits(open_with_copies(spec(), tmp_path), wanted)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{path}: has 2 bytes; expected 9") and second.startswith('my.yaml:5: no split "dev"')


def test_files_put_there_by_hand_are_completed_by_hand(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    text = message(tmp_path, spec(), "train")
    assert f"Put the split into {tmp_path}/me/sums/default as a file SPLIT.parquet or SPLIT.jsonl" in text


def test_another_revision_is_an_error(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    write_record(tmp_path / "me/sums/default", True)
    text = message(tmp_path, spec(revision="v2"))
    assert f"holds revision main (commit {COMMIT}) of me/sums; expected revision v2, as the task says" in text
    assert values(tmp_path, spec(revision=COMMIT)) == values(tmp_path, spec(revision="main")) == [1]


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    write_split(tmp_path, "me/sums/default/test.jsonl", 1)
    (tmp_path / "me/sums/default" / RECORD).write_text('{"files": [')
    found = message(tmp_path, spec())
    assert f"{RECORD}: cannot be read" in found
    assert f"Delete the folder {tmp_path / 'me/sums/default'} and fetch" in found  # files alone would be left alone
    (tmp_path / "me/sums/default" / RECORD).write_text("[]")
    assert f"{RECORD}: does not have the form of a record; expected" in message(tmp_path, spec())


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS, without the data"),
        (b"PAR1half of a file", "is not a Parquet file"),
    ],
)
def test_a_file_that_is_not_the_data_says_so(tmp_path: Path, content: bytes, found: str) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "me/sums/default/test.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert found in message(tmp_path, spec())


def test_types_of_parquet_columns_are_kept(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows: Mapping[str, Any] = {"label": [1, 0], "choices": [["a", "b"], ["c"]], "inner": [{"x": [1]}, {"x": []}]}
    label = datasets.ClassLabel(names=["no", "yes"])
    made = datasets.Dataset.from_dict(rows).cast_column("label", label)
    path = tmp_path / "me/sums/default/test.parquet"
    path.parent.mkdir(parents=True)
    made.to_parquet(str(path))
    plain = open_with_copies(spec(), tmp_path)
    assert isinstance(plain, CopySource)
    assert plain.rows("test") == made.to_list()
    for_code = open_with_copies(spec(), tmp_path, for_code=True)
    assert for_code.dataset("test").features["label"].names == ["no", "yes"]
    assert for_code.rows("test") == made.to_list()
