"""The engine of a loaded decoder: scores texts and generates answers with the chosen backend.

In: encoded texts and prompts. Out: answers as they finish; tokens and FLOPs are counted on a meter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

from assay.core.protocols import Progress, TokenScores
from assay.core.responses import Failure, Text
from assay.models.engine import memory
from assay.models.engine.backend_choice import SINGLE, EngineChoice
from assay.models.engine.continuous_batching import QueuedPrompt, SlotGenerator
from assay.models.engine.cpu_layers import LayerPatches, pack_for_decoding, pack_for_scoring, undo_all
from assay.models.engine.flops import ComputeCounts, FlopRates, Meter, tree_counts, unshared_counts
from assay.models.engine.forward import using_attention
from assay.models.engine.generation_probe import check_padding, check_slots
from assay.models.engine.prefix_tree import PrefixTree, build_tree
from assay.models.engine.token_sampling import TokenSampler, make_sampler
from assay.models.engine.token_scoring import TokenTable, TopTokens, score_padded
from assay.models.engine.tree_scoring import LikelihoodTable, Scored, ScoreTable, ScoringGroup, TreeScorer
from assay.models.inference.batching import Batching, BatchLimit, automatic_limit
from assay.models.inference.generation import (
    Generated,
    TextGenerator,
    generate_texts,
    ignore_tokens,
    share_batches,
)
from assay.models.inference.likelihood import score_pairs
from assay.models.loading.hf_arguments import PADDED
from assay.models.loading.network import Network
from assay.models.loading.quantization import rounds_inputs
from assay.models.runtime import release_memory
from assay.models.tokens.encoding import Job
from assay.models.tokens.tokenization import EncodedPrompt, EncodedText, as_texts

Entry = TypeVar("Entry")
# Generation backends; ALONE is also the kind of batch with one row.
SLOTS, ALONE = "slots", "alone"
# Factor by which a pack may exceed its target size.
STRETCH = 1.1


@dataclass(slots=True)
class Engine:
    """A model on its device with its chosen backend.

    Attributes:
        network: the model.
        choice: the backend and the reason for it.
        rates: FLOPs per token, row and attention pair.
        arithmetic: `exact` or `lm_eval`.
        limit: the user's rows per batch; None to choose automatically.
        on_notice: receives notices for the user as (topic, text).
        room: memory budget in bytes beside the weights; None for half of the free memory.
        meter: counts of the current job.
    """

    network: Network
    choice: EngineChoice
    rates: FlopRates
    arithmetic: str = "exact"
    limit: BatchLimit | None = None
    on_notice: Callable[[str, str], None] = lambda topic, text: None
    room: int | None = None
    meter: Meter = field(init=False)
    _limits: dict[str, BatchLimit] = field(default_factory=dict)
    _generation_faults: dict[str, str | None] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _for_decoding: LayerPatches | None = None
    _for_scoring: LayerPatches | None = None

    def __post_init__(self) -> None:
        self.meter = Meter(self.rates)
        if self.room is None:
            self.room = int(memory.SHARE * memory.free_bytes(self.network.device))

    def begin(self, job: Job, listener: Callable[[Progress], None]) -> list[list[ScoringGroup]]:
        """Plans the scoring of a job, starts a new meter with the planned work, and reports it."""
        started = time.perf_counter()
        self.meter = Meter(self.rates, listener)
        scoring_groups = [self._plan(group) for group in job.groups(shares_prefixes=self.choice.reader is not None)]
        for scoring_group in (scoring_group for group in scoring_groups for scoring_group in group):
            self.meter.planned = self.meter.planned + scoring_group.counts
        if job.prompts:
            self.meter.planned = self.meter.planned + self._prompt_counts(job.prompts)
            self.meter.most = sum(prompt.max_tokens for prompt in job.prompts)
        self._pack_if_worthwhile([scoring_group for group in scoring_groups for scoring_group in group])
        self.meter.seconds += time.perf_counter() - started
        self.meter.report_progress()
        return scoring_groups

    def _pack_if_worthwhile(self, scoring_groups: Sequence[ScoringGroup]) -> None:
        if self._for_scoring is None and self.choice.reader is not None:
            self._for_scoring = self._pack_for_scoring(scoring_groups)

    def _pack_for_scoring(self, scoring_groups: Sequence[ScoringGroup]) -> LayerPatches | None:
        """Packs the weights if enough full packs are ahead to make it worthwhile; else None."""
        rows = self._batching("loglikelihood").limit.tokens
        sizes = [len(scoring_group.tree) for scoring_group in scoring_groups if scoring_group.tree is not None]
        if rows is None or sum(size // rows for size in sizes) < memory.WORTH_PACKING:
            return None
        # A pack size that divides the largest tree evenly, so that its last pack is not short.
        even = -(-max(sizes) // max(round(max(sizes) / rows), 1))
        if even <= STRETCH * rows and not self.choice.is_alone(even):
            rows = even
            self._limits["loglikelihood"] = BatchLimit(tokens=rows)
        self._unpack_decoding()
        return pack_for_scoring(self.network.module, rows, self._room())

    def _unpack_decoding(self) -> None:
        """Drops the copy packed for decoding: only one packed copy of the weights is held at a time."""
        if self._for_decoding is not None:
            self._for_decoding.undo()
            self._for_decoding = None
            release_memory()

    def _room(self) -> int:
        """Memory budget in bytes: the initial one, and at most half of the memory that is free now."""
        assert self.room is not None
        return min(self.room, int(memory.SHARE * memory.free_bytes(self.network.device)))

    def _prompt_counts(self, prompts: Sequence[EncodedPrompt]) -> ComputeCounts:
        texts = as_texts(prompts)
        return unshared_counts(texts) if self.choice.reader is None else tree_counts(build_tree(texts))

    def _plan(self, texts: Sequence[EncodedText]) -> list[ScoringGroup]:
        """Prefix trees, or rows for batches; then the texts that run alone."""
        together = [text for text in texts if not self.choice.is_alone(len(text.inputs))]
        alone = [text for text in texts if self.choice.is_alone(len(text.inputs))]
        trees = [] if self.choice.reader is None else self._scorer(LikelihoodTable).plan(together)
        rows = [together, alone] if self.choice.reader is None else [alone]
        return [*trees, *(ScoringGroup(group, None, unshared_counts(group)) for group in rows if group)]

    def score(self, scoring_groups: Iterable[Sequence[ScoringGroup]]) -> Iterator[Scored]:
        """Log-likelihoods of all texts, as batches finish."""
        return self._timed(answer for group in scoring_groups for answer in self._score(group))

    def _score(self, scoring_groups: Sequence[ScoringGroup]) -> Iterator[Scored]:
        trees = [scoring_group for scoring_group in scoring_groups if scoring_group.tree is not None]
        if trees:
            yield from self._by_tree(trees)
        for scoring_group in scoring_groups:
            if scoring_group.tree is None:
                is_alone = self.choice.is_alone(len(scoring_group.texts[0].inputs))
                yield from self._by_batches(scoring_group.texts, ALONE if is_alone else "loglikelihood")

    def score_tokens(
        self, texts: Sequence[EncodedText], wanted: TopTokens
    ) -> Iterator[tuple[int, TokenScores | Failure]]:
        """Scores of the single tokens of all texts.

        Independent of `begin`; always in exact arithmetic.
        """
        scoring_groups = self._plan(texts)
        self._pack_if_worthwhile(scoring_groups)
        trees = [scoring_group for scoring_group in scoring_groups if scoring_group.tree is not None]
        if trees:
            with using_attention(self.network):
                yield from self._scorer(partial(TokenTable, wanted=wanted)).score(trees)
        for scoring_group in scoring_groups:
            if scoring_group.tree is None:
                is_alone = self.choice.is_alone(len(scoring_group.texts[0].inputs))
                batching = self._batching(ALONE if is_alone else "loglikelihood")
                yield from score_padded(scoring_group.texts, self.network, batching, wanted)

    def generate(self, prompts: Sequence[EncodedPrompt], text_generator: TextGenerator) -> Iterator[Generated]:
        """Generates an answer for every prompt."""
        return self._timed(self._generate(prompts, text_generator))

    def close(self) -> None:
        """Undoes the layer patches, so that the model's memory can be freed."""
        undo_all(self.network.module)

    def description(self) -> dict[str, Any]:
        """Execution report of the job, for the record."""
        meter, choice = self.meter, self.choice
        return {
            "engine": choice.engine,
            "why": choice.reason,
            "probe_difference": choice.max_difference,
            "alone_from": None if choice.limit is None else choice.limit.tokens + 1,
            "writing": self._generation_description(),
            "compiled_loops": choice.reader is not None and choice.reader.c_kernels is not None,
            "forwarded_tokens": meter.done.tokens,
            "written_tokens": meter.generated,
            "engine_seconds": meter.seconds,
            "peak_memory_bytes": memory.peak_bytes(self.network.device),
            "device": str(self.network.device),
            "dtype": str(self.network.module.dtype).removeprefix("torch."),
        }

    def _by_tree(self, scoring_groups: Sequence[ScoringGroup]) -> Iterator[Scored]:
        with using_attention(self.network):
            yield from self._scorer(partial(LikelihoodTable, arithmetic=self.arithmetic)).score(scoring_groups)

    def _scorer(self, table: Callable[[PrefixTree], ScoreTable[Entry]]) -> TreeScorer[Entry]:
        assert self.choice.reader is not None
        batching, limit = self._batching("loglikelihood"), self.choice.limit
        most = memory.CPU_PACK if limit is None else min(memory.CPU_PACK, limit.tokens)
        return TreeScorer(self.choice.reader, table, batching, self.meter.read, most)

    def _by_batches(self, texts: Sequence[EncodedText], kind: str) -> Iterator[Scored]:
        # By number: windows of one text share an index.
        numbered = [replace(text, index=number) for number, text in enumerate(texts)]
        for number, answer in score_pairs(numbered, self.network.logits, self._batching(kind), self.arithmetic):
            self.meter.read(unshared_counts([numbered[number]]))
            yield texts[number].index, answer

    def _generate(self, prompts: Sequence[EncodedPrompt], text_generator: TextGenerator) -> Iterator[Generated]:
        """Continuous batching if the model and the sampling settings allow it; else transformers' `generate`."""
        alone = [prompt for prompt in prompts if self._is_alone(prompt)]
        others = [prompt for prompt in prompts if not self._is_alone(prompt)]
        queue = self._queue(others)
        if queue and self._may_generate(SLOTS, text_generator):
            self._used.add(SLOTS)
            admitted = {queued.prompt.index for queued in queue}
            others = [prompt for prompt in others if prompt.index not in admitted]
            yield from self._slots(text_generator).generate(queue)
        if not self._share_a_batch(others, text_generator) or not self._may_generate(PADDED, text_generator):
            alone, others = [*alone, *others], []
        yield from self._generate_padded(others, text_generator, "generate")
        yield from self._generate_padded(alone, text_generator, ALONE)

    def _queue(self, prompts: Sequence[EncodedPrompt]) -> list[QueuedPrompt]:
        """The prompts whose sampling settings continuous batching supports; none without a packed reader."""
        if self.choice.reader is None:
            return []
        settings = (self.network.module.generation_config, self.network.device)
        samplers = ((prompt, partial(make_sampler, prompt, *settings)) for prompt in prompts)
        return [
            QueuedPrompt(prompt, cast("Callable[[], TokenSampler]", make))
            for prompt, make in samplers
            if make() is not None
        ]

    def _share_a_batch(self, prompts: Sequence[EncodedPrompt], text_generator: TextGenerator) -> bool:
        """Whether `generate` would batch some of these prompts."""
        return self._batching("generate").limit.rows != 1 and share_batches(prompts, text_generator)

    def _generate_padded(
        self, prompts: Sequence[EncodedPrompt], text_generator: TextGenerator, kind: str
    ) -> Iterator[Generated]:
        known = {prompt.index: prompt for prompt in prompts}
        if known:
            self._used.add(ALONE if kind == ALONE else PADDED)
        for index, answer in generate_texts(prompts, text_generator, self._batching(kind)):
            self.meter.read(unshared_counts(as_texts([known[index]])))
            if isinstance(answer, Text):
                self.meter.write(answer.token_count)
                self.meter.end(answer.token_count, known[index].max_tokens)
            yield index, answer

    def _is_alone(self, prompt: EncodedPrompt) -> bool:
        """Whether an answer may exceed a length at which the model treats the whole batch differently."""
        threshold = None if self.choice.reader is None else self.choice.reader.length_threshold
        length = len(prompt.ids) + prompt.max_tokens
        return self.choice.is_alone(length) or (threshold is not None and length > threshold)

    def _may_generate(self, way: str, text_generator: TextGenerator) -> bool:
        """Whether a generation backend is usable; probed on first use, with a notice if not."""
        if way not in self._generation_faults:
            longest = self.choice.longest
            text_generator = replace(text_generator, on_tokens=ignore_tokens)  # the probe's answers are nobody's
            if way == SLOTS:
                found = check_slots(replace(self._slots(text_generator), meter=Meter(self.rates)), longest)
            else:
                found = None if rounds_inputs(self.network.module) else check_padding(text_generator, longest)
            self._generation_faults[way] = found
            if found is not None:
                instead = "in padded batches" if way == SLOTS else "one by one"
                self.on_notice(f"writing {way}", f"generates {instead} because {found}")
        return self._generation_faults[way] is None

    def _generation_description(self) -> str | None:
        """Which generation backends were used, and why not others; None before any generation."""
        refused = "; ".join(reason for reason in self._generation_faults.values() if reason is not None)
        names = {SLOTS: "slots", PADDED: "padded", ALONE: "one by one"}
        ways = " and ".join(name for way, name in names.items() if way in self._used)
        return f"{ways} because {refused}" if ways and refused else ways or None

    def _slots(self, text_generator: TextGenerator) -> SlotGenerator:
        assert self.choice.reader is not None
        module, room = self.network.module, self._room()
        if self._for_decoding is None:
            if self._for_scoring is not None:
                self._for_scoring.undo()
                self._for_scoring = None
                release_memory()
            self._for_decoding = pack_for_decoding(module, room)
        return SlotGenerator(
            self.choice.reader,
            text_generator,
            self._batching("generation"),
            self.meter,
            lambda length, count: memory.slots_for(module, length, count, room),
            self._pack_tokens(),
        )

    def _pack_tokens(self) -> int:
        """Number of tokens in a pack: what fits, within the model's length limit."""
        most = memory.pack_tokens(self.network.module, self.network.device, self._room())
        return most if self.choice.limit is None else min(most, self.choice.limit.tokens)

    def _timed(self, answers: Iterable[Entry]) -> Iterator[Entry]:
        """Measures the time spent producing answers, without the time of their consumer."""
        started = time.perf_counter()
        for answer in answers:
            self.meter.seconds += time.perf_counter() - started
            yield answer
            started = time.perf_counter()
        self.meter.seconds += time.perf_counter() - started

    def _batching(self, kind: str) -> Batching:
        """The batch limit of a request kind, reduced by past out-of-memory errors."""
        if kind not in self._limits:
            self._limits[kind] = self._first_limit(kind)

        def remember(limit: BatchLimit) -> None:
            self._limits[kind] = limit
            self.on_notice(f"memory {kind}", f"memory ran out; {kind} batches were reduced to {limit}")

        return Batching(self._limits[kind], remember)

    def _first_limit(self, kind: str) -> BatchLimit:
        if self.choice.engine == SINGLE or kind == ALONE:
            return BatchLimit(rows=1)
        if self.limit is not None:
            return self.limit
        if self.choice.reader is None or kind == "generate":
            return automatic_limit(self.network, kind != "loglikelihood")
        if kind == "generation":
            return BatchLimit()  # as many rows as fit
        return BatchLimit(tokens=self._pack_tokens())
