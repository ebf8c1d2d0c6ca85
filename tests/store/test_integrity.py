"""Checking and repairing a store: what is damaged is found and dropped, everything else stays."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import StoreError
from assay.core.identity import Fingerprint
from assay.core.responses import Failure, Logprob, Response, Text
from assay.core.scores import DocumentValues
from assay.store.integrity import StoreCheck, check_store
from assay.store.repair import repair_store
from assay.store.run_records import FINISHED
from assay.store.store import Store

MODEL = Fingerprint("m")
KEYS = [hashlib.sha256(str(number).encode()).digest() for number in range(3000)]


def output(place: int) -> Logprob | Text:
    return Text(f"text {place} " * 3, "stop", 5) if place % 10 == 0 else Logprob(-place / 7, 3, place % 2 == 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store(tmp_path / "s.db") as store:
        store.responses.put([Response(key, output(place)) for place, key in enumerate(KEYS)], MODEL)
        for _ in range(3):
            run_id = store.runs.begin(MODEL, {}, {})
            store.runs.add_failures(run_id, [(KEYS[0], Failure("error", "no"))])
            store.runs.end(run_id, FINISHED, {}, [DocumentValues("t", "acc", "none", "mean", (0,), (1.0,))])
    return tmp_path / "s.db"


def change(path: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(statement, values)


def broken(found: StoreCheck) -> dict[str, int]:
    return {table.name: len(table.broken) for table in found.tables if table.broken}


def rows(found: StoreCheck) -> dict[str, int]:
    return {table.name: table.rows for table in found.tables}


def test_a_sound_store_is_sound(path: Path) -> None:
    found = check_store(path)
    assert found.is_sound and (found.damage, found.orphaned_answers) == ((), 0)
    counts = {"responses": 3000, "models": 1, "runs": 3, "document_values": 3, "failures": 3, "fitted": 0}
    assert rows(found) == counts


def test_checking_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    check_store(path)
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["s.db", "s.db.lock"]


@pytest.mark.parametrize(
    ("statement", "counts"),
    [
        ("UPDATE responses SET token_count = x'01' WHERE total > -10", {"responses": 63}),
        ("UPDATE responses SET total = total * 2 WHERE total < -400", {"responses": 180}),
        ("UPDATE runs SET summary = '{' WHERE rowid = 2", {"runs": 1}),  # and what hangs on it
        ("UPDATE runs SET model = 7 WHERE rowid = 2", {"runs": 1}),
        ("UPDATE models SET digest = 'another'", {"models": 1}),
        ("UPDATE document_values SET \"values\" = x'00' WHERE rowid = 1", {"document_values": 1}),
        ("DELETE FROM runs WHERE rowid = 1", {"document_values": 1, "failures": 1}),
        ("INSERT INTO fitted VALUES ('mine', 'k', 1.0, '/m', '[]')", {"fitted": 1}),
    ],
)
def test_what_cannot_be_read_is_found_and_dropped(path: Path, statement: str, counts: dict[str, int]) -> None:
    change(path, statement)
    before, found = path.read_bytes(), check_store(path)
    assert (broken(found), found.damage) == (counts, ())
    done = repair_store(found)
    assert counts.items() <= done.dropped.items() and not done.is_rebuilt
    again = check_store(path)
    assert again.is_sound
    assert rows(again)["responses"] == 3000 - counts.get("responses", 0)
    assert broken(check_store(done.backup)) == counts and path.read_bytes() != before


def test_two_repairs_in_one_second_keep_both_files(path: Path) -> None:
    kept = []
    for limit in (-420, -410):
        change(path, "UPDATE responses SET total = total * 2 WHERE total < ?", limit)
        kept.append(repair_store(check_store(path)).backup)
    assert len({*kept}) == 2 and all(check_store(name).tables[0].broken for name in kept)


def test_answers_of_a_model_that_is_not_listed_are_counted_and_kept(path: Path) -> None:
    change(path, "UPDATE responses SET model = 9 WHERE key = ?", KEYS[1])
    found = check_store(path)
    assert found.is_sound and found.orphaned_answers == 1


def test_rows_without_a_checksum_are_counted(path: Path) -> None:
    change(path, "UPDATE responses SET checksum = NULL")
    assert check_store(path).tables[0].unchecked == 3000


def test_a_store_of_an_earlier_schema_is_checked_as_it_is(path: Path) -> None:
    change(path, "ALTER TABLE responses DROP COLUMN checksum")
    change(path, "PRAGMA user_version = 3")
    assert check_store(path).is_sound
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 3


def damaged_page(path: Path) -> None:
    """Overwrites a page in the middle, which holds answers."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = b"\xaa" * 4096
    path.write_bytes(content)


def test_a_damaged_page_costs_its_rows_alone(path: Path) -> None:
    with Store(path) as store:
        names = [record.id for record in store.runs.all()]
    damaged_page(path)
    with pytest.raises(StoreError, match=r"malformed.*assay store check --store .*s\.db"), Store(path) as store:
        store.responses.get(KEYS)
    found = check_store(path)
    assert found.damage and not found.is_sound
    done = repair_store(found)
    assert done.is_rebuilt and [Path(name).stat().st_mode & 0o777 for name in (done.backup, path)] == [0o600, 0o600]
    again = check_store(path)
    assert again.is_sound and rows(again)["runs"] == 3
    with Store(path) as store:
        kept = store.responses.get(KEYS)
        assert [record.id for record in store.runs.all()] == names
    assert 2800 < len(kept) < 3000
    assert all(kept[key] == output(place) for place, key in enumerate(KEYS) if key in kept)


def test_damage_anywhere_gives_right_answers_or_an_error(path: Path) -> None:
    """Any flipped bits: what is read is what was written, or the store says that it is damaged."""
    content, generator = path.read_bytes(), random.Random(1)
    for _ in range(40):
        flipped = bytearray(content)
        flipped[generator.randrange(len(flipped))] ^= 1 << generator.randrange(8)
        path.write_bytes(flipped)
        try:
            with Store(path) as store:
                kept = store.responses.get(KEYS)
        except StoreError:
            continue
        assert len(kept) + len(store.responses.unreadable) >= 2990
        assert all(kept[key] == output(place) for place, key in enumerate(KEYS) if key in kept)


def test_a_file_of_which_nothing_can_be_read_is_left_alone(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xaa" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="no row of it can be read.*Restore a backup"):
        repair_store(check_store(path))
    assert path.read_bytes() == content


def test_no_file_and_no_store_are_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the file does not exist"):
        check_store(tmp_path / "none.db")
    (tmp_path / "notes.txt").write_text("dear diary, " * 500)
    with pytest.raises(StoreError, match="not a database"):
        check_store(tmp_path / "notes.txt")
    assert not (tmp_path / "none.db").exists()
