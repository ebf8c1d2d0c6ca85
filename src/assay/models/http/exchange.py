"""One request to a server and the reading of its answer, as plain values shared by dialects, probe and client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
class OptionalField:
    """A field of a request body that may be left out, or written under another name, if the model refuses it.

    Attributes:
        path: names from the outer object to the field: `generationConfig.temperature`.
        note: note on answers without it, see `NOTE_TEXTS`; empty if nothing changes.
        replacement: the field that is sent instead; empty for none.
    """

    path: str
    note: str = ""
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class Exchange(Generic[Value]):
    """A request body, where it is sent, and how the answer is read.

    Attributes:
        path: below the base URL; from the server's root if it begins with a slash.
        body: the JSON object to send; None for a GET.
        read: the answer's JSON object → a value, or a `Failure` that is final; raises `Unreadable`.
        optional: fields that a model may refuse.
    """

    path: str
    body: Mapping[str, Any] | None
    read: Callable[[Mapping[str, Any]], Value | Failure]
    optional: tuple[OptionalField, ...] = ()


class TokenScore(NamedTuple):
    """Log-probability of a token, and whether it is the most likely one; None if the server does not say."""

    logprob: float
    is_greedy: bool | None


class Step(NamedTuple):
    """The most likely next token: its id, if the server reports ids, its text and its log-probability."""

    token_id: int | None
    text: str
    logprob: float


class FirstTokens(NamedTuple):
    """The most likely first tokens of an answer, as (text, log-probability), and the tokens of the prompt."""

    tokens: tuple[tuple[str, float], ...]
    prompt_tokens: int


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


@dataclass(frozen=True, slots=True)
class Thinking:
    """What the user sets about a model's reasoning.

    Attributes:
        budget: most tokens of reasoning; 0 for none, `AUTO_BUDGET` for as many as the model likes, None if not set.
        effort: name of an effort, such as `low`; empty if not set.
    """

    budget: int | None = None
    effort: str = ""

    @property
    def extra_tokens(self) -> int:
        """Tokens that a budget adds to the limit of an answer, in which servers count reasoning too."""
        return max(self.budget or 0, 0)


AUTO_BUDGET = -1
NO_THINKING = Thinking()


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """What a chat dialect is made of, besides the model's name.

    Attributes:
        model: the model's name at the server.
        seed: seed of sampled generations whose request has none.
        max_tokens_field: name of the field with the number of new tokens; None for the usual one.
        thinking: the settings of reasoning.
        constrain: the only answers that are allowed; empty for any.
        kind: the kind of the server, as far as it is known.
    """

    model: str
    seed: int | None = None
    max_tokens_field: str | None = None
    thinking: Thinking = field(default_factory=Thinking)
    constrain: tuple[str, ...] = ()
    kind: str = ""


class Writer(Protocol):
    """How a server is asked for texts."""

    def generate(self, call: GenerationCall) -> Exchange[Text] | Failure:
        """Text generated after a prompt; a failure for settings that the dialect cannot express."""
        ...


class ChatDialect(Writer, Protocol):
    """How a chat endpoint is asked."""

    @property
    def name(self) -> str: ...

    def first_tokens(self, call: GenerationCall, most: int) -> Exchange[FirstTokens] | Failure:
        """The `most` likeliest first tokens of an answer; a failure if the endpoint does not report them."""
        ...


class Dialect(Writer, Protocol):
    """How a server with log-likelihoods of given token ids is asked."""

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
