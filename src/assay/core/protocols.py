"""The interfaces between packages, as protocols: any object with the right members fits, no base class is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from assay.core.call_checks import checked_dataclass
from assay.core.documents import Document
from assay.core.formats import Question
from assay.core.identity import Fingerprint
from assay.core.requests import Generation, Instance, Message, Prompt, Request
from assay.core.responses import Failure, Output, Response, Text
from assay.core.specs import Scoring, TaskCard
from assay.core.training import FitListener, FitReport, FitSettings, TrainingExample

# Receives the progress of long work: a description, the items done, and the items in total.
ProgressCallback = Callable[[str, int, int], None]


def ignore_progress(what: str, done: int, total: int) -> None:
    """A progress callback that does nothing."""


@runtime_checkable
class Task(Protocol):
    """An evaluation task. After `documents` has loaded the data, everything is pure."""

    @property
    def card(self) -> TaskCard: ...

    @property
    def scoring(self) -> Scoring: ...

    def documents(self) -> Sequence[Document]:
        """All documents of the evaluated split, in order."""
        ...

    def build(self, document: Document) -> Instance:
        """Builds the instance of a document; a pure function of the task, its seed and the document."""
        ...


@dataclass(frozen=True, slots=True)
class FewShotExample:
    """A few-shot example and its origin: the row at an index of a split, or of the task file's own list."""

    origin: str
    place: int
    fields: Mapping[str, Any]


@runtime_checkable
class ProvidesFewShotExamples(Protocol):
    """A task that can list the few-shot examples of a document."""

    def examples(self, document: Document) -> Sequence[FewShotExample]: ...


@runtime_checkable
class HasFormat(Protocol):
    """A task whose documents are questions of a known format, so that classifier heads can answer them too."""

    def question(self, document: Document) -> Question | None:
        """The document as a question; None if it cannot be read as one."""
        ...


@runtime_checkable
class SkipsRows(Protocol):
    """A task whose prompt cannot render every row of the evaluated split."""

    def skipped_rows(self) -> Sequence[tuple[int, str]]:
        """Index in the split of every row that is not among the documents, and why."""
        ...


@dataclass(frozen=True, slots=True)
class DataRead:
    """What a task has read of its dataset.

    Attributes:
        sizes: split → rows, before any are left out.
        official: split → rows that it officially has, as far as the task's card or the local copy states it.
        origin: where the rows came from, as JSON data; empty for local files and rows in memory.
    """

    sizes: dict[str, int]
    official: dict[str, int]
    origin: dict[str, Any]


@runtime_checkable
class ReadsDataset(Protocol):
    """A task whose documents are rows of a dataset."""

    def open_data(self) -> None:
        """Opens the dataset without reading rows; raises if it, or a split that a run reads, is not there."""
        ...

    def data_read(self) -> DataRead:
        """What was read so far."""
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
        """The choices as the file lists them; empty if a template or code makes them."""
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
    """A task with documents to train on."""

    def training_examples(self, part: str, kinds: frozenset[str]) -> Sequence[TrainingExample]:
        """The training examples of the `training` or `validation` documents, never of the evaluated ones.

        Args:
            part: `training`; `validation`, which is empty if the task has no split for it besides the evaluated one; or
                `evaluated`: the examples that the evaluated documents would give, to detect overlap between parts.
            kinds: request kinds that the model can be trained for.

        Raises:
            DataError: if there are no training documents, or none that such a model can be trained on.
        """
        ...


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a model; checked before a run starts.

    Attributes:
        kinds: request kinds it answers.
        max_tokens: longest sequence it accepts; None if unknown.
        has_chat: whether it can render chat messages as text.
        can_tokenize: whether it also satisfies the `ExposesTokens` protocol.
        is_deterministic: whether the same request gives the same bits, whatever the rest of the batch.
        family: the kind of network, for messages.
        learns: request kinds that it can be trained to answer; a model with any also satisfies `Trainable`.
        labels: names of the outputs of its classification head, see `core.label_mapping`; empty without one.
        refusal: why it does not answer the other kinds, where that is not its nature: what was found at its server.
    """

    kinds: frozenset[str]
    max_tokens: int | None = None
    has_chat: bool = False
    can_tokenize: bool = False
    is_deterministic: bool = True
    family: str = "model"
    learns: frozenset[str] = frozenset()
    labels: tuple[str, ...] = ()
    refusal: str = ""


@runtime_checkable
class Model(Protocol):
    """A model that answers requests."""

    @property
    def fingerprint(self) -> Fingerprint: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def respond(self, requests: Sequence[Request]) -> Iterator[tuple[int, Output | Failure]]:
        """Answers all requests, as (index in `requests`, answer), in any order, as they finish.

        A request that cannot be answered yields a `Failure`; it never raises for one request alone.
        """
        ...

    def close(self) -> None:
        """Releases the model's resources."""
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

        The folder holds checkpoints during training; called again after a kill, it resumes from the last complete
        checkpoint. In the end it holds a model that `hf` opens, and no checkpoints. The same examples, settings and
        seed give the same weights on the same machine, interrupted or not.

        Args:
            training_examples: the examples to train on.
            validation: the examples to validate on; empty for no validation.
            settings: the training settings.
            folder: where the new model is saved.
            listener: called after every step.

        Raises:
            ModelError: for examples that the model cannot be trained on, and if memory does not suffice.
        """
        ...


@dataclass(frozen=True, slots=True)
class TokenView:
    """A request as the model sees it: token ids and strings of the context and of the scored part."""

    context_ids: tuple[int, ...]
    continuation_ids: tuple[int, ...]
    context_pieces: tuple[str, ...]
    continuation_pieces: tuple[str, ...]
    truncated: int = 0
    prompt_text: str | None = None


@runtime_checkable
class ExposesTokens(Protocol):
    """A model that exposes its tokens. Declared by `Capabilities.can_tokenize`."""

    def view(self, request: Request) -> TokenView: ...


@runtime_checkable
class RendersPrompts(Protocol):
    """A model that renders conversations as text with its chat template."""

    def render(self, prompt: Prompt) -> str | None:
        """The prompt as the model reads it, with or without loaded weights; None if the template rejects it."""
        ...


@dataclass(frozen=True, slots=True)
class TokenRow:
    """Token ids whose log-probabilities are wanted, each given all those before it.

    Attributes:
        ids: the ids, at least one.
        scored: number of ids at the end that are scored, less than all of them.
        top: number of most likely tokens to report per position, at least 1.
        follows: whether the token after the last one is predicted too.
        ranked: whether ranks are wanted.
    """

    ids: tuple[int, ...]
    scored: int
    top: int = 1
    follows: bool = False
    ranked: bool = False


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Scores of a row, position by position.

    Attributes:
        logprobs: log-probability of each scored id.
        ranks: its rank among all tokens, 1 for the most likely; empty unless wanted.
        top_ids: for each scored id, and for the token after the last if wanted, the most likely ids, best first.
        top_logprobs: their log-probabilities. Equal ids at a position have equal numbers in all fields.
    """

    logprobs: Sequence[float]
    ranks: Sequence[int]
    top_ids: Sequence[Sequence[int]]
    top_logprobs: Sequence[Sequence[float]]


@runtime_checkable
class ScoresTokens(Protocol):
    """A model that scores token ids one by one, where `Loglikelihood` gives the total of a text."""

    def score_tokens(self, rows: Sequence[TokenRow]) -> Iterator[tuple[int, TokenScores | Failure]]:
        """Scores all rows, as (index in `rows`, scores), in any order, as they finish. Common prefixes count once."""
        ...


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """A generation whose prompt is given as token ids; the prompt of `request` is not read."""

    ids: tuple[int, ...]
    request: Generation


@runtime_checkable
class ContinuesTokens(Protocol):
    """A model that continues prompts of token ids, and shows the tokens of its answers."""

    def continue_tokens(
        self, prompts: Sequence[TokenPrompt], on_tokens: Callable[[int, Sequence[int]], None]
    ) -> Iterator[tuple[int, Text | Failure]]:
        """Generates all answers, as (index in `prompts`, answer), in any order, as they finish.

        Args:
            prompts: the prompts.
            on_tokens: called with an index and all ids of its answer so far, at the latest before the answer; the last
                call has all of them. What it raises, other than an `Exception`, ends the generation.
        """
        ...


class TokenCodec(Protocol):
    """Text to token ids and back, as a model reads and writes them. For one thread of its own."""

    @property
    def special(self) -> Mapping[str, int | None]:
        """Ids of the special tokens by name: `bos_token`, `eos_token`, `pad_token`."""
        ...

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        ...

    @property
    def shows_all(self) -> bool:
        """Whether the text of an answer begins with its first token; not if a thinking part is removed at the end."""
        ...

    @property
    def template(self) -> str | None:
        """The chat template."""
        ...

    def encode(self, text: str, special: bool | None = None) -> tuple[int, ...]:
        """The ids of a prompt; `special` is whether special tokens are added, None for the model's own rule."""
        ...

    def decode(self, ids: Sequence[int], skips_special: bool = False) -> str: ...

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Each id as text; the tokenizer's own notation for one that is only part of a character."""
        ...

    def render(
        self, messages: tuple[Message, ...], options: Mapping[str, Any]
    ) -> tuple[str, tuple[str, ...]] | Failure:
        """A conversation as text, with notes on what the template left out."""
        ...


@runtime_checkable
class ProvidesCodec(Protocol):
    """A model whose tokenizer can be used apart from it."""

    def codec(self) -> TokenCodec:
        """A codec of its own: the model may go on working in another thread."""
        ...


# A special token: its string and its id.
SpecialToken = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts that result files record about a model and its tokenizer, in the terms of transformers and the Hub.

    Attributes:
        parameters: number of parameters; None if its files do not say and it was not loaded.
        dtype: number format of its weights, such as `torch.float32`.
        revision: the requested revision.
        commit: the commit of that revision on the Hub; empty for a folder.
        max_length: maximum context length in tokens.
        pad: the padding token.
        eos: the end-of-text token.
        bos: the beginning-of-text token.
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
    """A model with weights and a tokenizer that result files can describe."""

    def facts(self) -> ModelFacts | None:
        """The facts, with or without loaded weights; None if a package that reads them is missing."""
        ...


@dataclass(frozen=True, slots=True)
class Workload:
    """The cost of answering a list of requests.

    Attributes:
        read: tokens the model reads; shared prefixes count once.
        alone: tokens it would read without prefix sharing.
        written: upper bound of generated tokens.
        operations: floating-point operations in total, with a typical length for generated text.
        seconds: time estimate from a short measurement on this machine; None if there is none.
        memory: estimated peak memory of the process in bytes, on a CUDA device that of its tensors; None if unknown.
    """

    read: int
    alone: int
    written: int
    operations: float
    seconds: float | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a model: operations done and in total, and the same in tokens (read and generated)."""

    done: float
    total: float
    tokens: int
    tokens_total: int


@runtime_checkable
class ReportsWorkload(Protocol):
    """A model that can count its work in advance."""

    def workload(self, requests: Sequence[Request]) -> Workload:
        """The cost of these requests; needs no weights."""
        ...

    def watch(self, listener: Callable[[Progress], None]) -> None:
        """Registers a listener for progress during `respond`, also between answers; it replaces an earlier one.

        The first report comes when the weights are loaded. `done` and `tokens` never decrease; the totals may change,
        since generations may end before their limit.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExpectedSpending:
    """What requests to a provider would cost; estimated before they are sent.

    Attributes:
        requests: their number.
        prompt_tokens: tokens of their prompts.
        new_tokens: upper bound of generated tokens.
        dollars: upper bound of the price; None if no price is known.
        price: the price and its source; empty if none is known.
    """

    requests: int
    prompt_tokens: int
    new_tokens: int
    dollars: float | None
    price: str


@runtime_checkable
class SpendsTokens(Protocol):
    """A model whose requests are paid for by token."""

    def limit_spending(self, dollars: float | None, tokens: int | None) -> None:
        """Sets the most that the following requests may cost; those that could exceed it become failures.

        Raises:
            ModelError: for a limit in dollars if no price is known.
        """
        ...

    def expected_spending(self, requests: Sequence[Request]) -> ExpectedSpending:
        """What requests would cost; nothing is sent."""
        ...


@runtime_checkable
class KeepsState(Protocol):
    """A model with work that outlives a run, such as requests that a provider computes as a batch."""

    def keep_state(self, folder: Path | None) -> None:
        """Sets the folder for records of such work, created when it is needed; None if the store is temporary."""
        ...


@runtime_checkable
class ReportsWaiting(Protocol):
    """A model that may have to wait, for a rate limit or for a server."""

    def watch_waiting(self, listener: Callable[[str], None]) -> None:
        """Registers a listener that is told about once a second why no answer arrives; it replaces an earlier one."""
        ...


@runtime_checkable
class ReportsExecution(Protocol):
    """A model that describes, after `respond`, how it ran."""

    def description(self) -> Mapping[str, Any]:
        """The execution report as JSON data: `engine`, `why` that engine was chosen, and anything else to record."""
        ...


@runtime_checkable
class ReportsNotices(Protocol):
    """A model or task with notices about itself after loading, such as a missing BOS token."""

    def notices(self) -> Iterable[str]: ...


@runtime_checkable
class Filter(Protocol):
    """Transforms the outputs of one document."""

    def __call__(self, responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        """Maps the list of a document's questions; an entry is a list of draws, or what earlier filters made of it."""
        ...


class ResponseStore(Protocol):
    """Storage of responses by key."""

    def known(self, keys: Iterable[bytes]) -> set[bytes]: ...

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Output]: ...

    def put(self, responses: Sequence[Response], fingerprint: Fingerprint) -> None: ...
