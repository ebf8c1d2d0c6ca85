"""Files that are not stores, stores that were emptied, and stores that can only be read."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import StoreError
from assay.core.fingerprints import Fingerprint
from assay.core.responses import Response, Text
from assay.store.migrations import MIGRATIONS
from assay.store.store import Store

MODEL = Fingerprint("m")
KEY, NEWER = b"k" * 32, b"n" * 32
NOBODY = 65534
pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs the permissions of Unix")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach, as pytest's own cannot be."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        for path in [Path(name), *Path(name).rglob("*")]:
            path.chmod(0o755)


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may write anywhere: acts as nobody for a while. Other users stay who they are."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def make_store(path: Path) -> Path:
    with Store(path) as store:
        store.responses.put([Response(KEY, Text("kept"))], MODEL)
        store.runs.begin(MODEL, {"model": "m"}, {})
    return path


def with_log(path: Path, has_index: bool) -> Path:
    """A store whose newest answer is only in its log, as after a kill; with the log's index or without."""
    make_store(path)
    copies = path.with_name("copies")
    copies.mkdir()
    with Store(path) as store:
        store.responses.put([Response(NEWER, Text("newer"))], MODEL)
        for ending in ("", "-wal", *(["-shm"] if has_index else [])):
            shutil.copyfile(f"{path}{ending}", copies / f"{path.name}{ending}")
    return copies / path.name


def make_read_only(path: Path, has_closed_folder: bool = True) -> None:
    for file in path.parent.iterdir():
        file.chmod(0o444 if file.is_file() else 0o755)
    path.parent.chmod(0o555 if has_closed_folder else 0o777)


def answers(path: Path) -> dict[bytes, Any]:
    with Store(path, may_be_read_only=True) as store:
        assert len(store.runs.all()) == 1
        return dict(store.responses.get([KEY, NEWER]))


@pytest.mark.parametrize("has_closed_folder", [True, False])
def test_a_read_only_store_is_read_and_nothing_is_left_beside_it(folder: Path, has_closed_folder: bool) -> None:
    path = make_store(folder / "s.db")
    make_read_only(path, has_closed_folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with without_rights():
        assert answers(path) == {KEY: Text("kept")}
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_writable_file_in_a_read_only_folder_is_read(folder: Path) -> None:
    path = make_store(folder / "s.db")
    path.chmod(0o666)
    folder.chmod(0o555)
    with without_rights():
        assert answers(path) == {KEY: Text("kept")}


@pytest.mark.parametrize("has_index", [True, False])
def test_answers_in_the_log_of_a_read_only_store_are_read(folder: Path, has_index: bool) -> None:
    path = with_log(folder / "s.db", has_index)
    make_read_only(path)
    with without_rights():
        assert answers(path) == {KEY: Text("kept"), NEWER: Text("newer")}


def test_a_copy_that_was_read_is_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_log(folder / "s.db", has_index=False)
    make_read_only(path)
    scratch = folder / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with without_rights():
        assert NEWER in answers(path)
    assert list(scratch.iterdir()) == []


def test_a_read_only_store_of_an_earlier_schema_is_read(folder: Path) -> None:
    path = make_store(folder / "s.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE responses DROP COLUMN checksum")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) - 1}")
    make_read_only(path)
    with without_rights():
        assert answers(path) == {KEY: Text("kept")}


def test_what_is_recorded_in_a_read_only_store_is_dropped_with_a_notice(folder: Path) -> None:
    path = make_store(folder / "s.db")
    make_read_only(path)
    with without_rights(), Store(path, may_be_read_only=True) as store:
        assert store.notices == []
        store.runs.end(store.runs.begin(MODEL, {}, {}), "finished", {})
        assert len(store.runs.all()) == 1
        assert [notice for notice in store.notices if "is read-only" in notice and "not recorded" in notice]


@pytest.mark.parametrize("has_closed_folder", [True, False])
def test_writing_to_a_read_only_store_is_an_error_at_once(folder: Path, has_closed_folder: bool) -> None:
    path = make_store(folder / "s.db")
    make_read_only(path, has_closed_folder)
    with without_rights(), pytest.raises(StoreError, match=r"Permission denied \(.*s\.db.*--store"), Store(path):
        pass


def test_a_store_that_may_not_be_read_is_an_error(folder: Path) -> None:
    path = make_store(folder / "s.db")
    path.chmod(0)
    with without_rights(), pytest.raises(StoreError, match="could not be opened"), Store(path, may_be_read_only=True):
        pass


def test_looking_makes_no_store(folder: Path) -> None:
    with Store(folder / "none.db", may_be_read_only=True) as store:
        assert store.runs.all() == []
    assert list(folder.iterdir()) == []


# Files of 0 bytes


@pytest.mark.parametrize("may_be_read_only", [True, False])
def test_a_store_that_was_truncated_is_not_a_new_one(folder: Path, may_be_read_only: bool) -> None:
    path = make_store(folder / "s.db")
    os.truncate(path, 0)
    with pytest.raises(StoreError, match=r"has 0 bytes.*answers and runs are lost.*Restore a backup.*delete the file"):
        Store(path, may_be_read_only).__enter__()
    assert path.stat().st_size == 0


def test_a_truncated_store_with_a_log_keeps_its_log(folder: Path) -> None:
    path = with_log(folder / "s.db", has_index=False)
    os.truncate(path, 0)
    size = Path(f"{path}-wal").stat().st_size
    with pytest.raises(StoreError, match=r"has 0 bytes, but its log .*s\.db-wal does not"), Store(path):
        pass
    assert Path(f"{path}-wal").stat().st_size == size > 0


def test_a_new_file_of_0_bytes_becomes_a_store_with_a_notice(folder: Path) -> None:
    (folder / "s.db").touch()
    with Store(folder / "s.db") as store:
        assert store.runs.all() == []
        assert "had 0 bytes and starts as a new store" in store.notices[0]


def test_a_deleted_store_starts_over(folder: Path) -> None:
    path = make_store(folder / "s.db")
    path.unlink()
    for _ in range(2):
        with Store(path) as store:
            assert (store.responses.count(), store.notices) == (0, [])


@pytest.mark.parametrize("size", [1, 100, 512, 4096, 5000])
def test_a_store_cut_short_is_an_error_with_advice(folder: Path, size: int) -> None:
    path = make_store(folder / "s.db")
    os.truncate(path, size)
    with (
        pytest.raises(StoreError, match=r"s\.db.*(assay store check|Move the file away|too few for a store)"),
        Store(path) as store,
    ):
        store.responses.count()


# Versions and names


@pytest.mark.parametrize("version", [-1, -(2**31), 2**31 - 1, 99, 0, 1, 2, 3])
def test_a_forged_schema_version_is_explained(folder: Path, version: int) -> None:
    path = make_store(folder / "s.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"store .*s\.db: .*schema {version}.*; expected .*schema"), Store(path):
        pass
    assert path.read_bytes() == before


def test_a_store_without_one_of_its_tables_is_explained(folder: Path) -> None:
    path = make_store(folder / "s.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE failures")
    with pytest.raises(StoreError, match="its tables do not match: no such table: failures"), Store(path):
        pass


@pytest.mark.parametrize("name", ["a\0b.db", "\ud800.db"])
def test_an_impossible_name_is_explained(name: str) -> None:
    with pytest.raises(StoreError, match="is not a file name"), Store(name):
        pass


def test_a_device_or_pipe_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for path in (folder / "pipe", Path("/dev/null")):
        with pytest.raises(StoreError, match="is a device or pipe"), Store(path):
            pass
    assert not Path("/dev/null.lock").exists()
