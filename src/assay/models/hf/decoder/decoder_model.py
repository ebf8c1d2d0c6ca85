"""Causal language models of `hf`: any decoder that transformers loads, from a folder or the Hub.

In: lm-eval's model arguments. Out: a `Model` that also satisfies `ExposesTokens`, `ScoresTokens`, `ContinuesTokens`,
`ProvidesCodec`, `RendersPrompts`, `ProvidesModelFacts`, `ReportsWorkload`, `ReportsNotices`, `ReportsExecution` and
`Trainable`. Opening a model only checks that its folder exists; the small files are read for its fingerprint, and
weights are loaded on the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from assay.core.protocols import Capabilities, Progress, TokenPrompt, TokenRow, TokenScores, Workload
from assay.core.requests import Request
from assay.core.responses import Failure, Output, Text
from assay.core.specs import ModelSettings
from assay.models.download import hub
from assay.models.engine.backend_choice import EngineChoice, choose_engine, may_share_prefixes, padding_noise
from assay.models.engine.cost_forecast import forecast
from assay.models.engine.engine import Engine
from assay.models.engine.flops import Meter, flop_rates
from assay.models.engine.memory import free_bytes, memory_budget
from assay.models.engine.token_scoring import TopTokens
from assay.models.hf.decoder.bos_check import missing_bos
from assay.models.hf.transformers_model import LanguageModel
from assay.models.inference.batching import BatchLimit, read_batch_size
from assay.models.inference.generation import TextGenerator
from assay.models.loading import checkpoint as checkpoints
from assay.models.loading.hf_arguments import AUTO, INT8_DYNAMIC, PADDED, CausalArguments, read_causal_arguments
from assay.models.loading.network import (
    Network,
    choose_device,
    load_network,
    require_transformers,
)
from assay.models.loading.tokenizer import make_encoder
from assay.models.runtime import release_memory
from assay.models.tokens.encoding import Encoder
from assay.models.tokens.tokenization import EncodedPrompt, EncodedText, Refused, empty_generation
from assay.models.training.lm_recipes import TextRecipe, text_recipe
from assay.models.training.recipes import RecipeMaker

Answer = tuple[int, Output | Failure]


def open_causal(args: Mapping[str, Any], settings: ModelSettings) -> CausalModel:
    """Opens a causal model; loads nothing yet.

    Args:
        args: lm-eval's model arguments, see `CausalArguments`.
        settings: device and batch size, which the arguments may override.

    Raises:
        ModelError: for unknown or invalid arguments, and for a folder that is not a model.
    """
    arguments = read_causal_arguments(args)
    requested = arguments.batch_size or str(settings.batch_size)
    limit = read_batch_size(requested)
    folder = hub.local_folder(arguments.pretrained, arguments.subfolder)
    if folder is not None:
        checkpoints.check_folder(folder, arguments)
    if arguments.tokenizer is not None:
        hub.local_folder(arguments.tokenizer)
    return CausalModel(arguments, arguments.device or settings.device, limit, arguments.engine or settings.engine)


class CausalModel(LanguageModel):
    """A transformers causal language model.

    Args:
        arguments: the model arguments.
        device: device to run on; None for the best available.
        limit: rows per batch; None to choose automatically.
        engine: `auto`, `tree` or `padded`.
    """

    def __init__(
        self,
        arguments: CausalArguments,
        device: str | None = None,
        limit: BatchLimit | None = None,
        engine: str = AUTO,
    ) -> None:
        super().__init__(arguments, device, limit)
        self.engine = engine
        self._engine: Engine | None = None
        self._listener: Callable[[Progress], None] = lambda _: None

    @cached_property
    def capabilities(self) -> Capabilities:
        able = checkpoints.capabilities(self.checkpoint, self.arguments)
        return able if able.family == "causal" else replace(able, kinds=frozenset(), learns=frozenset())

    @cached_property
    def _encoder(self) -> Encoder:
        """Encodes requests; needs the tokenizer, not the weights."""
        return make_encoder(Encoder, self.checkpoint, self.arguments)

    def respond(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Scores continuations and whole texts, then generates."""
        if not self.capabilities.kinds:
            yield from ((index, self._refusal()) for index in range(len(requests)))
            return
        job = self._encoder.encode(requests)
        yield from job.answered
        if not job.texts and not job.whole_texts and not job.prompts:
            return
        engine = self._loaded()
        yield from job.collect(engine.score(engine.begin(job, self._listener)))
        if job.prompts:
            yield from engine.generate(job.prompts, self._text_generator(engine))

    def score_tokens(self, rows: Sequence[TokenRow]) -> Iterator[tuple[int, TokenScores | Failure]]:
        """Scores token ids one by one; needs no tokenizer."""
        texts: list[EncodedText] = []
        for index, row in enumerate(rows):
            # A token after the last is predicted where some id is scored; which one does not matter.
            ids, scored = ((*row.ids, 0), row.scored + 1) if row.follows else (row.ids, row.scored)
            text = EncodedText(index, ids, scored)
            if len(text.inputs) > self._encoder.rules.max_length:
                yield index, self._too_long(len(text.inputs))
            elif scored:
                texts.append(text)
            else:
                yield index, TokenScores((), (), (), ())
        if texts:
            engine = self._loaded()
            asked = [rows[text.index] for text in texts]
            vocabulary = int(engine.network.module.config.get_text_config().vocab_size)
            wanted = TopTokens(min(max(row.top for row in asked), vocabulary), any(row.ranked for row in asked))
            for index, scores in engine.score_tokens(texts, wanted):
                yield index, scores if isinstance(scores, Failure) else _requested(rows[index], scores)

    def continue_tokens(
        self, prompts: Sequence[TokenPrompt], on_tokens: Callable[[int, Sequence[int]], None]
    ) -> Iterator[tuple[int, Text | Failure]]:
        """Continues prompts of token ids, which are truncated on the left like those of texts."""
        encoded: list[EncodedPrompt] = []
        for index, prompt in enumerate(prompts):
            most = prompt.request.max_tokens
            limit = self._encoder.max_new_tokens if most is None else most
            found = self._encoder.fit(EncodedPrompt(index, prompt.ids, prompt.request, limit))
            if isinstance(found, Refused):
                yield index, found.failure
            elif not found.max_tokens:
                yield index, empty_generation(found)
            else:
                encoded.append(found)
        if encoded:
            engine = self._loaded()
            yield from engine.generate(encoded, replace(self._text_generator(engine), on_tokens=on_tokens))

    def _text_generator(self, engine: Engine) -> TextGenerator:
        return TextGenerator(engine.network, self._encoder.rules.tokenizer, self.arguments.think_end_token)

    def _too_long(self, count: int) -> Failure:
        message = f"{count} tokens to read, but the model takes {self._encoder.rules.max_length}"
        return Failure("too_long", message, retryable=False)

    def _loaded(self) -> Engine:
        """The engine, loaded and probed on first use."""
        if self._engine is None:
            require_transformers(f'loading "{self.arguments.pretrained}"')
            device, notice = choose_device(self.device)
            free = free_bytes(device)
            network = load_network(self.checkpoint, self.arguments, device)
            self._parameters = network.module.num_parameters()
            choice = self._choose_engine(network)
            release_memory()  # logits of the probe
            for topic, text in (("device", notice), ("bos", missing_bos(self._encoder.rules, network.logits))):
                if text:
                    self._notices[topic] = text
            self._engine = Engine(
                network=network,
                choice=choice,
                rates=flop_rates(network.module),
                arithmetic=self.arguments.arithmetic,
                limit=self.limit,
                on_notice=self._notices.__setitem__,
                room=memory_budget(network.module, free),
            )
        return self._engine

    @property
    def _requested_engine(self) -> str:
        """The engine to try.

        With 8-bit layer inputs, last-bit differences change answers as much as quantisation itself, so `auto` means
        padded batches, which come closest to single forward passes.
        """
        return PADDED if self.engine == AUTO and self.arguments.quantize == INT8_DYNAMIC else self.engine

    def _choose_engine(self, network: Network) -> EngineChoice:
        max_length = self._encoder.rules.max_length
        choice = choose_engine(network, self._requested_engine, self.arguments.arithmetic, max_length)
        if self._requested_engine != self.engine:
            choice = replace(choice, reason=f"{INT8_DYNAMIC} gives other answers in packed sequences")
        if choice.engine == PADDED and self._depends_on_batches:
            max_difference, tokens = padding_noise(network, max_length)
            choice = replace(choice, max_difference=max_difference)
            self._note_batches(
                f", by up to {max_difference * tokens:.2g} nats in {tokens} tokens of the start-up probe"
            )
        return choice

    def _refusal(self) -> Failure:
        name, kind = self.arguments.pretrained, self.capabilities.family
        message = f'"{name}" is an {kind} model; expected a causal language model'
        return Failure("unsupported", message, retryable=False)

    @property
    def _recipe(self) -> RecipeMaker:
        return partial(text_recipe, TextRecipe, self._encoder)

    def workload(self, requests: Sequence[Request]) -> Workload:
        """Forecasts tokens, FLOPs, time and memory of some requests; needs no weights."""
        shares = may_share_prefixes(self._requested_engine, self.arguments.arithmetic)
        return forecast(self._encoder.encode(requests), self.checkpoint, self.arguments, self.device, shares)

    def watch(self, listener: Callable[[Progress], None]) -> None:
        """Sets a listener for progress during `respond`; the first report comes when the weights are loaded."""
        self._listener = listener

    @property
    def meter(self) -> Meter | None:
        """Token and FLOP counts of the last `respond`; None before the first."""
        return None if self._engine is None else self._engine.meter

    def description(self) -> Mapping[str, Any]:
        """Execution report of the last `respond`, for the record; empty before the weights are loaded."""
        return {} if self._engine is None else self._engine.description()

    def close(self) -> None:
        """Releases the weights; the next request loads them again."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def _requested(row: TokenRow, scores: TokenScores) -> TokenScores:
    """The part of a row's scores that it asks for."""
    return TokenScores(
        scores.logprobs[: row.scored],
        scores.ranks[: row.scored] if row.ranked else (),
        [ids[: row.top] for ids in scores.top_ids],
        [logprobs[: row.top] for logprobs in scores.top_logprobs],
    )
