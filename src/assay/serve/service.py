"""What handlers need of the model: facts about it, and its work as awaitables."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from assay.core.protocols import ContinuesTokens, Model, ProvidesCodec, ScoresTokens, TokenCodec, TokenRow, TokenScores
from assay.core.requests import Generation, Prompt
from assay.core.responses import Failure, Text
from assay.serve.api_errors import TOO_LONG, ApiError, failed, refused
from assay.serve.worker import GenerationJob, OnTokens, ScoreJob, Worker, Written


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about the served model.

    Attributes:
        name: its id for clients.
        created: when the server started, in seconds since the epoch.
        max_length: tokens of prompt and answer together; None if unknown.
        fingerprint: identifies weights, tokenizer and settings.
        family: the kind of network, for messages.
        scores: whether it scores token ids.
        reads_ids: whether prompts may be token ids.
    """

    name: str
    created: int
    max_length: int | None
    fingerprint: str
    family: str
    scores: bool
    reads_ids: bool


def facts_of(model: Model, name: str, created: int) -> ModelFacts:
    able = model.capabilities
    reads = isinstance(model, ContinuesTokens) and isinstance(model, ProvidesCodec)
    return ModelFacts(
        name=name,
        created=created,
        max_length=able.max_tokens,
        fingerprint=f"fp_{model.fingerprint.digest[:16]}",
        family=able.family,
        scores=reads and isinstance(model, ScoresTokens),
        reads_ids=reads,
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """A generation to run.

    Attributes:
        request: the generation.
        ids: the prompt as token ids; None for models that read text.
        is_stored: whether the answer may come from the store, and go there.
    """

    request: Generation
    ids: tuple[int, ...] | None
    is_stored: bool


@dataclass(slots=True)
class Service:
    """The served model.

    Attributes:
        facts: what is known of it.
        worker: runs it.
        loaded_codec: its tokenizer; None before it is loaded, and for a model without one.
    """

    facts: ModelFacts
    worker: Worker
    loaded_codec: TokenCodec | None = None

    @property
    def codec(self) -> TokenCodec:
        """The tokenizer; refuses the request if there is none."""
        if self.loaded_codec is None:
            raise refused(f"{self.facts.name} is a {self.facts.family} without a tokenizer of its own")
        return self.loaded_codec

    @property
    def is_ready(self) -> bool:
        return self.worker.ready.done() and self.worker.ready.exception() is None

    async def wait_until_ready(self) -> None:
        if not self.is_ready:
            await asyncio.wait([self.worker.ready])
        if not self.is_ready:
            raise ApiError(503, "the model could not be loaded; the server is ending")

    def check_model(self, name: str | None) -> None:
        """Refuses a request for another model."""
        if name != self.facts.name:
            message = "model is missing" if name is None else f"there is no model {name!r}"
            status = 400 if name is None else 404
            raise ApiError(status, f"{message}; expected {self.facts.name!r}", "model", "model_not_found")

    def check_length(self, prompt: int, max_tokens: int) -> None:
        """Refuses a prompt that leaves no room for its answer."""
        most = self.facts.max_length
        if most is not None and prompt + max_tokens > most:
            raise refused(
                f"This model's maximum context length is {most} tokens, but the prompt has {prompt} and max_tokens is "
                f"{max_tokens}. Shorten the prompt or reduce max_tokens.",
                "prompt" if prompt > most else "max_tokens",
                TOO_LONG,
            )

    def require_scores(self, name: str) -> None:
        """Refuses a field that needs log-probabilities if the model has none."""
        if not self.facts.scores:
            raise refused(f"{name}: {self.facts.name} is a {self.facts.family}, which is served without them", name)

    async def score(self, rows: Sequence[TokenRow]) -> list[TokenScores]:
        """Scores of some rows."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[TokenScores | Failure]] = []
        for row in rows:
            futures.append(loop.create_future())
            self.worker.put(ScoreJob(futures[-1], row))
        found = []
        for scores in await asyncio.gather(*futures):
            if isinstance(scores, Failure):
                raise failed(scores)
            found.append(scores)
        return found

    def begin(
        self, asked: Asked, needs_ids: bool = False, on_tokens: OnTokens | None = None
    ) -> asyncio.Future[Written]:
        """Starts a generation; `needs_ids` and `on_tokens` as in `GenerationJob`."""
        future: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self.worker.put(GenerationJob(future, asked.request, asked.ids, asked.is_stored, needs_ids, on_tokens))
        return future

    def text_of(self, ids: tuple[int, ...], text: str | None) -> Prompt | None:
        """The prompt under which an answer is stored: the text that the model encodes as these ids; None if none is.

        Args:
            ids: the ids.
            text: the text that they are of, if it is known.
        """
        codec = self.codec
        texts = [codec.decode(ids, skips_special=True), codec.decode(ids)] if text is None else [text]
        return next((found for found in texts if codec.encode(found) == ids), None)


def answer_of(written: Written) -> Text:
    """A generated text; raises for a failure."""
    answer = written.answer
    if isinstance(answer, Failure):
        raise failed(answer)
    if answer.truncated:
        found = f"{answer.truncated} tokens too many"
        raise refused(f"prompt and max_tokens exceed the model's maximum context length: {found}", "prompt", TOO_LONG)
    return answer
