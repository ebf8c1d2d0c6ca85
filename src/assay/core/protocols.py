"""The seams. Anything that satisfies one of these fits; nothing needs to inherit from Assay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from assay.core.documents import Document
from assay.core.fingerprints import Capabilities, Fingerprint
from assay.core.requests import Instance, Request
from assay.core.responses import Failure, Output, Response
from assay.core.specs import Scoring, TaskCard


@runtime_checkable
class Task(Protocol):
    """What is asked. After `documents` has loaded the data, everything is pure."""

    @property
    def card(self) -> TaskCard: ...

    @property
    def scoring(self) -> Scoring: ...

    def documents(self) -> Sequence[Document]:
        """The documents of the evaluated split, all of them, in order."""
        ...

    def pose(self, document: Document) -> Instance:
        """A document as asked; a pure function of the task, its seed and the document."""
        ...


@dataclass(frozen=True, slots=True)
class Example:
    """A few-shot example and where it came from: the row at a place of a split, or of the task file's own list."""

    origin: str
    place: int
    fields: Mapping[str, Any]


@runtime_checkable
class ShowsExamples(Protocol):
    """A task that can tell which examples stand before a document."""

    def examples(self, document: Document) -> Sequence[Example]: ...


@runtime_checkable
class Model(Protocol):
    """Who answers."""

    @property
    def fingerprint(self) -> Fingerprint: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def respond(self, requests: Sequence[Request]) -> Iterator[tuple[int, Output | Failure]]:
        """Answers to all requests, as (place in `requests`, answer), in any order, as they finish.

        A request that cannot be answered yields a `Failure`; it never raises for one request alone.
        """
        ...

    def close(self) -> None:
        """Gives back what the model holds."""
        ...


@dataclass(frozen=True, slots=True)
class TokenView:
    """A request as the model sees it: ids and pieces of the context and of what is scored."""

    context_ids: tuple[int, ...]
    continuation_ids: tuple[int, ...]
    context_pieces: tuple[str, ...]
    continuation_pieces: tuple[str, ...]
    truncated: int = 0
    prompt_text: str | None = None


@runtime_checkable
class Tokenizes(Protocol):
    """A model that shows its tokens. Declared by `Capabilities.can_tokenize`."""

    def view(self, request: Request) -> TokenView: ...

    def count_tokens(self, requests: Sequence[Request]) -> int:
        """Tokens that the model would read for these requests, one by one, without any sharing."""
        ...


@runtime_checkable
class Advises(Protocol):
    """A model that has something to say about itself after it was loaded, such as a missing BOS."""

    def notices(self) -> Iterable[str]: ...


@runtime_checkable
class Filter(Protocol):
    """Outputs in, outputs out, for one document."""

    def __call__(self, responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        """Maps the list of a document's questions; each entry is a list of draws, or what is left of it."""
        ...


class ResponseStore(Protocol):
    """What is remembered."""

    def known(self, keys: Iterable[bytes]) -> set[bytes]: ...

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Output]: ...

    def put(self, responses: Sequence[Response], fingerprint: Fingerprint) -> None: ...
