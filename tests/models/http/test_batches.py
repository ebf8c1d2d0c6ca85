"""Batches of a provider: the same answers at half price; a killed run collects what it has sent, and pays once."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import ModelError
from assay.core.requests import Generation, Sampling
from assay.core.responses import Failure, Text
from assay.models.http.batches import batch_api as batches
from assay.models.http.batches.batch_envelopes import OpenAiBatches
from assay.models.http.batches.batch_records import BatchRecord, BatchRecords
from assay.models.http.exchange import Exchange
from assay.models.http.traffic.client import Client, ClientSettings
from assay.models.http.traffic.loop_thread import LoopThread
from assay.testing import toy_generation_task
from assay.testing.contracts import answers
from tests.models.http.batch_server import BatchServer
from tests.models.http.fault_server import Json, greedy, ids_of, text_of
from tests.models.http.test_kill_http import check_answers, start, write_task

Open = Callable[..., Any]
REQUESTS = [Generation(f"text {number}", max_tokens=2) for number in range(6)]
EXPECTED = [text_of(greedy(ids_of(str(request.prompt), True), 2)) for request in REQUESTS]


@pytest.fixture
def asked(opened: Open, tmp_path: Path) -> Callable[..., list[Any]]:
    """Answers to requests by batches, whose records are kept in one folder."""

    def ask(server: BatchServer, requests: Any = REQUESTS, **arguments: Any) -> list[Any]:
        model = opened(server, "openai-chat", batch_api=True, **arguments)
        model.keep_state(tmp_path / "batches")
        return answers(model, requests)

    return ask


def records(folder: Path) -> list[Mapping[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / "batches").glob("*.json"))]


def texts(found: list[Any]) -> list[Any]:
    return [answer.text if isinstance(answer, Text) else answer.kind for answer in found]


def test_a_batch_gives_every_request_its_own_answer(asked: Any, tmp_path: Path) -> None:
    with BatchServer() as server:
        assert texts(asked(server)) == EXPECTED
        assert ([len(lines) for lines in server.created], server.seen) == ([6], [])
    (record,) = records(tmp_path)
    assert record["batch"] == "batch-0" and record["is_collected"] and len(record["names"]) == 6


def test_a_run_stores_the_answers_and_asks_for_none_twice(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with BatchServer() as server:
        run = partial(assay.evaluate, tasks=toy_generation_task(5), store=str(path))
        first = run(opened(server, "openai-chat", batch_api=True, price_in=1000.0, price_out=1000.0))
        again = run(opened(server, "openai-chat", batch_api=True))
        assert len(server.created) == 1
    assert first.model_run["usage"]["dollars"] > 0 and again.counts.known == 5
    assert list((tmp_path / "store.db.batches").glob("*.json"))


def test_answers_that_did_not_reach_the_store_are_read_again(asked: Any) -> None:
    """As after a kill between the last answer and its commit."""
    with BatchServer() as server:
        asked(server)
        assert texts(asked(server)) == EXPECTED
        assert len(server.created) == 1


def test_more_requests_go_into_a_batch_of_their_own(asked: Any) -> None:
    with BatchServer() as server:
        asked(server, REQUESTS[:2])
        assert texts(asked(server)) == EXPECTED
        assert [len(lines) for lines in server.created] == [2, 4]


def failing(place: int, change: Json | None) -> Callable[[Json], Json | None]:
    """Changes the line of one request."""

    def spoil(line: Json) -> Json | None:
        content = json.dumps(line["response"]["body"])
        wanted = json.dumps(EXPECTED[place])[1:-1]
        if wanted not in content:
            return line
        return None if change is None else {**line, **change}

    return spoil


@pytest.mark.parametrize(
    ("change", "kind", "is_retryable"),
    [
        (None, "batch", True),
        ({"response": {"status_code": 0, "body": ""}, "error": {"message": "lost"}}, "server_error", True),
        ({"response": None, "error": {"code": "batch_expired", "message": "expired"}}, "server_error", True),
        ({"response": {"status_code": 400, "body": {"error": {"message": "no such field"}}}}, "rejected", False),
        ({"response": {"status_code": 200, "body": {"choices": []}}}, "malformed", True),
    ],
)
def test_what_a_batch_did_not_answer_is_a_failure_and_sent_anew(
    asked: Any, change: Json | None, kind: str, is_retryable: bool
) -> None:
    with BatchServer(spoil_line=failing(3, change)) as server:
        found = asked(server)
        assert texts(found) == [*EXPECTED[:3], kind, *EXPECTED[4:]]
        assert found[3].retryable is is_retryable
        server.spoil_line = lambda line: line
        assert texts(asked(server, [REQUESTS[3]])) == [EXPECTED[3]]
        # Its first batch has no answer to it: only this request is sent, unless the provider now has one.
        assert sum(map(len, server.created)) in (6, 7)


def test_an_expired_batch_keeps_what_was_computed(asked: Any) -> None:
    with BatchServer(end="expired", spoil_line=failing(1, None)) as server:
        found = asked(server)
    assert texts(found) == [EXPECTED[0], "batch", *EXPECTED[2:]]
    assert "expired" in found[1].message and "run the command again" in found[1].message


def test_a_batch_that_fails_says_why(asked: Any) -> None:
    with BatchServer(end="failed") as server:
        found = asked(server)
        assert set(texts(found)) == {"batch"} and "Enqueued token limit reached" in found[0].message
        server.end = "completed"
        server._looked.clear()
        assert len(asked(server)) == 6


def test_a_batch_whose_reply_was_lost_is_found_by_its_mark(asked: Any) -> None:
    with BatchServer(lost=1) as server:
        assert texts(asked(server)) == EXPECTED
        assert len(server.created) == 1


def test_a_record_without_an_id_is_looked_up(asked: Any, tmp_path: Path) -> None:
    """As after a kill between the creation of a batch and the answer to it."""
    with BatchServer() as server:
        asked(server)
        (path,) = (tmp_path / "batches").glob("*.json")
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "batch": "", "is_collected": False}))
        assert texts(asked(server)) == EXPECTED
        assert len(server.created) == 1
        server._marks.clear()
        path.write_text(json.dumps({**record, "batch": "", "is_collected": False}))
        assert texts(asked(server)) == EXPECTED
        assert len(server.created) == 2  # the provider has no such batch


def test_equal_requests_are_independent_draws(asked: Any) -> None:
    draws = [Generation("text", max_tokens=2, sampling=Sampling(1.0), draw=draw) for draw in range(3)]
    with BatchServer() as server:
        assert len(texts(asked(server, draws))) == 3
        assert len({line["custom_id"] for line in server.created[0]}) == 3


class Few(OpenAiBatches):
    most_requests = 4


class Small(OpenAiBatches):
    most_bytes = 400


@pytest.mark.parametrize(("envelope", "sizes"), [(Few(), [4, 2]), (Small(), [2, 2, 2])])
def test_batches_stay_within_the_providers_limits(tmp_path: Path, envelope: OpenAiBatches, sizes: list[int]) -> None:
    with BatchServer() as server:
        client = Client(ClientSettings(server.url, backoff=0.002))
        thread = LoopThread()
        sender = batches.BatchSender(client, BatchRecords(tmp_path), {"chat/completions": envelope})
        found = dict(thread.stream(partial(sender.send_all, list(enumerate(map(chat_exchange, range(6)))))))
        thread.close(client.close)
        assert [found[number] for number in range(6)] == EXPECTED
        assert [len(lines) for lines in server.created] == sizes


def chat_exchange(number: int, path: str = "chat/completions") -> Exchange[str]:
    body = {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": f"text {number}"}]}
    if path == "messages":
        return Exchange(path, body, lambda data: str(data["content"][0]["text"]))
    return Exchange(path, body, lambda data: str(data["choices"][0]["message"]["content"]))


def test_a_budget_holds_for_batches(asked: Any, opened: Open, tmp_path: Path) -> None:
    with BatchServer() as server:
        model = opened(server, "openai-chat", batch_api=True)
        model.keep_state(tmp_path / "batches")
        model.limit_spending(None, 25)
        found = texts(answers(model, REQUESTS))
        assert 0 < found.count("budget") < 6 and len(server.created[0]) == 6 - found.count("budget")


def test_a_rejected_key_ends_the_run_and_leaves_no_record(asked: Any, tmp_path: Path) -> None:
    from tests.models.http.faults import answer

    class Locked(BatchServer):
        async def _upload(self, request: Any) -> Any:
            return await answer(401)(request)

    with Locked() as server, pytest.raises(ModelError, match="the batch was not created: answered 401"):
        asked(server)
    assert records(tmp_path) == []


def test_servers_without_batches_are_refused(opened: Open, tmp_path: Path) -> None:
    with BatchServer("llamacpp") as server:
        model = opened(server, batch_api=True)
        model.keep_state(tmp_path)
        from assay.core.requests import Loglikelihood

        with pytest.raises(ModelError, match="APIs of OpenAI and Anthropic"):
            answers(model, [Loglikelihood("a", "b")])


def test_anthropics_envelope(tmp_path: Path) -> None:
    """The transport knows only path and body, so a dialect needs nothing else."""

    exchange = partial(chat_exchange, path="messages")

    def spoil(line: Json) -> Json:
        if line["custom_id"] != names[2]:
            return line
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": "bad field"}}
        return {**line, "result": {"type": "errored", "error": error}}

    with BatchServer() as server:
        client = Client(ClientSettings(server.url, backoff=0.002))
        thread = LoopThread()
        folder = BatchRecords(tmp_path)
        sender = batches.BatchSender(client, folder)
        found = dict(thread.stream(partial(sender.send_all, list(enumerate(map(exchange, range(6)))))))
        assert [found[number] for number in range(6)] == EXPECTED
        assert (client.spending.counted.prompt, client.spending.counted.new) == (6 * 7, 12)
        names = [line["custom_id"] for line in server.created[0]]
        assert len(server.created) == 1 and all(len(name) <= 64 for name in names)
        for record in folder.of(server.url):
            folder.drop(record)
        server.spoil_line = spoil
        found = dict(thread.stream(partial(sender.send_all, list(enumerate(map(exchange, range(6)))))))
        assert isinstance(found[2], Failure) and (found[2].kind, found[2].retryable) == ("rejected", False)
        thread.close(client.close)


def test_records_are_dropped_when_the_provider_has_deleted_the_replies(tmp_path: Path) -> None:
    kept = BatchRecords(tmp_path)
    old = BatchRecord("http://a/v1", "messages", ("x",), created=time.time() - 30 * 86_400)
    kept.keep(old)
    new = kept.keep(BatchRecord("http://a/v1", "messages", ("x",)))
    (tmp_path / "other.json").write_text("{}")
    assert kept.of("http://a/v1") == [new] and kept.of("http://b/v1") == []
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_a_killed_run_collects_its_batch_later(tmp_path: Path) -> None:
    """A real process is killed while it waits for the batch; the batch is created once."""
    write_task(tmp_path, 40)
    with BatchServer(looks=10_000) as server:
        process = start(server, tmp_path, more="batch_api=true")
        for _ in range(3000):
            assert process.poll() is None, process.communicate()[0][-2000:]
            if server._looked.get(0, 0) > 1:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with sqlite3.connect(tmp_path / "store.db") as database:
            assert database.execute("SELECT count(*) FROM responses").fetchone() == (0,)
        server.looks = 1
        process = start(server, tmp_path, "again", more="batch_api=true")
        shown, _ = process.communicate(timeout=120)
        assert process.returncode == 0, shown[-2000:]
        assert [len(lines) for lines in server.created] == [40] and server.seen == []
    check_answers(tmp_path, 40, "again")
