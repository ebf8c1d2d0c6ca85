"""A request is one question to a model, independent of task, document and run.

An instance is a document built into requests, with its choices and right answer. Neither holds a response; requests
and responses are matched by key, when scoring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Union

from assay.core.call_checks import checked_dataclass
from assay.core.documents import ChangedDocument
from assay.core.errors import Fault, UserError
from assay.core.secrets import redacted


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation. Roles are `system`, `user` and `assistant`."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Demonstrated:
    """A question after demonstrations, each truncated to a number of tokens that only a model can count (MetaICL).

    Attributes:
        demonstrations: (input, output) of each, in prompt order.
        question: the input to be answered.
        options: the answers that will be scored after it, of which the longest must fit; empty for a free answer.
        limit: most tokens of a demonstration, or of the question and its longest option. Inputs are cut, outputs never.
        between: separator between an input and its output.
        after: separator after a demonstration.
        opening: text before everything else that is never cut, such as a task description.
    """

    demonstrations: tuple[tuple[str, str], ...]
    question: str
    options: tuple[str, ...] = ()
    limit: int = 256
    between: str = "\n"
    after: str = "\n\n\n"
    opening: str = ""

    def joined(self, inputs: Sequence[str]) -> str:
        """The prompt as text, with other inputs in place of the demonstrations' and, last, the question's own."""
        *shown, question = inputs
        pairs = zip(shown, self.demonstrations, strict=True)
        return self.opening + "".join(text + self.between + pair[1] + self.after for text, pair in pairs) + question

    @property
    def text(self) -> str:
        """The prompt as text, without truncation."""
        return self.joined([*(text for text, _ in self.demonstrations), self.question])

    def identity(self) -> dict[str, Any]:
        names = ("demonstrations", "question", "options", "limit", "between", "after", "opening")
        # Prompts longer than the context were once truncated by another rule; those answers have keys without "cut".
        return {name: getattr(self, name) for name in names} | {"cut": "metaicl"}


# A prompt is text, or a conversation or demonstrations that only a model can render as text.
Prompt = Union[str, tuple[Message, ...], Demonstrated]


def untruncated_prompt(prompt: Prompt) -> str | tuple[Message, ...]:
    """A prompt without token-based truncation: demonstrations as their whole text, others unchanged."""
    return prompt.text if isinstance(prompt, Demonstrated) else prompt


def _prompt_identity(prompt: Prompt) -> Any:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Demonstrated):
        return prompt.identity()
    return [[message.role, message.text] for message in prompt]


@dataclass(frozen=True, slots=True)
class Loglikelihood:
    """Log-likelihood of a continuation after a prompt."""

    kind: ClassVar[str] = "loglikelihood"
    prompt: Prompt
    continuation: str

    def identity(self) -> tuple[Any, ...]:
        return (_prompt_identity(self.prompt), self.continuation)


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Windows:
    """Windows into which a longer text is split.

    Attributes:
        length: tokens per window, including the prefix token; None for the model's maximum.
        stride: tokens scored by each window after the first, after as much context as fits (Press et al. 2020); None
            for as many as a window holds.
    """

    length: int | None = None
    stride: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("window", self.length), ("stride", self.stride)):
            if value is not None and value < 1:
                raise UserError(Fault(name, f"is {value}", "a whole number of tokens, 1 or more"))
        if self.length is not None and self.stride is not None and self.stride > self.length:
            found = f"is {self.stride}, more than the {self.length} tokens of a window: some would not be scored"
            raise UserError(Fault("stride", found, f"1 to {self.length}"))

    def changed(self, length: int | None, stride: int | None) -> Windows:
        """These windows with another length or stride; None leaves one as it is.

        A stride goes with its length: under a shorter one it could leave tokens out, so a new length drops it.
        """
        own_stride = self.stride if length is None else None
        return Windows(self.length if length is None else length, own_stride if stride is None else stride)

    def count_windows(self, tokens: int) -> int:
        """Number of windows for a text with this many scored tokens, if the model itself sets no length."""
        if self.length is None:
            return min(tokens, 1)
        step = self.length if self.stride is None else self.stride
        return min(tokens, 1) + max(-(-(tokens - self.length) // step), 0)


LONGEST_WINDOWS = Windows()


@dataclass(frozen=True, slots=True)
class RollingLoglikelihood:
    """Log-likelihood of a whole text. Every token is scored once, in windows of the model's maximum length.

    Attributes:
        text: the text.
        overlap: tokens of context that each window repeats from the one before (at least 1).
        stands_on_prefix: whether the first token is scored too, after the model's prefix token. If not, the text is
            tokenised like the prompt of a `Loglikelihood`, token for token (if a model moves a prompt's trailing white
            space to the continuation, without that); its first token is given, every later one is scored. The answer's
            `token_count` + `prompt_tokens` is then the number of tokens; an empty text has 0 of both.
        windows: windows other than the default; a stride set there replaces `overlap`.
    """

    kind: ClassVar[str] = "rolling_loglikelihood"
    text: str
    overlap: int = 1
    stands_on_prefix: bool = True
    windows: Windows = LONGEST_WINDOWS

    def identity(self) -> tuple[Any, ...]:
        # Default values are left out: answers stored before these fields existed keep their keys.
        usual = (self.text, self.overlap)
        if self.windows == LONGEST_WINDOWS:
            return usual if self.stands_on_prefix else (*usual, self.stands_on_prefix)
        return (*usual, self.stands_on_prefix, self.windows.length, self.windows.stride)


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Sampling:
    """Decoding settings. Temperature 0 is greedy decoding.

    Attributes:
        temperature: 0 for greedy, else the softmax temperature.
        seed: seed of a draw's random stream; unused when greedy.
        options: further settings for the model, as sorted (name, value) pairs: top_p, num_beams, …
    """

    temperature: float = 0.0
    seed: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    def identity(self) -> list[Any]:
        # As a float: 1 and 1.0 are equal temperatures, so they must be one request.
        # Without secrets: the same request under another API key is the same request.
        return [float(self.temperature), self.seed, [[name, redacted(value, name)] for name, value in self.options]]


@dataclass(frozen=True, slots=True)
class Generation:
    """Text generated after a prompt.

    Attributes:
        prompt: text or conversation.
        stop: generation ends before the first of these strings.
        max_tokens: most new tokens; None leaves it to the model. 0 gives the empty text.
        sampling: decoding settings.
        draw: which of k independent samples this is; 0 if greedy.
    """

    kind: ClassVar[str] = "generation"
    prompt: Prompt
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    draw: int = 0

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 0:
            raise UserError(Fault("max_tokens", f"is {self.max_tokens}", "a whole number of tokens, 0 or more"))

    def identity(self) -> tuple[Any, ...]:
        return (_prompt_identity(self.prompt), list(self.stop), self.max_tokens, self.sampling.identity(), self.draw)


@dataclass(frozen=True, slots=True)
class Classification:
    """Classification of a text, or a pair of texts, by a model with a classification head.

    Attributes:
        first: the text, or the first of a pair.
        labels: names of the labels, in the task's order.
        second: the second text; None for a single text.
    """

    kind: ClassVar[str] = "classification"
    first: str
    labels: tuple[str, ...]
    second: str | None = None

    @property
    def text(self) -> str:
        """All text that the model reads, for logs."""
        return self.first if self.second is None else f"{self.first}\n{self.second}"

    def identity(self) -> tuple[Any, ...]:
        return (self.first, list(self.labels), self.second)


@dataclass(frozen=True, slots=True)
class ChoiceSelection:
    """Choice among answers to a question, by a model with a multiple-choice head, which reads each pair.

    Attributes:
        question: the text shared by all choices; may be empty.
        choices: the choices.
    """

    kind: ClassVar[str] = "choosing"
    question: str
    choices: tuple[str, ...]

    @property
    def text(self) -> str:
        """All text that the model reads, for logs."""
        return "\n".join((self.question, *self.choices))

    def identity(self) -> tuple[Any, ...]:
        return (self.question, list(self.choices))


@dataclass(frozen=True, slots=True)
class SpanExtraction:
    """Span of a context that answers a question, by a model with a span head.

    Attributes:
        question: the question.
        context: the text that holds the answer.
        may_lack: whether the context may hold no answer; then an empty text is an answer too.
    """

    kind: ClassVar[str] = "span"
    question: str
    context: str
    may_lack: bool = False

    @property
    def text(self) -> str:
        """All text that the model reads, for logs."""
        return f"{self.question}\n{self.context}"

    def identity(self) -> tuple[Any, ...]:
        return (self.question, self.context, self.may_lack)


@dataclass(frozen=True, slots=True)
class Rating:
    """Number that a model with a regression head gives a text, or a pair of texts. The answer is the number as text.

    Attributes:
        first: the text, or the first of a pair.
        second: the second text; None for a single text.
    """

    kind: ClassVar[str] = "rating"
    first: str
    second: str | None = None

    @property
    def text(self) -> str:
        """All text that the model reads, for logs."""
        return self.first if self.second is None else f"{self.first}\n{self.second}"

    def identity(self) -> tuple[Any, ...]:
        return (self.first, self.second)


Request = Union[
    Loglikelihood, RollingLoglikelihood, Generation, Classification, ChoiceSelection, SpanExtraction, Rating
]

# Kinds for language models, and kinds for encoders with a head.
REQUEST_KINDS = (Loglikelihood.kind, RollingLoglikelihood.kind, Generation.kind)
HEAD_KINDS = (Classification.kind, ChoiceSelection.kind, SpanExtraction.kind, Rating.kind)


class RequestPurpose(NamedTuple):
    """Purpose of a request: a `choice` (or the whole question), a choice after a `null` prompt, or a `prompt`."""

    kind: str
    null: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """A document built into requests.

    Attributes:
        task: name of the task.
        document_id: the document's index.
        requests: every request of the document; with several draws, the draws of a request are adjacent.
        draws: how many consecutive entries of `requests` belong to one question.
        choices: the possible answers, without delimiter; empty for free answers.
        target: the right answer as the task states it, for the sample log.
        gold: the right answer as scorers read it: an index, a text, or a tuple of either.
        nulls: prompts without the question; after the choices' requests follow, for each null prompt, the same
            choices after it.
        prompts: how many of the last requests are whole prompts: none, one, or one per choice.
        orders: the orders in which the choices are shown, each a row of indices; all of the above repeated for every
            order. Empty for the original order only.
        cluster: the cluster that the document belongs to, such as the questions on one passage; None if the run's
            documents are independent.
        notes: names of peculiarities of how it was built, see `NOTE_TEXTS` of `assay.core.responses`.
        changed: the fields that the task's code changed, if it changes documents in place.
    """

    task: str
    document_id: int
    requests: tuple[Request, ...]
    draws: int = 1
    choices: tuple[str, ...] = ()
    target: Any = None
    gold: Any = None
    nulls: tuple[str, ...] = ()
    prompts: int = 0
    orders: tuple[tuple[int, ...], ...] = ()
    cluster: str | None = None
    notes: tuple[str, ...] = ()
    changed: ChangedDocument | None = None

    @property
    def gold_indices(self) -> tuple[Any, ...]:
        """Indices of the right choices. For a generated answer, the task's target: an index or a text."""
        golds = self.gold if isinstance(self.gold, tuple) else (self.gold,)
        if golds and all(isinstance(gold, int) for gold in golds):
            return golds
        return tuple(self.target) if isinstance(self.target, (list, tuple)) else (self.target,)

    def part(self, index: int) -> RequestPurpose:
        """The purpose of the request at an index of `requests`."""
        size = len(self.choices)
        choices = size * (1 + len(self.nulls))
        within = (index // self.draws) % (choices + self.prompts) if size else 0
        if within >= choices and size:
            return RequestPurpose("prompt")
        return (
            RequestPurpose("null", self.nulls[within // size - 1]) if within >= size > 0 else RequestPurpose("choice")
        )
