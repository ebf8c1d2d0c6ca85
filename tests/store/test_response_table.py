"""Responses by key."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from assay.core.errors import StoreError
from assay.core.identity import Fingerprint
from assay.core.responses import Logprob, Output, Response, Text
from assay.store.database import Database
from assay.store.response_table import Responses, ResponseWriter
from assay.store.store import Store

MODEL = Fingerprint("m")
OUTPUTS: list[Output] = [
    Logprob(-1.2345678901234567, 3, True, 10, 2, ("double_bos",)),
    Logprob(-0.0, 1, False),
    Logprob(-9.0, 700, False, 1, windows=3),
    Logprob(-1e308, 1, False),
    Text("ü\n\x00 \ud800 🙂", "length", 5, 6, 7, ("stop_at_limit",)),
    Text(""),
]


def key(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def many(count: int) -> list[Response]:
    return [Response(key(number), Logprob(-float(number), 1, False)) for number in range(count)]


def test_what_was_put_comes_back_exactly(tmp_path: Path) -> None:
    responses = [Response(key(place), output) for place, output in enumerate(OUTPUTS)]
    with Store(tmp_path / "s.db") as store:
        store.responses.put(responses, MODEL)
    with Store(tmp_path / "s.db") as store:
        assert store.responses.get([response.key for response in responses]) == dict(enumerate_keys(OUTPUTS))
        assert store.responses.count() == len(OUTPUTS)


def enumerate_keys(outputs: list[Output]) -> list[tuple[bytes, Output]]:
    return [(key(place), output) for place, output in enumerate(outputs)]


def test_only_known_keys_are_known() -> None:
    with Store() as store:
        store.responses.put(many(2), MODEL)
        assert store.responses.known([key(0), key(1), key(2)]) == {key(0), key(1)}
        assert store.responses.get([key(5)]) == {}
        assert store.responses.known([]) == set()


def test_the_first_response_of_a_key_stays() -> None:
    with Store() as store:
        store.responses.put([Response(key(0), Text("first"))], MODEL)
        store.responses.put([Response(key(0), Text("second")), Response(key(1), Text("new"))], MODEL)
        assert store.responses.get([key(0), key(1)]) == {key(0): Text("first"), key(1): Text("new")}


def test_a_key_twice_in_one_go_keeps_the_first() -> None:
    with Store() as store:
        store.responses.put([Response(key(0), Text("first")), Response(key(0), Text("second"))], MODEL)
        assert store.responses.get([key(0)]) == {key(0): Text("first")}


def test_more_keys_than_one_query_takes() -> None:
    count = 1733
    with Store() as store:
        store.responses.put(many(count), MODEL)
        keys = [key(number) for number in range(count)]
        assert store.responses.known(keys) == set(keys)
        assert {k: output.total for k, output in store.responses.get(keys).items()} == {  # type: ignore[union-attr]
            k: -float(number) for number, k in enumerate(keys)
        }


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 999, 1000, 1001, 2345])
def test_any_number_of_responses_is_kept(count: int) -> None:
    mixed = [
        response if place % 3 else Response(response.key, Text(str(place)))
        for place, response in enumerate(many(count))
    ]
    with Store() as store:
        store.responses.put(mixed, MODEL)
        assert store.responses.get([response.key for response in mixed]) == dict(mixed)
        assert store.responses.count() == count


def test_two_models_are_distinguished_and_one_is_added_once() -> None:
    with Store() as store:
        first = store.responses.model_id(MODEL)
        assert store.responses.model_id(Fingerprint("other")) != first
        assert store.responses.model_id(Fingerprint("m")) == first


def test_a_second_connection_knows_the_model(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as one, Store(tmp_path / "s.db") as two:
        assert one.responses.model_id(MODEL) == two.responses.model_id(MODEL)


def test_a_writer_commits_while_it_is_open() -> None:
    with Store() as store, ResponseWriter(store.responses, MODEL) as writer:
        writer.put([Response(key(0), Text("x"))])
        deadline = time.monotonic() + 10
        while not store.responses.known([key(0)]) and time.monotonic() < deadline:
            time.sleep(0.005)
        assert store.responses.known([key(0)]) == {key(0)}


def test_leaving_a_writer_waits_for_the_last_commit() -> None:
    with Store() as store:
        with ResponseWriter(store.responses, MODEL) as writer:
            for response in many(3000):
                writer.put([response])
        assert store.responses.count() == 3000


def test_an_error_of_the_main_thread_loses_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        with pytest.raises(RuntimeError, match="model fell over"), ResponseWriter(store.responses, MODEL) as writer:
            for response in many(700):
                writer.put([response])
            raise RuntimeError("model fell over")
        assert store.responses.count() == 700


def test_an_error_of_the_writer_reaches_the_main_thread() -> None:
    database = Database(":memory:").open()
    responses = Responses(database)
    database.close()
    with pytest.raises(StoreError, match="the store is closed"), ResponseWriter(responses, MODEL) as writer:
        writer.put([Response(key(0), Text("x"))])


def test_a_writer_that_failed_refuses_more() -> None:
    database = Database(":memory:").open()
    responses = Responses(database)
    database.close()
    deadline = time.monotonic() + 10
    with pytest.raises(StoreError, match="the store is closed"), ResponseWriter(responses, MODEL) as writer:
        while time.monotonic() < deadline:
            writer.put([Response(key(0), Text("x"))])
            time.sleep(0.001)
        pytest.fail("put never raised")


def test_the_main_threads_own_error_is_not_hidden() -> None:
    database = Database(":memory:").open()
    responses = Responses(database)
    database.close()
    with pytest.raises(RuntimeError, match="mine"), ResponseWriter(responses, MODEL) as writer:
        writer.put([Response(key(0), Text("x"))])
        raise RuntimeError("mine")
