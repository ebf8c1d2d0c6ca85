"""Sends exchanges as batches at half price instead of one by one; the plan, the store and the readers are the same.

In: exchanges. Out: answers, when the provider has computed a whole batch: within 24 hours, often much sooner. Batches
of an earlier run that was interrupted are collected first, and their requests are not sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.identity import canonical_json
from assay.core.responses import Failure
from assay.core.secrets import redacted_text
from assay.models.http.batches.batch_envelopes import ENVELOPES, Envelope, Item, Reply
from assay.models.http.batches.batch_records import BatchRecord, BatchRecords, last_places
from assay.models.http.exchange import Exchange, Unreadable
from assay.models.http.spending.usage import Size, estimated_size, read_usage
from assay.models.http.traffic.client import SAVED, Client
from assay.models.http.traffic.loop_thread import Outbox
from assay.models.http.traffic.replies import Action, Rejection, read_reply

# Seconds between two looks at a batch, in units of the client's backoff: 15 by default.
_LOOKS = 30
_ID_LENGTH = 48
Task = tuple[int, Exchange[Any]]


@dataclass(slots=True)
class Order:
    """A request on its way: its index in the run, its exchange, its size, and its id in the batch."""

    index: int
    exchange: Exchange[Any]
    size: Size
    name: str = ""


class BatchSender:
    """Sends the tasks of one stream as batches.

    Args:
        client: the client.
        records: where batches are recorded.
        envelopes: endpoint → how its provider takes batches.
    """

    def __init__(self, client: Client, records: BatchRecords, envelopes: Mapping[str, Envelope] = ENVELOPES) -> None:
        self._client = client
        self._records = records
        self._envelopes = envelopes
        self._box: Outbox[tuple[int, Any]] = Outbox()

    async def send_all(self, tasks: Iterable[Task], box: Outbox[tuple[int, Any]]) -> None:
        """Answers all tasks, as (index, answer) in the outbox.

        Raises:
            ModelError: if a batch cannot be created; batches that were created are collected by the next run.
        """
        self._box = box
        field = self._client.settings.tokens_field
        orders = [Order(index, each, estimated_size(each.body, field)) for index, each in tasks]
        open_orders = _by_content(orders)
        waiting = [*await self._from_earlier(open_orders), *await self._created(open_orders)]
        while waiting:
            still = []
            for record, own in waiting:
                if not await self._is_collected(record, own):
                    still.append((record, own))
            waiting = still
            if waiting:
                await asyncio.sleep(_LOOKS * self._client.settings.backoff)

    async def _from_earlier(self, open_orders: dict[str, list[Order]]) -> list[tuple[BatchRecord, dict[str, Order]]]:
        """Batches of earlier runs that hold some of the requests, which are taken out of those to send."""
        found = []
        for known in self._records.of(self._client.settings.base_url):
            groups: dict[str, list[str]] = defaultdict(list)
            for name in known.names:
                groups[name.partition("-")[0]].append(name)
            # A collected batch gives its answers again, but for equal requests it is not known which are missing.
            matching = {
                content: names
                for content, names in groups.items()
                if open_orders.get(content) and not (known.is_collected and len(names) > 1)
            }
            record = await self._with_id(known) if matching else None
            if record is None:
                continue
            own: dict[str, Order] = {}
            for content, names in matching.items():
                wanted = open_orders[content]
                for name in last_places(names, min(len(wanted), len(names))):
                    order = wanted.pop(0)
                    order.name = name
                    own[name] = order
            for order in own.values():
                order.size = self._client.spending.take(order.size)
            if not record.is_collected:
                found.append((record, own))
            else:
                await self._collect_again(record, own, open_orders)
        return found

    async def _with_id(self, record: BatchRecord) -> BatchRecord | None:
        """A record with the provider's id; None, and no record, if the batch was never created."""
        if record.batch:
            return record
        envelope = self._envelopes[record.path]
        found = await envelope.find(self._client, record.mark)
        if isinstance(found, Rejection):
            raise self._client.stop(found.message, found.advice)
        if found is None:
            self._records.drop(record)
            return None
        return self._records.named(record, found)

    async def _collect_again(
        self, record: BatchRecord, own: dict[str, Order], open_orders: dict[str, list[Order]]
    ) -> None:
        """Answers of a batch that was collected before; what it has no answer to is sent anew."""
        envelope = self._envelopes[record.path]
        state = await envelope.state(self._client, record.batch)
        replies = [] if isinstance(state, Rejection) else await envelope.replies(self._client, record.batch, state)
        for reply in [] if isinstance(replies, Rejection) else replies:
            if reply.status == 200 and reply.name in own:
                answer = self._read(own[reply.name], reply)
                if not isinstance(answer, Failure):
                    self._box.put((own.pop(reply.name).index, answer))
                    await self._box.room()
                    continue
                own[reply.name].size = self._client.spending.take(own[reply.name].size)
        for name, order in own.items():
            self._client.spending.settle(order.size, None, may_be_billed=False)
            open_orders[name.partition("-")[0]].append(order)

    async def _created(self, open_orders: Mapping[str, Sequence[Order]]) -> list[tuple[BatchRecord, dict[str, Order]]]:
        """New batches of all requests that the budget allows."""
        by_path: dict[str, list[Order]] = defaultdict(list)
        for content, orders in open_orders.items():
            for number, order in enumerate(orders):
                reserved = self._client.spending.reserve_now(order.size)
                if isinstance(reserved, str):
                    self._box.put((order.index, Failure("budget", reserved)))
                    await self._box.room()
                    continue
                order.size, order.name = reserved, f"{content}-{number}" if number else content
                by_path[order.exchange.path].append(order)
        found = []
        for path, orders in by_path.items():
            if path not in self._envelopes:
                known = "batch_api=true works with the APIs of OpenAI and Anthropic"
                raise ModelError(Fault("model_args.batch_api", f"{known}, not with {path}", next="Leave it out"))
            for part, lines in _parts(orders, self._envelopes[path]):
                found.append(await self._create(path, part, lines, self._envelopes[path]))
        return found

    async def _create(
        self, path: str, orders: Sequence[Order], lines: Sequence[bytes], envelope: Envelope
    ) -> tuple[BatchRecord, dict[str, Order]]:
        own = {order.name: order for order in orders}
        # On disk before the provider knows of it, so that a kill in between leaves a trace.
        record = self._records.keep(BatchRecord(self._client.settings.base_url, path, tuple(own)))
        created = await envelope.create(self._client, lines, path, record.mark)
        if isinstance(created, Rejection):
            found = await envelope.find(self._client, record.mark) if created.action is Action.RETRY else None
            if not isinstance(found, str):
                # After a clear refusal nothing was created. Otherwise the record stays, and the next run looks again.
                if created.action is not Action.RETRY or found is None:
                    self._records.drop(record)
                raise self._client.stop(f"the batch was not created: {created.message}", created.advice)
            created = found
        return self._records.named(record, created), own

    async def _is_collected(self, record: BatchRecord, own: dict[str, Order]) -> bool:
        """Hands over the answers of a batch that has ended."""
        envelope, client = self._envelopes[record.path], self._client
        state = await envelope.state(client, record.batch)
        if isinstance(state, Rejection):
            if state.kind == "not_found":
                self._give_up(own, f"the provider does not know the batch {record.batch}: {state.message}")
                self._records.drop(record)
                return True
            if state.action in (Action.STOP, Action.FAIL):
                raise client.stop(f"batch {record.batch}: {state.message}", state.advice)
            return False
        client.progress = f"batch {record.batch}: {state.text}"
        if not state.has_ended:
            return False
        replies = await envelope.replies(client, record.batch, state)
        if isinstance(replies, Rejection):
            if replies.action in (Action.STOP, Action.FAIL):
                raise client.stop(f"batch {record.batch}: {replies.message}", replies.advice)
            return False
        found = {reply.name: reply for reply in replies}
        for name in [name for name in record.names if name in own and name in found]:
            order = own.pop(name)
            box_item = (order.index, self._read(order, found[name]))
            self._box.put(box_item)
            await self._box.room()
        self._give_up(own, f"the batch ended without an answer to it ({state.text})")
        self._records.collected(record)
        return True

    def _read(self, order: Order, reply: Reply) -> Any:
        """What an exchange reads from the reply of a batch, as if it had come alone."""
        usage, client = None, self._client
        try:
            found = read_reply(reply.status, {}, json.dumps(reply.data).encode(), time.time())
            if isinstance(found, Rejection):
                return Failure(found.kind, found.message, found.action is not Action.FAIL)
            usage = read_usage(found)
            client.note(found)
            return order.exchange.read(found)
        except Unreadable as error:
            return Failure(error.kind, redacted_text(str(error)))
        finally:
            client.spending.settle(order.size, usage, may_be_billed=reply.status == 200)

    def _give_up(self, own: dict[str, Order], reason: str) -> None:
        for order in own.values():
            self._client.spending.settle(order.size, None, may_be_billed=False)
            self._box.put((order.index, Failure("batch", f"{reason}. {SAVED}")))


def _by_content(orders: Iterable[Order]) -> dict[str, list[Order]]:
    """Requests by a digest of what they send; equal ones, such as draws without a seed, together and in order."""
    found: dict[str, list[Order]] = defaultdict(list)
    for order in orders:
        content = canonical_json([order.exchange.path, order.exchange.body])
        found[hashlib.sha256(content.encode()).hexdigest()[:_ID_LENGTH]].append(order)
    return found


def _parts(orders: Sequence[Order], envelope: Envelope) -> Iterator[tuple[list[Order], list[bytes]]]:
    """The requests of each batch, within the provider's limits of number and size."""
    part: list[Order] = []
    lines: list[bytes] = []
    size = 0
    for order in orders:
        line = envelope.line(Item(order.name, order.exchange.path, order.exchange.body or {}))
        if part and (len(part) >= envelope.most_requests or size + len(line) + 1 > envelope.most_bytes):
            yield part, lines
            part, lines, size = [], [], 0
        part.append(order)
        lines.append(line)
        size += len(line) + 1
    if part:
        yield part, lines
