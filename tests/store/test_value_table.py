"""Documents' values in the store."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assay.api import evaluate, rescore
from assay.core.errors import StoreError
from assay.core.identity import Fingerprint
from assay.core.scores import DocumentValues
from assay.store.run_records import FINISHED
from assay.store.store import Store
from assay.testing import ScriptedModel
from assay.testing.toys import toy_choice_task, toy_perplexity_task


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as opened:
        yield opened


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
