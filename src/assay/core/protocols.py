"""The seams. Anything that satisfies one of these fits; nothing needs to inherit from Assay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from assay.core.documents import Document
from assay.core.fingerprints import Capabilities, Fingerprint
from assay.core.formats import Question
from assay.core.requests import Instance, Prompt, Request
from assay.core.responses import Failure, Output, Response
from assay.core.specs import Scoring, TaskCard
from assay.core.training import FitListener, FitReport, FitSettings, TrainingExample


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

    def build(self, document: Document) -> Instance:
        """A document as asked; a pure function of the task, its seed and the document."""
        ...


@dataclass(frozen=True, slots=True)
class FewShotExample:
    """A few-shot example and where it came from: the row at a place of a split, or of the task file's own list."""

    origin: str
    place: int
    fields: Mapping[str, Any]


@runtime_checkable
class ProvidesFewShotExamples(Protocol):
    """A task that can tell which examples stand before a document."""

    def examples(self, document: Document) -> Sequence[FewShotExample]: ...


@runtime_checkable
class HasFormat(Protocol):
    """A task whose documents are questions of a format, which heads can be asked too."""

    def question(self, document: Document) -> Question | None:
        """The document as a question; None where none can be found in it."""
        ...


@runtime_checkable
class SkipsRows(Protocol):
    """A task whose prompt cannot render every row of the evaluated split."""

    def skipped_rows(self) -> Sequence[tuple[int, str]]:
        """Index in the split of every row that is not among the documents, and why."""
        ...


@runtime_checkable
class ReordersChoices(Protocol):
    """A task whose prompts may list the choices in another order than the documents have them."""

    def choice_order(self, instance: Instance) -> Sequence[int]:
        """For every choice of an instance, its index among the document's own choices."""
        ...


@runtime_checkable
class LocatesAnswers(Protocol):
    """A task of a file, which errors about choices and right answers can point at."""

    def written_choices(self) -> Sequence[Any]:
        """The choices as the file lists them; empty where a template or code makes them."""
        ...

    def where_choices(self) -> str:
        """File and line of the choices."""
        ...

    def where_answer(self) -> str:
        """File and line of the right answer."""
        ...


@runtime_checkable
class Rescorable(Protocol):
    """A task that can build the further requests that another scoring needs."""

    def with_scoring(self, scoring: Scoring) -> Task:
        """The same task under another scoring."""
        ...


@runtime_checkable
class ProvidesTrainingExamples(Protocol):
    """A task with documents to learn from."""

    def training_examples(self, part: str, kinds: frozenset[str]) -> Sequence[TrainingExample]:
        """The lessons of the `training` or the `validation` documents, never of those that are evaluated.

        Args:
            part: `training`; or `validation`, which is empty where the task has no split for it besides the evaluated;
                or `evaluated`: what the evaluated documents would teach, to find those that are in two parts.
            kinds: request kinds that the model can learn.

        Raises:
            DataError: where there are no training documents, or none from which such a model can learn.
        """
        ...


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


@runtime_checkable
class Trainable(Protocol):
    """A model that can be trained. Declared by `Capabilities.learns`."""

    def fit(
        self,
        training_examples: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        settings: FitSettings,
        folder: Path,
        listener: FitListener,
    ) -> FitReport:
        """Trains a copy of the model and saves it.

        The folder holds checkpoints while training goes on; called again after a kill, it goes on from the last whole
        one. In the end it holds a model that `hf` opens, and no checkpoints. The same lessons, settings and seed give
        the same weights on the same machine, interrupted or not.

        Args:
            lessons: what is learnt from.
            checks: what is validated on; empty for no validation.
            settings: how.
            folder: where the new model goes.
            listener: told of every step.

        Raises:
            ModelError: for lessons that the model cannot learn from, and for memory that does not suffice.
        """
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
class ExposesTokens(Protocol):
    """A model that shows its tokens. Declared by `Capabilities.can_tokenize`."""

    def view(self, request: Request) -> TokenView: ...


@runtime_checkable
class RendersPrompts(Protocol):
    """A model that turns conversations into text, by its chat template."""

    def render(self, prompt: Prompt) -> str | None:
        """The prompt as the model reads it, whether weights are loaded or not; None where the template refuses it."""
        ...


# A special token: its text and its id.
SpecialToken = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What result files say of a model and its tokenizer, in the terms of transformers and the Hub.

    Attributes:
        parameters: how many parameters it has; None where its files do not say and it was not loaded.
        dtype: number format of its weights, such as `torch.float32`.
        revision: the revision that was asked for.
        commit: what that revision is on the Hub; empty for a folder.
        max_length: most tokens it reads at once.
        pad: the token that fills batches.
        eos: the token that ends a text.
        bos: the token that begins a text.
        template: its chat template.
    """

    parameters: int | None
    dtype: str
    revision: str
    commit: str
    max_length: int
    pad: SpecialToken
    eos: SpecialToken
    bos: SpecialToken
    template: str | None


@runtime_checkable
class ProvidesModelFacts(Protocol):
    """A model with weights and a tokenizer that result files can name."""

    def facts(self) -> ModelFacts | None:
        """The facts, whether weights are loaded or not; None where a package that reads them is missing."""
        ...


@dataclass(frozen=True, slots=True)
class Workload:
    """What answering some requests takes.

    Attributes:
        read: tokens the model reads; what requests share is counted once.
        alone: tokens it would read if each request were asked by itself.
        written: most tokens it would write.
        operations: floating-point operations in all; a usual length stands for what is written.
        seconds: a guess of the time from a short measurement of this machine; None when there is none.
        memory: bytes that the process would hold at its peak, on a CUDA device what its tensors would; None when
            nothing is known.
    """

    read: int
    alone: int
    written: int
    operations: float
    seconds: float | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a model has come: operations done and in all, and the same in tokens (read and written)."""

    done: float
    total: float
    tokens: int
    tokens_total: int


@runtime_checkable
class ReportsWorkload(Protocol):
    """A model that knows its work ahead in tokens."""

    def workload(self, requests: Sequence[Request]) -> Workload:
        """What these requests would take; needs no weights."""
        ...

    def watch(self, listener: Callable[[Progress], None]) -> None:
        """Has a listener told of progress during `respond`, between answers too; it takes the place of an earlier one.

        The first report comes when the weights are loaded. `done` and `tokens` never fall; the totals may change,
        as answers end before their limit.
        """
        ...


@runtime_checkable
class ReportsExecution(Protocol):
    """A model that can tell, after `respond`, how it ran."""

    def description(self) -> Mapping[str, Any]:
        """How it ran, as JSON data: `engine`, `why` that one, and whatever else the record should keep."""
        ...


@runtime_checkable
class ReportsNotices(Protocol):
    """A model, or a task, that has something to say about itself after it was loaded, such as a missing BOS."""

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
