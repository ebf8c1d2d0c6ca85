"""Whether the Hub can be reached: hosts that answer, refuse or say nothing, and proxies."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from assay.data import hub_connection


@pytest.fixture
def answering() -> Iterator[tuple[str, int]]:
    """A host that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@pytest.fixture
def refusing() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address: tuple[str, int] = server.getsockname()
    return address


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """A host whose queue of connections is full, as one behind a firewall that drops packets."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for connection in waiting:
            connection.setblocking(False)
            connection.connect_ex(server.getsockname())
        yield server.getsockname()
        for connection in waiting:
            connection.close()


def test_a_host_that_answers_is_a_network(answering: tuple[str, int]) -> None:
    assert hub_connection.connection_fault([answering], 3) == ""


def test_a_refused_connection_is_known_at_once(refusing: tuple[str, int]) -> None:
    begun = time.monotonic()
    assert hub_connection.connection_fault([refusing], 60) == "127.0.0.1: Connection refused"
    assert time.monotonic() - begun < 30


def test_a_host_that_says_nothing_is_given_up_in_time(silent: tuple[str, int]) -> None:
    begun = time.monotonic()
    assert hub_connection.connection_fault([silent], 0.3) in (
        "127.0.0.1: no answer within 0.3 s",
        "127.0.0.1: timed out",
    )
    assert time.monotonic() - begun < 30


def test_one_of_several_hosts_is_enough(
    answering: tuple[str, int], refusing: tuple[str, int], silent: tuple[str, int]
) -> None:
    assert hub_connection.connection_fault([refusing, silent, answering], 60) == ""


def test_a_proxy_that_answers_is_a_network(
    answering: tuple[str, int], refusing: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://{refusing[0]}:{refusing[1]}")
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert hub_connection.why_unreachable() == "127.0.0.1: Connection refused"
    monkeypatch.setenv("HF_ENDPOINT", f"http://{refusing[0]}:{refusing[1]}/mirror")
    monkeypatch.setenv("https_proxy", f"http://user:word@{answering[0]}:{answering[1]}")
    assert hub_connection.why_unreachable() == ""


def test_who_gives_the_client_more_time_gives_it_to_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_DOWNLOAD_TIMEOUT", raising=False)
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "30")
    assert hub_connection._seconds() == 30
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "1")
    assert hub_connection._seconds() == hub_connection.SECONDS
