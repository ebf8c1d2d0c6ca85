"""A client and the thread of its event loop, opened on first use and closed at the latest when the program ends.

In: settings, and a function that reads the key. Out: calls and streams for synchronous code.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from assay.models.http.batches.batch_api import BatchSender
from assay.models.http.batches.batch_records import BatchRecords
from assay.models.http.exchange import Exchange
from assay.models.http.spending.budget import Spending
from assay.models.http.spending.prices import Price
from assay.models.http.traffic.api_key import ApiKey
from assay.models.http.traffic.client import Client, ClientSettings
from assay.models.http.traffic.loop_thread import LoopThread
from assay.models.http.traffic.replies import Rejection
from assay.models.http.traffic.workers import send_all


class Connection:
    """A connection to one server.

    Args:
        settings: how the server is reached.
        read_key: reads the key; called when the connection is opened.
        price: dollars per million tokens; None if unknown.

    Attributes:
        spending: what was spent, and the budget.
        batches: records of batches; None to send requests one by one.
        on_waiting: called about once a second while no answer arrives, with the reason.
    """

    def __init__(
        self, settings: ClientSettings, read_key: Callable[[], ApiKey | None], price: Price | None = None
    ) -> None:
        self.spending = Spending(price)
        self.batches: BatchRecords | None = None
        self.on_waiting: Callable[[str], None] = lambda reason: None
        self._settings = settings
        self._read_key = read_key
        self._thread = LoopThread()
        self._client: Client | None = None
        self._finalizer: Callable[[], Any] | None = None

    @property
    def client(self) -> Client:
        """The client, created on first use."""
        if self._client is None:
            self._client = Client(self._settings, self._read_key(), self.spending)
            # A run that fails before it begins does not close its model.
            self._finalizer = weakref.finalize(self, _close, self._thread, self._client)
        return self._client

    @property
    def used(self) -> Client | None:
        """The client if it was used."""
        return self._client

    def ask(self, exchange: Exchange[Any], max_retries: int | None = None) -> Any:
        """What an exchange reads, or a failure."""
        return self._thread.call(self.client.ask(exchange, max_retries))

    def look(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | Rejection:
        """What the server answers at some path."""
        return self._thread.call(self.client.look(path, body))

    def stream(self, tasks: Iterable[tuple[int, Exchange[Any]]]) -> Iterator[tuple[int, Any]]:
        """Answers of all exchanges, as they arrive; by the provider's batches if the run has records of batches."""
        client = self.client
        if self.batches is None:
            return self._one_by_one(client, tasks)
        sender = BatchSender(client, self.batches)
        return self._thread.stream(lambda box: sender.send_all(tasks, box), self._explain)

    def ask_all(self, exchanges: Sequence[Exchange[Any]]) -> Sequence[Any]:
        """Answers of all exchanges, in their order; never by batches."""
        found = dict(self._one_by_one(self.client, enumerate(exchanges)))
        return [found[number] for number in range(len(exchanges))]

    def _one_by_one(self, client: Client, tasks: Iterable[tuple[int, Exchange[Any]]]) -> Iterator[tuple[int, Any]]:
        return self._thread.stream(lambda box: send_all(client, tasks, box), self._explain)

    def _explain(self) -> None:
        if self._client is not None:
            self.on_waiting(self._client.why_waiting(time.monotonic()))

    def close(self) -> None:
        """Closes the connections and ends the thread; the next use opens new ones."""
        finalizer, self._finalizer, self._client = self._finalizer, None, None
        if finalizer is not None:
            finalizer()


def _close(thread: LoopThread, client: Client) -> None:
    thread.close(client.close)
