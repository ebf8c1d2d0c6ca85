"""Encoder-decoders of `hf`, such as T5 and BART: the encoder reads the prompt, the decoder answers.

In: the same arguments as for decoders. Out: a `Model` that also satisfies `ExposesTokens`, `ReportsNotices`,
`ReportsExecution` and `Trainable`. Every distinct prompt is encoded once for all its requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from assay.core.requests import Request
from assay.core.responses import Failure, Logprob, Output
from assay.models.hf.seq2seq.recipe import Seq2SeqRecipe
from assay.models.hf.seq2seq.seq2seq_encoding import Seq2SeqEncoder
from assay.models.hf.seq2seq.seq2seq_network import Memory, Seq2SeqGenerator, Seq2SeqNetwork, load_seq2seq_network
from assay.models.hf.transformers_model import LanguageModel, PaddedModel
from assay.models.inference.batching import run_batches
from assay.models.inference.generation import generate_texts
from assay.models.inference.likelihood import Scored, ScoringRow, group_rows, score_rows
from assay.models.loading.tokenizer import make_encoder
from assay.models.tokens.encoding import Job
from assay.models.tokens.tokenization import EncodedPrompt, EncodedText
from assay.models.training.lm_recipes import text_recipe
from assay.models.training.recipes import RecipeMaker

if TYPE_CHECKING:
    import torch

Answer = tuple[int, Output | Failure]


@dataclass(slots=True)
class ContextGroup:
    """A distinct context and all its requests."""

    context: tuple[int, ...]
    texts: list[EncodedText] = field(default_factory=list)
    prompts: list[EncodedPrompt] = field(default_factory=list)

    @property
    def indices(self) -> list[int]:
        """Indices of its requests."""
        return [*(text.index for text in self.texts), *(prompt.index for prompt in self.prompts)]


def group_by_context(job: Job) -> list[ContextGroup]:
    """One group per distinct context, longest first; ties by ids, so the order of requests has no effect."""
    found: dict[tuple[int, ...], ContextGroup] = {}
    for text in job.texts:
        context = text.ids[: -text.scored]
        found.setdefault(context, ContextGroup(context)).texts.append(text)
    for prompt in job.prompts:
        found.setdefault(prompt.ids, ContextGroup(prompt.ids)).prompts.append(prompt)
    return sorted(found.values(), key=lambda group: (-len(group.context), group.context))


class EncoderDecoder(LanguageModel, PaddedModel[Seq2SeqNetwork]):
    """A transformers encoder-decoder language model."""

    _contexts = 0

    @cached_property
    def _encoder(self) -> Seq2SeqEncoder:
        """Encodes requests; needs the tokenizer, not the weights."""
        return make_encoder(Seq2SeqEncoder, self.checkpoint, self.arguments)

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Encodes contexts batch by batch; for each batch scores continuations, then generates."""
        job = self._encoder.encode(requests)
        yield from job.answered
        groups = group_by_context(job)
        if not groups:
            return
        network = self._loaded()
        self._contexts = len(groups)

        def read(batch: Sequence[ContextGroup]) -> Memory:
            return network.encode([group.context for group in batch])

        batching = self._batching(network)
        for batch, memory in run_batches(groups, lambda group: len(group.context), batching, read):
            if isinstance(memory, Failure):
                yield from ((index, memory) for group in batch for index in group.indices)
                continue
            yield from self._score(batch, memory, network)
            yield from self._generate(batch, memory, network)

    def _score(self, batch: Sequence[ContextGroup], memory: Memory, network: Seq2SeqNetwork) -> Iterator[Scored]:
        """Log-likelihoods of all continuations; equal decoder rows of one context are forwarded once."""
        # A row starts with the number of its context, so that equal continuations of different contexts differ.
        texts = [
            replace(text, ids=(number, network.start_id, *text.ids[-text.scored :]))
            for number, group in enumerate(batch)
            for text in group.texts
        ]
        lengths = {text.index: text.context_length for group in batch for text in group.texts}

        def work(rows: Sequence[ScoringRow]) -> list[Scored]:
            return score_rows(
                rows, lambda ids, indices: network.logits(memory, ids, indices), self.arguments.arithmetic
            )

        def length(row: ScoringRow) -> int:
            return row.length + len(memory.contexts[row.inputs[0]])

        batching = self._batching(network)
        for rows, result in run_batches(group_rows(texts), length, batching, work):
            if isinstance(result, Failure):
                result = [(text.index, result) for row in rows for text in row.texts]
            for index, scored in result:
                if isinstance(scored, Logprob):
                    scored = replace(scored, prompt_tokens=lengths[index])
                yield index, scored

    def _generate(self, batch: Sequence[ContextGroup], memory: Memory, network: Seq2SeqNetwork) -> Iterator[Answer]:
        prompts = [prompt for group in batch for prompt in group.prompts]
        tokenizer, think_end = self._encoder.rules.tokenizer, self.arguments.think_end_token
        text_generator = Seq2SeqGenerator(network.base, tokenizer, think_end, memory=memory)
        return generate_texts(prompts, text_generator, self._batching(network, for_generation=True))

    def _load(self, device: torch.device) -> Seq2SeqNetwork:
        return load_seq2seq_network(self.checkpoint, self.arguments, device)

    @property
    def _recipe(self) -> RecipeMaker:
        return partial(text_recipe, Seq2SeqRecipe, self._encoder)

    def description(self) -> Mapping[str, Any]:
        """Execution report of the last `respond`, for the record; empty before the weights are loaded."""
        if self._network is None:
            return {}
        return {"engine": "padded", "why": "an encoder-decoder", "encoded_contexts": self._contexts}
