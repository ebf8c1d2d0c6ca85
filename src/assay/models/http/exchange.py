"""One request to a server and the reading of its answer, as plain values shared by dialects, probe and client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, Union, runtime_checkable

from assay.core.requests import Generation, Message
from assay.core.responses import Failure, Text

Value = TypeVar("Value")
# What is sent as a prompt: text, token ids, or the messages of a conversation.
Sent = Union[str, Sequence[int], tuple[Message, ...]]


class Unreadable(Exception):
    """An answer that is not what the dialect promises.

    Attributes:
        kind: the kind of the failure that it becomes.
        repeats: how often it is worth asking again; None for the client's own bound.
    """

    def __init__(self, kind: str, message: str, repeats: int | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.repeats = repeats


@dataclass(frozen=True, slots=True)
class Exchange(Generic[Value]):
    """A request body, where it is sent, and how the answer is read.

    Attributes:
        path: below the base URL; from the server's root if it begins with a slash.
        body: the JSON object to send; None for a GET.
        read: the answer's JSON object → a value, or a `Failure` that is final; raises `Unreadable`.
    """

    path: str
    body: Mapping[str, Any] | None
    read: Callable[[Mapping[str, Any]], Value | Failure]


class TokenScore(NamedTuple):
    """Log-probability of a token, and whether it is the most likely one."""

    logprob: float
    is_greedy: bool


class Step(NamedTuple):
    """The most likely next token: its id, if the server reports ids, its text and its log-probability."""

    token_id: int | None
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class GenerationCall:
    """A generation to send.

    Attributes:
        sent: the prompt in the form that is sent.
        request: stop strings and decoding settings.
        max_tokens: most new tokens.
        truncated: tokens that were cut from the prompt.
        notes: names of peculiarities of the prompt.
    """

    sent: Sent
    request: Generation
    max_tokens: int
    truncated: int = 0
    notes: tuple[str, ...] = ()


class Dialect(Protocol):
    """How a kind of server is asked. `score`, `batch` and `step` are of servers with log-likelihoods only."""

    @property
    def name(self) -> str: ...

    def score(self, ids: Sequence[int], scored: int) -> Exchange[list[TokenScore]]:
        """Log-probabilities of the last `scored` of some token ids, each given those before it."""
        ...

    def batch(self, rows: Sequence[Sequence[int]]) -> Exchange[list[list[TokenScore]]] | None:
        """The same for several rows in one request, all but the first id of each; None if it takes one at a time."""
        ...

    def step(self, ids: Sequence[int]) -> Exchange[Step]:
        """The most likely token after some ids."""
        ...

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """Text generated after a prompt; a failure for settings that the dialect cannot express."""
        ...


@runtime_checkable
class ScoresNextTokens(Protocol):
    """A dialect that can ask for the log-probabilities of several possible next tokens at once."""

    @property
    def most_candidates(self) -> int:
        """The highest number of tokens in one request."""
        ...

    def next_tokens(self, ids: Sequence[int], candidates: Sequence[int]) -> Exchange[list[TokenScore]]:
        """Log-probabilities of different next tokens after some ids, in the order of `candidates`."""
        ...
