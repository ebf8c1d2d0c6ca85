"""Rows of the store: a changed bit is found, and a row that cannot be read is unknown and replaced."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assay.core.identity import Fingerprint
from assay.core.requests import Classification, Generation, Loglikelihood
from assay.core.responses import LabelScores, Logprob, Output, Response, Text
from assay.store.response_table import WRONG_CHECKSUM, WRONG_KIND, WRONG_VALUES
from assay.store.store import Store

MODEL = Fingerprint("m")
OUTPUTS: list[Output] = [
    Logprob(-1.25, 3, True, 10),
    Logprob(-0.0, 1, False),
    Logprob(float("-inf"), 1, False, notes=("zero_probability",)),
    Text("ü \ud800 and more", "length", 5),
    LabelScores((-0.5, -1.0)),
]
KEYS = [hashlib.sha256(bytes([number])).digest() for number in range(len(OUTPUTS))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store(tmp_path / "s.db") as store:
        store.responses.put(list(map(Response, KEYS, OUTPUTS)), MODEL)
    return tmp_path / "s.db"


def change(path: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def read(path: Path) -> tuple[dict[bytes, Output], dict[bytes, str]]:
    with Store(path) as store:
        return store.responses.get(KEYS), store.responses.unreadable


def test_sound_rows_read_as_written(path: Path) -> None:
    assert read(path) == (dict(zip(KEYS, OUTPUTS, strict=True)), {})


@pytest.mark.parametrize("bit", range(64))
def test_every_flipped_bit_of_a_total_is_found(path: Path, bit: int) -> None:
    (number,) = struct.unpack("<Q", struct.pack("<d", -1.25))
    (flipped,) = struct.unpack("<d", struct.pack("<Q", number ^ 1 << bit))
    change(path, "UPDATE responses SET total = ? WHERE key = ?", flipped, KEYS[0])
    found, faults = read(path)
    assert KEYS[0] not in found and len(found) == 4
    assert faults[KEYS[0]] in (WRONG_CHECKSUM, WRONG_VALUES)


@pytest.mark.parametrize(
    "column", ["is_greedy = 0", "token_count = 2", "prompt_tokens = 11", "truncated = 1", "checksum = checksum + 1"]
)
def test_any_other_value_is_found(path: Path, column: str) -> None:
    change(path, f"UPDATE responses SET {column} WHERE key = ?", KEYS[0])
    assert read(path)[1] == {KEYS[0]: WRONG_CHECKSUM}


def test_a_changed_letter_of_a_text_is_found(path: Path) -> None:
    change(path, "UPDATE responses SET extra = replace(extra, 'more', 'mora') WHERE key = ?", KEYS[3])
    assert read(path)[1] == {KEYS[3]: WRONG_CHECKSUM}


def test_answers_that_changed_places_are_found(path: Path) -> None:
    change(path, "UPDATE responses SET key = ? WHERE key = ?", b"x" * 32, KEYS[0])
    change(path, "UPDATE responses SET key = ? WHERE key = ?", KEYS[0], KEYS[1])
    assert read(path)[1] == {KEYS[0]: WRONG_CHECKSUM}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("token_count", b"\x01\0\0\0\0\0\0\0"),  # what sqlite3 makes of numpy.int64(1)
        ("total", b"\x00"),
        ("total", "much"),
        ("total", None),
        ("is_greedy", 7),
        ("is_greedy", None),
        ("truncated", -1),
        ("prompt_tokens", 1.5),
        ("extra", "{"),
        ("extra", '{"notes": 3}'),
        ("extra", b"\xff\xfe"),
        ("extra", "\N{SNOWMAN}"),
    ],
)
def test_rows_of_before_checksums_are_checked_by_type_and_range(path: Path, column: str, value: Any) -> None:
    change(path, "UPDATE responses SET checksum = NULL")
    assert read(path) == (dict(zip(KEYS, OUTPUTS, strict=True)), {})
    change(path, f"UPDATE responses SET {column} = ? WHERE key = ?", value, KEYS[0])
    found, faults = read(path)
    assert faults == {KEYS[0]: WRONG_VALUES} and list(found) and KEYS[0] not in found


@pytest.mark.parametrize(
    "extra",
    ["{}", "[]", '{"text": null, "finish": "stop"}', '{"text": "x"}', '{"scores": ["a"]}', '{"text": 3, "finish": 4}'],
)
def test_a_text_of_before_checksums_that_is_none_is_found(path: Path, extra: str) -> None:
    change(path, "UPDATE responses SET checksum = NULL, extra = ? WHERE key = ?", extra, KEYS[3])
    assert read(path)[1] == {KEYS[3]: WRONG_VALUES}


def test_a_text_that_is_not_utf8_hides_no_other_row(path: Path) -> None:
    change(path, "UPDATE responses SET extra = CAST(x'ff' AS TEXT) WHERE key = ?", KEYS[3])
    found, faults = read(path)
    assert len(found) == 4 and list(faults) == [KEYS[3]]


def test_an_answer_of_another_kind_is_unknown_to_its_request(path: Path) -> None:
    labelled = Classification("A fine film.", ("bad", "so so", "good"))
    with Store(path) as store:
        requests = {KEYS[0]: Generation("q"), KEYS[3]: Loglikelihood("q", " a"), KEYS[4]: labelled}
        assert store.responses.known({**requests, KEYS[1]: Loglikelihood("q", " b")}) == {KEYS[1]}
        assert store.responses.unreadable == dict.fromkeys(requests, WRONG_KIND)
        assert store.responses.get([KEYS[0]]) == {}
        store.responses.put([Response(KEYS[0], Text("new"))], MODEL)
        assert store.responses.get([KEYS[0]]) == {KEYS[0]: Text("new")}


@pytest.mark.parametrize("damage", ["token_count = x'01'", "total = total - 1", "total = NULL"])
def test_a_new_answer_takes_the_place_of_one_that_cannot_be_read(path: Path, damage: str) -> None:
    change(path, f"UPDATE responses SET {damage} WHERE key = ?", KEYS[0])
    new = Response(KEYS[0], Logprob(-2.0, 1, False)), Response(KEYS[1], Logprob(-9.0, 1, False))
    with Store(path) as store:
        assert store.responses.known(KEYS) == set(KEYS[1:])
        store.responses.put(new, MODEL)
        assert store.responses.get([KEYS[0]]) == {KEYS[0]: new[0].output} and "1 stored answer" in store.notices[0]
    found, faults = read(path)
    assert (found[KEYS[0]], found[KEYS[1]], faults) == (new[0].output, OUTPUTS[1], {})


def test_a_row_that_another_process_replaced_stays(path: Path) -> None:
    change(path, "UPDATE responses SET total = -7.0 WHERE key = ?", KEYS[0])
    with Store(path) as first, Store(path) as second:
        assert KEYS[0] not in first.responses.known(KEYS)
        second.responses.known(KEYS)
        second.responses.put([Response(KEYS[0], OUTPUTS[0])], MODEL)
        first.responses.put([Response(KEYS[0], Logprob(-3.0, 1, False))], MODEL)
    assert read(path)[0][KEYS[0]] == OUTPUTS[0]


def test_what_cannot_be_read_is_reported_by_count_and_reason(path: Path) -> None:
    change(path, "UPDATE responses SET total = -7.0 WHERE key = ?", KEYS[0])
    change(path, "UPDATE responses SET token_count = x'01' WHERE key = ?", KEYS[1])
    with Store(path) as store:
        store.responses.known(KEYS)
        (notice,) = store.notices
    assert notice.startswith("2 stored answers cannot be read") and f"assay store check --store {path}" in notice
    assert f"{WRONG_CHECKSUM} (1)" in notice and f"{WRONG_VALUES} (1)" in notice


@pytest.mark.parametrize("column", ["spec", "manifest", "summary"])
@pytest.mark.parametrize("value", ["{", "[]", "3", b"\xff"])
def test_a_damaged_run_is_named_and_hides_no_other(path: Path, column: str, value: Any) -> None:
    with Store(path) as store:
        broken, sound = (store.runs.begin(MODEL, {}, {}) for _ in range(2))
    change(path, f"UPDATE runs SET {column} = ? WHERE id = ?", value, broken)
    with Store(path) as store:
        assert [record.id for record in store.runs.all()] == [sound]
        assert f"1 run cannot be read and is left out: {broken}" in store.notices[0]
        with pytest.raises(Exception, match=f"run {broken}: its record cannot be read.*assay store check"):
            store.runs.get(broken)
        assert store.runs.speed(MODEL) is None


def test_a_damaged_trained_model_is_named(path: Path) -> None:
    change(path, "INSERT INTO fitted VALUES ('mine', 'k', 1.0, '/m', ?)", json.dumps([1]))
    with Store(path) as store, pytest.raises(Exception, match="model mine: its record cannot be read"):
        store.fitted.all()
