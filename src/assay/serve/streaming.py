"""Answers in pieces: server-sent events, as OpenAI's clients read them.

In: generations under way. Out: frames with the text that is certain so far. What may be the beginning of a stop string,
or of a character that is not complete, is held back until the next tokens decide.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.core.protocols import TokenCodec
from assay.serve.api_errors import ApiError
from assay.serve.service import Asked, Service, answer_of
from assay.serve.worker import Written

if TYPE_CHECKING:
    from aiohttp import web

_NOT_A_CHARACTER = "\ufffd"


class GrowingText:
    """The text of an answer while it grows.

    Args:
        codec: decodes its ids; None if there are none until the end.
        stops: strings that the answer ends before.
    """

    def __init__(self, codec: TokenCodec | None, stops: Sequence[str]) -> None:
        self._codec = codec if codec is not None and codec.shows_all else None
        end = None if codec is None else codec.special["eos_token"]
        # A model may spell its end token in ordinary tokens, which ends an answer too.
        spelt = () if codec is None or end is None else (codec.decode([end]),)
        self._stops = (*stops, *spelt)
        self._sent = ""

    def grow(self, ids: Sequence[int]) -> str:
        """What is certain now and was not before."""
        if self._codec is None:
            return ""
        text = self._codec.decode(ids, skips_special=True).rstrip(_NOT_A_CHARACTER)
        certain = text[: len(text) - max((_overlap(text, stop) for stop in self._stops), default=0)]
        cut = min((certain.find(stop) for stop in self._stops if stop in certain), default=len(certain))
        return self._sending(certain[:cut]) if certain[:cut].startswith(self._sent) else ""

    def finish(self, text: str) -> str:
        """The rest of the finished answer."""
        if not text.startswith(self._sent):
            raise ApiError(500, "the finished text does not begin with what was streamed; ask without stream")
        return self._sending(text)

    def _sending(self, text: str) -> str:
        new = text[len(self._sent) :]
        self._sent = text
        return new


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of a text that is a beginning of a stop string."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the answer with this index; the last one has the finished answer."""

    index: int
    text: str
    finished: Written | None = None


async def pieces(answers: Sequence[Asked], service: Service) -> AsyncIterator[Piece]:
    """All answers, piece by piece. Nobody waits for generations any more when the iterator is closed."""
    events: asyncio.Queue[tuple[int, Sequence[int] | Written]] = asyncio.Queue()
    futures = []
    for index, answer in enumerate(answers):
        future = service.begin(answer, on_tokens=_into(events, index))
        future.add_done_callback(_done_into(events, index))
        futures.append(future)
    texts = [GrowingText(service.loaded_codec, answer.request.stop) for answer in answers]
    is_done = [False] * len(answers)
    try:
        while not all(is_done):
            index, event = await events.get()
            if is_done[index]:
                continue
            if isinstance(event, Written):
                is_done[index] = True
                yield Piece(index, texts[index].finish(answer_of(event).text), event)
            elif text := texts[index].grow(event):
                yield Piece(index, text)
    finally:
        for future in futures:
            future.cancel()


def _into(events: asyncio.Queue[Any], index: int) -> Callable[[Sequence[int]], None]:
    return lambda ids: events.put_nowait((index, ids))


def _done_into(events: asyncio.Queue[Any], index: int) -> Callable[[asyncio.Future[Written]], None]:
    return lambda future: None if future.cancelled() else events.put_nowait((index, future.result()))


async def send_frames(request: web.Request, frames: AsyncIterator[Mapping[str, Any]]) -> web.StreamResponse:
    """Sends frames as server-sent events. An error before the first one is an ordinary error, later one a frame."""
    from aiohttp import web

    response: web.StreamResponse | None = None
    try:
        async for frame in frames:
            if response is None:
                response = web.StreamResponse(headers={"Cache-Control": "no-cache"})
                response.content_type, response.charset = "text/event-stream", "utf-8"
                await response.prepare(request)
            await response.write(_event(json.dumps(frame)))
    except ApiError as error:
        if response is None:
            raise
        await response.write(_event(json.dumps(error.body())))
    finally:
        await frames.aclose()  # type: ignore[attr-defined]
    assert response is not None, "every stream has a frame"
    await response.write(_event("[DONE]"))
    return response


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()
