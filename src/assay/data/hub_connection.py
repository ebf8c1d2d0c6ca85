"""Whether the Hub can be reached, found out before its client spends half a minute on retries.

Connects to the Hub's host, and to every proxy that is set, without sending anything. What answers within the time is a
network, however slow; the client's own retries and timeouts are left as they are.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

SECONDS = 3.0
# Timeouts of the Hub's client: a user who raised one of them has a slow network.
_TIMEOUTS = ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT")
# For so long an answer is taken to hold: a run asks once, a notebook notices when the network is back.
_VALID_SECONDS = 60
_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks5": 1080, "socks5h": 1080}

Address = tuple[str, int]


def hub_endpoint() -> str:
    """The Hub's address: HF_ENDPOINT, or the public one."""
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"


def why_unreachable() -> str:
    """Why the Hub cannot be reached; empty if it, or a proxy, answers."""
    return _recent(hub_endpoint(), int(time.monotonic() / _VALID_SECONDS))


@lru_cache(maxsize=4)
def _recent(endpoint: str, period: int) -> str:
    named = [endpoint, *(proxy for kind, proxy in getproxies().items() if kind != "no")]
    addresses = [address for url in dict.fromkeys(named) if (address := _address(url)) is not None]
    return connection_fault(addresses, _seconds())


def _address(url: str) -> Address | None:
    """Host and port of an address; None if it names no host."""
    parts: SplitResult = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port
    except ValueError:
        return None
    return (parts.hostname, port or _PORTS.get(parts.scheme, 80)) if parts.hostname else None


def _seconds() -> float:
    """How long to wait: three seconds, or as long as the user lets the Hub's client wait."""
    given = [os.environ.get(name, "") for name in _TIMEOUTS]
    return max([SECONDS, *(float(text) for text in given if text.isdecimal())])


def connection_fault(addresses: Sequence[Address], seconds: float) -> str:
    """Why none of some hosts answers; empty if one does, or if there is none to ask.

    Args:
        addresses: hosts with ports, asked at the same time.
        seconds: how long to wait for the first answer.
    """
    until, answered = time.monotonic() + seconds, threading.Condition()
    outcomes: list[str] = []

    def ask(address: Address) -> None:
        outcome = _tried(address, seconds)
        with answered:
            outcomes.append(outcome)
            answered.notify()

    for address in addresses:  # a resolver may block for long, and nothing can interrupt it
        threading.Thread(target=ask, args=(address,), daemon=True).start()
    with answered:
        while len(outcomes) < len(addresses) and "" not in outcomes:
            if not answered.wait(until - time.monotonic()):
                break
    if not addresses or "" in outcomes:
        return ""
    return outcomes[0] if outcomes else f"{addresses[0][0]}: no answer within {seconds:g} s"


def _tried(address: Address, seconds: float) -> str:
    """Why a host does not answer; empty if it does. IPv4 comes first: where it is missing, that shows at once."""
    until, reason = time.monotonic() + seconds, "no address"
    try:
        found = sorted(
            socket.getaddrinfo(*address, type=socket.SOCK_STREAM), key=lambda item: item[0] != socket.AF_INET
        )
    except OSError as error:
        return f"{address[0]}: {error.strerror or error}"
    for family, kind, protocol, _, place in found:
        try:
            with socket.socket(family, kind, protocol) as connection:
                connection.settimeout(max(until - time.monotonic(), 0.01))
                connection.connect(place)
                return ""
        except OSError as error:
            reason = error.strerror or str(error)
    return f"{address[0]}: {reason}"
