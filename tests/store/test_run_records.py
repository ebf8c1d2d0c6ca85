"""Run records."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assay.core.errors import UnknownName
from assay.core.fingerprints import Fingerprint
from assay.core.responses import Failure
from assay.store.run_records import FAILED, FINISHED, RUNNING
from assay.store.store import Store

MODEL = Fingerprint("smol", weights="w")


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as opened:
        yield opened


def test_a_run_begins_as_running(store: Store) -> None:
    run_id = store.runs.begin(MODEL, {"tasks": ["a"]}, {"python": "3"})
    record = store.runs.get(run_id)
    assert (record.status, record.finished, record.summary) == (RUNNING, None, None)
    assert (record.model, record.spec, record.manifest) == ("smol", {"tasks": ["a"]}, {"python": "3"})
    assert abs(record.created - time.time()) < 60


def test_a_run_ends_with_status_and_summary(store: Store) -> None:
    run_id = store.runs.begin(MODEL, {}, {})
    store.runs.end(run_id, FINISHED, {"counts": {"asked": 3}})
    record = store.runs.get(run_id)
    assert (record.status, record.summary) == (FINISHED, {"counts": {"asked": 3}})
    assert record.finished is not None and record.finished >= record.created


def test_a_failed_run_has_no_summary(store: Store) -> None:
    run_id = store.runs.begin(MODEL, {}, {})
    store.runs.abandon(run_id, FAILED)
    assert (store.runs.get(run_id).status, store.runs.get(run_id).summary) == (FAILED, None)


def test_a_run_that_got_to_its_end_is_not_abandoned(store: Store) -> None:
    run_id = store.runs.begin(MODEL, {}, {})
    store.runs.end(run_id, FINISHED, {"counts": {}})
    store.runs.abandon(run_id, FAILED)
    record = store.runs.get(run_id)
    assert (record.status, record.summary) == (FINISHED, {"counts": {}})


def test_runs_come_newest_first(store: Store) -> None:
    names = [store.runs.begin(MODEL, {"number": number}, {}) for number in range(3)]
    assert [record.id for record in store.runs.all()] == names[::-1]


def test_last_is_the_run_recorded_last_after_the_clock_went_back(tmp_path: Path) -> None:
    path = tmp_path / "clock.db"
    with Store(path) as store:
        first, second = store.runs.begin(MODEL, {}, {}), store.runs.begin(MODEL, {}, {})
        store.runs.end(first, FINISHED, {})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET created = created - 86400, id = 'a' WHERE id = ?", (second,))
    with Store(path) as store:
        assert [store.runs.get(name).id for name in ("last", "last~1")] == ["a", first]
        assert [record.id for record in store.runs.all()] == ["a", first]


def test_a_run_is_found_by_the_start_of_its_name(store: Store) -> None:
    run_id = store.runs.begin(MODEL, {}, {})
    assert store.runs.get(run_id[:-2]).id == run_id


def test_a_start_that_several_share_is_refused(store: Store) -> None:
    first, _ = (store.runs.begin(MODEL, {}, {}) for _ in range(2))
    with pytest.raises(UnknownName, match="matches 2 runs"):
        store.runs.get(first[:4])


@pytest.mark.parametrize("name", ["nope", "%", "_______", "2%"])
def test_an_unknown_run_is_refused_and_marks_mean_nothing(store: Store, name: str) -> None:
    store.runs.begin(MODEL, {}, {})
    with pytest.raises(UnknownName, match=f'unknown run "{name}".*See: assay ls runs'):
        store.runs.get(name)


def test_a_near_name_is_suggested(store: Store) -> None:
    run_id = store.runs.begin(MODEL, {}, {})
    with pytest.raises(UnknownName, match=f'did you mean "{run_id}"'):
        store.runs.get(run_id[:-1] + "x")


def test_failures_stay_with_their_run(store: Store) -> None:
    run_id = store.runs.begin(MODEL, {}, {})
    store.runs.add_failures(run_id, [(b"k" * 32, Failure("too_long", "9 tokens", retryable=False))])
    rows = store.runs._database.read("SELECT run, key, kind, message, retryable FROM failures")
    assert rows == [(run_id, b"k" * 32, "too_long", "9 tokens", 0)]
    assert store.responses.count() == 0


def test_speed_is_that_of_this_models_finished_runs(store: Store) -> None:
    assert store.runs.speed(MODEL) is None
    for work, seconds in ((100, 2.0), (500, 1.0)):
        store.runs.end(store.runs.begin(MODEL, {}, {}), FINISHED, {"speed": {"work": work, "seconds": seconds}})
    store.runs.begin(MODEL, {}, {})
    assert store.runs.speed(MODEL) == pytest.approx(200)
    assert store.runs.speed(Fingerprint("other")) is None


def test_speed_is_reported_in_the_unit_requested(store: Store) -> None:
    for speed in (
        {"work": 100, "seconds": 1.0},
        {"operations": 8e9, "seconds": 2.0},
        {"operations": 0, "seconds": 0.1},
    ):
        store.runs.end(store.runs.begin(MODEL, {}, {}), FINISHED, {"speed": speed})
    assert store.runs.speed(MODEL) == pytest.approx(100)
    assert store.runs.speed(MODEL, "operations") == pytest.approx(4e9)


def test_runs_that_requested_nothing_do_not_hide_an_earlier_speed(store: Store) -> None:
    for speed in ({"work": 100, "seconds": 1.0}, *[{"work": 0, "seconds": 0.0}] * 7):
        store.runs.end(store.runs.begin(MODEL, {}, {}), FINISHED, {"speed": speed})
    assert store.runs.speed(MODEL) == pytest.approx(100)


def test_a_run_that_requested_nothing_says_nothing_of_speed(store: Store) -> None:
    store.runs.end(store.runs.begin(MODEL, {}, {}), FINISHED, {"speed": {"work": 0, "seconds": 0.0}})
    assert store.runs.speed(MODEL) is None


def test_texts_with_surrogates_can_be_recorded(store: Store) -> None:
    run_id = store.runs.begin(MODEL, {"system": "\ud800"}, {})
    assert store.runs.get(run_id).spec == {"system": "\ud800"}


def test_a_record_gives_the_whole_fingerprint(store: Store) -> None:
    model = Fingerprint("smol", weights="w", settings={"max_length": 8})
    record = store.runs.get(store.runs.begin(model, {}, {}))
    assert (record.fingerprint, record.fingerprint.digest) == (model, model.digest)


def test_last_is_the_newest_run(store: Store) -> None:
    with pytest.raises(UnknownName, match="holds no run"):
        store.runs.get("last")
    names = [store.runs.begin(MODEL, {}, {}) for _ in range(2)]
    assert [store.runs.get(name).id for name in ("last", "last~0", "last~1")] == [names[1], names[1], names[0]]
    with pytest.raises(UnknownName, match="holds 2 runs"):
        store.runs.get("last~2")


def test_a_record_names_its_parent(store: Store) -> None:
    assert store.runs.get(store.runs.begin(MODEL, {}, {})).parent is None
    assert store.runs.get(store.runs.begin(MODEL, {}, {"parent": "p"})).parent == "p"
