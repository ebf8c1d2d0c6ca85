"""Run records and the document values of runs."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assay.api import evaluate
from assay.api_records import rescore
from assay.core.errors import StoreError, UnknownName
from assay.core.identity import Fingerprint
from assay.core.responses import Failure
from assay.core.scores import DocumentValues
from assay.store.run_records import FAILED, FINISHED, RUNNING
from assay.store.store import Store
from assay.testing import ScriptedModel
from assay.testing.toys import toy_choice_task, toy_perplexity_task

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


def kept(store: Store, *values: DocumentValues) -> list[DocumentValues]:
    run_id = store.runs.begin(Fingerprint("m"), {}, {})
    store.runs.end(run_id, FINISHED, {}, values)
    return store.values.of_run(run_id)


@pytest.mark.parametrize("documents", [(), (7,), (0, 1, 2), (3, 1, 2), (0, 1, 5, 6, 9)])
def test_values_come_back_as_they_were(store: Store, documents: tuple[int, ...]) -> None:
    given = DocumentValues("t", "acc", "none", "mean", documents, tuple(0.1 * place for place in documents))
    assert kept(store, given) == [given]


def test_pairs_labels_and_clusters_come_back(store: Store) -> None:
    pairs = DocumentValues("t", "word_perplexity", "none", "weighted_perplexity", (0, 1), ((-2.5, 3.0), (-1.0, 4.0)))
    labels = DocumentValues("u", "mcc", "none", "matthews_corrcoef", (0,), (("ja", "né"),), ("passage 1",))
    assert kept(store, pairs, labels) == [pairs, labels]


def test_numbers_that_are_none_come_back(store: Store) -> None:
    (found,) = kept(store, DocumentValues("t", "m", "none", "mean_of_known", (0, 1), (math.nan, math.inf)))
    assert math.isnan(found.values[0]) and found.values[1] == math.inf  # type: ignore[arg-type]


def test_only_the_named_run_and_task_are_read(store: Store) -> None:
    one, other = (DocumentValues(name, "acc", "none", "mean", (0,), (1.0,)) for name in "ab")
    kept(store, DocumentValues("a", "acc", "none", "mean", (0,), (0.0,)))
    run_id = store.runs.begin(Fingerprint("m"), {}, {})
    store.runs.end(run_id, FINISHED, {}, [one, other])
    assert store.values.of_run(run_id, "b") == [other]


def test_a_run_and_its_rescoring_keep_their_values(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: -1.0)
    task = toy_choice_task(6)
    first = evaluate(model, task, store=tmp_path / "s.db")
    again = rescore(first.run_id, metrics="acc_bytes", tasks=[task], store=tmp_path / "s.db")
    with Store(tmp_path / "s.db") as store:
        found = {item.metric: item for item in store.values.of_run(first.run_id)}
        (bytes_only,) = store.values.of_run(again.run_id)
    assert set(found) == {"acc", "acc_norm"}
    assert found["acc"].documents == (0, 1, 2, 3, 4, 5)
    # All choices are equally likely, so the first is picked: right where the right one is at place 0.
    assert found["acc"].values == (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    assert (bytes_only.metric, bytes_only.aggregation) == ("acc_bytes", "mean")


def test_sums_and_weights_of_texts_are_kept(tmp_path: Path) -> None:
    result = evaluate(ScriptedModel(lambda request: -12.5), toy_perplexity_task(2), store=tmp_path / "s.db")
    with Store(tmp_path / "s.db") as store:
        (words,) = [item for item in store.values.of_run(result.run_id) if item.metric == "word_perplexity"]
    assert words.aggregation == "weighted_perplexity"
    assert words.values == ((-12.5, 10.0), (-12.5, 10.0))  # "House number 0 has a red door and 1 windows."


def test_a_store_of_before_gets_the_table(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        run_id = store.runs.begin(Fingerprint("m"), {}, {})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE document_values")
        connection.execute("ALTER TABLE responses DROP COLUMN checksum")
        connection.execute("PRAGMA user_version = 2")
        connection.commit()
    with Store(path) as store:
        assert store.values.of_run(run_id) == []


def test_a_damaged_row_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        run_id = store.runs.begin(Fingerprint("m"), {}, {})
        store.runs.end(run_id, FINISHED, {}, [DocumentValues("t", "acc", "none", "mean", (0,), (1.0,))])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE document_values SET \"values\" = x'00'")
        connection.commit()
    with Store(path) as store, pytest.raises(StoreError, match=r"task t, metric acc: its document values cannot"):
        store.values.of_run(run_id)
