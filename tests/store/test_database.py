"""The store's file: made, brought up to date, or refused in plain words."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from assay.core.errors import StoreError
from assay.core.identity import Fingerprint
from assay.core.responses import Response, Text
from assay.store.database import Database
from assay.store.migrations import APPLICATION_ID, MIGRATIONS
from assay.store.store import Store, default_path

MODEL = Fingerprint("m")


def ask(path: Path, query: str) -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchone()[0]


def test_an_empty_file_gets_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "s.db"
    with Store(path) as store:
        assert store.responses.count() == 0
    assert ask(path, "PRAGMA user_version") == len(MIGRATIONS)
    assert ask(path, "PRAGMA application_id") == APPLICATION_ID
    assert ask(path, "PRAGMA journal_mode") == "wal"


def test_a_store_and_its_log_files_are_the_owners_alone(tmp_path: Path) -> None:
    earlier = os.umask(0)
    try:
        with Store(tmp_path / "own" / "s.db") as store:
            store.responses.put([Response(b"k" * 32, Text("x"))], MODEL)
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "own").iterdir()}
    finally:
        os.umask(earlier)
    assert modes == dict.fromkeys(["s.db", "s.db.lock", "s.db-wal", "s.db-shm"], 0o600)
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700


def test_a_store_that_its_owner_shares_stays_shared(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    Store(path).__enter__().__exit__(None, None, None)
    path.chmod(0o644)
    with Store(path) as store:
        store.responses.put([Response(b"k" * 32, Text("x"))], MODEL)
        found = [stat.S_IMODE(Path(f"{path}{ending}").stat().st_mode) for ending in ("", "-wal", "-shm")]
    assert found == [0o644] * 3


def test_a_file_of_no_bytes_is_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch()
    with Store(tmp_path / "s.db") as store:
        assert store.runs.all() == []


def test_closing_folds_the_log_into_the_file(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        store.responses.put([Response(b"k" * 32, Text("x"))], MODEL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.db", "s.db.lock"]


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    for _ in range(3):
        with Store(path) as store:
            store.responses.put([Response(b"k" * 32, Text("x"))], MODEL)
    assert ask(path, "SELECT count(*) FROM models") == 1


def test_another_programs_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE photos (name TEXT)")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program's SQLite file.*Choose another --store"), Store(path):
        pass
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path):
        pass
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match=r"written by a newer Assay \(schema 99\).*Update Assay"), Store(path):
        pass


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder; expected a file"), Store(tmp_path):
        pass


def test_a_file_in_the_way_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="could not be opened"), Store(tmp_path / "file" / "s.db"):
        pass


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="Permission denied.*--store"), Store(tmp_path / "s.db"):
        pass
    tmp_path.chmod(0o700)


def test_a_text_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 500)
    with pytest.raises(StoreError, match="not a database.*Move the file away"), Store(path):
        pass
    assert path.read_text() == "dear diary, " * 500


def test_a_damaged_store_is_an_error_not_a_wrong_answer(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        store.responses.put([Response(bytes([n % 256, n // 256]) * 16, Text("x" * 200)) for n in range(2000)], MODEL)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xaa" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="could not be (opened|read): .*malformed"), Store(path) as store:
        store.responses.count()


def test_a_store_that_could_not_be_opened_is_closed(tmp_path: Path) -> None:
    """Nothing stays open: with warnings as errors, a forgotten file fails the test."""
    database = Database(tmp_path)
    with pytest.raises(StoreError):
        database.open()
    with pytest.raises(StoreError, match="the store is closed"):
        database.read("SELECT 1")


def test_a_transaction_is_kept_whole_or_not_at_all() -> None:
    database = Database(":memory:").open()
    with pytest.raises(KeyboardInterrupt), database.write() as connection:
        connection.execute("INSERT INTO models (digest, fingerprint) VALUES ('d', '{}')")
        raise KeyboardInterrupt
    assert database.read("SELECT count(*) FROM models") == [(0,)]
    database.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such lock")
def test_a_writer_waits_while_another_process_writes(tmp_path: Path) -> None:
    import fcntl

    with Store(tmp_path / "s.db") as store, open(tmp_path / "s.db.lock", "ab") as other:
        writer = threading.Thread(target=store.responses.model_id, args=[MODEL])
        fcntl.flock(other, fcntl.LOCK_EX)
        writer.start()
        writer.join(timeout=0.2)
        assert writer.is_alive()
        fcntl.flock(other, fcntl.LOCK_UN)
        writer.join(timeout=10)
        assert not writer.is_alive()


def test_a_wrong_statement_is_a_store_error() -> None:
    with pytest.raises(StoreError, match="could not be read: no such table"), Store() as store:
        store.responses._database.read("SELECT * FROM nowhere")


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db").open()
    database.close()
    database.close()


def test_a_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with Store("~/s.db") as store:
        assert store.path == str(tmp_path / "s.db")


def test_the_environment_names_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "mine.db"))
    assert default_path() == tmp_path / "mine.db"
    monkeypatch.delenv("ASSAY_STORE")
    assert default_path().name == "store.db"
