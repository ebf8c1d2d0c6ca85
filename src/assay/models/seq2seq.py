"""Encoder-decoders of the `hf` model (T5, BART and their kind): the encoder reads the prompt, the decoder answers.

Takes the same arguments as for decoders; gives a `Model` that also satisfies `Tokenizes`, `Advises`, `Describes` and
`Trainable`.
Every distinct prompt goes through the encoder once, whatever is asked of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from assay.core.fingerprints import Capabilities, Fingerprint
from assay.core.fitting import FitListener, FitReport, FitSettings, Lesson
from assay.core.protocols import TokenView
from assay.core.requests import Request
from assay.core.responses import Failure, Logprob, Output
from assay.models import checkpoints
from assay.models.batches import Batching, BatchLimit, run_batches
from assay.models.causal_arguments import CausalArguments
from assay.models.encoding import Job, make_encoder, token_view
from assay.models.fitting.courses import Parent
from assay.models.fitting.fit import fit
from assay.models.fitting.texts import text_course
from assay.models.generation import write_texts
from assay.models.likelihood import Row, Scored, group_rows, score_rows
from assay.models.network import automatic_limit, choose_device
from assay.models.seq2seq_encoding import PairEncoder
from assay.models.seq2seq_network import Memory, PairNetwork, PairWriter, load_pair_network
from assay.models.tokens import EncodedPrompt, EncodedText

Answer = tuple[int, Output | Failure]


@dataclass(slots=True)
class Question:
    """A distinct context and everything that is asked of it."""

    context: tuple[int, ...]
    texts: list[EncodedText] = field(default_factory=list)
    prompts: list[EncodedPrompt] = field(default_factory=list)

    @property
    def places(self) -> list[int]:
        """Where its requests stand."""
        return [*(text.index for text in self.texts), *(prompt.index for prompt in self.prompts)]


def group_questions(job: Job) -> list[Question]:
    """One question per distinct context, longest first; ties by ids, so the order of asking changes nothing."""
    found: dict[tuple[int, ...], Question] = {}
    for text in job.texts:
        context = text.ids[: -text.scored]
        found.setdefault(context, Question(context)).texts.append(text)
    for prompt in job.prompts:
        found.setdefault(prompt.ids, Question(prompt.ids)).prompts.append(prompt)
    return sorted(found.values(), key=lambda question: (-len(question.context), question.context))


class EncoderDecoder:
    """An encoder-decoder language model of transformers.

    Args:
        arguments: the user's arguments.
        device: where to run; None for the best there is.
        limit: rows per batch; None for what fits and is fast.
    """

    def __init__(self, arguments: CausalArguments, device: str | None = None, limit: BatchLimit | None = None) -> None:
        self.arguments = arguments
        self.device = device
        self.limit = limit
        self._network: PairNetwork | None = None
        self._notices: dict[str, str] = {}
        self._contexts = 0

    @cached_property
    def checkpoint(self) -> checkpoints.Checkpoint:
        """The folder and its small files; a Hub model is fetched here."""
        return checkpoints.find_checkpoint(self.arguments)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return checkpoints.fingerprint(self.checkpoint, self.arguments)

    @cached_property
    def capabilities(self) -> Capabilities:
        return checkpoints.capabilities(self.checkpoint, self.arguments)

    @cached_property
    def _encoder(self) -> PairEncoder:
        """Turns requests into ids; needs the tokenizer, not the weights."""
        return make_encoder(PairEncoder, self.checkpoint, self.arguments)

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Reads contexts batch by batch; of each batch scores continuations, then writes."""
        job = self._encoder.encode(requests)
        yield from job.refused
        questions = group_questions(job)
        if not questions:
            return
        network = self._loaded()
        self._contexts = len(questions)

        def read(batch: Sequence[Question]) -> Memory:
            return network.encode([question.context for question in batch])

        batching = self._batching(network, for_generation=False)
        for batch, memory in run_batches(questions, lambda question: len(question.context), batching, read):
            if isinstance(memory, Failure):
                yield from ((place, memory) for question in batch for place in question.places)
                continue
            yield from self._score(batch, memory, network)
            yield from self._write(batch, memory, network)

    def _score(self, batch: Sequence[Question], memory: Memory, network: PairNetwork) -> Iterator[Scored]:
        """The log-likelihoods of all continuations; equal decoder rows after one context are forwarded once."""
        # A row begins with the number of its context: equal rows after different contexts are not equal.
        texts = [
            replace(text, ids=(number, network.start_id, *text.ids[-text.scored :]))
            for number, question in enumerate(batch)
            for text in question.texts
        ]
        lengths = {text.index: text.context_length for question in batch for text in question.texts}

        def work(rows: Sequence[Row]) -> list[Scored]:
            return score_rows(rows, lambda ids, places: network.logits(memory, ids, places), self.arguments.arithmetic)

        def length(row: Row) -> int:
            return row.length + len(memory.contexts[row.inputs[0]])

        batching = self._batching(network, for_generation=False)
        for rows, result in run_batches(group_rows(texts), length, batching, work):
            if isinstance(result, Failure):
                result = [(text.index, result) for row in rows for text in row.texts]
            for index, scored in result:
                if isinstance(scored, Logprob):
                    scored = replace(scored, prompt_tokens=lengths[index])
                yield index, scored

    def _write(self, batch: Sequence[Question], memory: Memory, network: PairNetwork) -> Iterator[Answer]:
        prompts = [prompt for question in batch for prompt in question.prompts]
        tokenizer, think_end = self._encoder.rules.tokenizer, self.arguments.think_end_token
        writer = PairWriter(network.base, tokenizer, think_end, memory=memory)
        return write_texts(prompts, writer, self._batching(network, for_generation=True))

    def _batching(self, network: PairNetwork, for_generation: bool) -> Batching:
        return Batching(self.limit or automatic_limit(network.base, for_generation), self._note_shrink)

    def _note_shrink(self, limit: BatchLimit) -> None:
        self._notices["memory"] = f"memory ran out; batches were made smaller, down to {limit}"

    def _loaded(self) -> PairNetwork:
        """The network, loaded at first use."""
        if self._network is None:
            device, notice = choose_device(self.device)
            self._network = load_pair_network(self.checkpoint, self.arguments, device)
            if notice:
                self._notices["device"] = notice
        return self._network

    def fit(
        self,
        lessons: Sequence[Lesson],
        checks: Sequence[Lesson],
        settings: FitSettings,
        folder: Path,
        listener: FitListener,
    ) -> FitReport:
        """Trains a copy of the model and saves it; see docs/finetuning.md."""
        course = partial(text_course, self._encoder)
        digest = self.fingerprint.digest
        parent = Parent(self.checkpoint, self.arguments, digest, self.capabilities, course, self.device)
        return fit(parent, lessons, checks, settings, folder, listener)

    def view(self, request: Request) -> TokenView:
        """A request as the model sees it, the encoder's tokens as context; needs no weights."""
        return token_view(self._encoder, request)

    def description(self) -> Mapping[str, Any]:
        """How the model was asked in the last `respond`; nothing before the weights were loaded."""
        if self._network is None:
            return {}
        return {"engine": "padded", "why": "an encoder-decoder", "encoded_contexts": self._contexts}

    def notices(self) -> Iterable[str]:
        """What the user should know after the model was loaded and asked."""
        return tuple(self._notices.values())

    def close(self) -> None:
        """Lets go of the weights; asked again, they are loaded again."""
        self._network = None
