"""Continuous batching: generation in slots; when one answer ends, the next prompt takes its slot.

In: encoded prompts and a reader. Out: (index, Text | Failure) as answers end. Prompts are prefilled as a prefix
tree; the common prefix of a group is cached once and attended to by all rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from assay.core.responses import Failure
from assay.models.engine import attention
from assay.models.engine.attention import Unsupported
from assay.models.engine.decode_step import DecodeStep, SlotCache
from assay.models.engine.flops import Meter, pack_counts
from assay.models.engine.forward import TreeReader, using_attention
from assay.models.engine.packs import Pack, concat_ranges, make_pack
from assay.models.engine.prefix_tree import PrefixTree, build_tree
from assay.models.engine.token_sampling import TokenSampler
from assay.models.engine.vocabulary_head import PrecomputedLogits
from assay.models.inference.batching import Batching, BatchLimit, attempt
from assay.models.inference.generation import BROKEN, Generated, TextGenerator, finish
from assay.models.inference.stop_criteria import StopState
from assay.models.tokens.tokenization import EncodedPrompt, as_texts

if TYPE_CHECKING:
    from torch import Tensor

# Logits closer than this may swap order by rounding, which depends on the batch.
CLOSE = 2e-4
# Minimum prefix length and size of a prefix group.
GROUP_PREFIX = 64
GROUP_SIZE = 4


@dataclass(slots=True)
class ActiveSequence:
    """An answer being generated.

    Attributes:
        prompt: its prompt.
        sampler: samples its tokens.
        stop: detects its end.
        generated: ids generated so far.
    """

    prompt: EncodedPrompt
    sampler: TokenSampler
    stop: StopState
    generated: list[int] = field(default_factory=list)

    @property
    def position(self) -> int:
        """Position of the last generated token."""
        return len(self.prompt.ids) + len(self.generated) - 1

    def ending(self) -> str | None:
        """The finish reason if the last token ended the answer; else None."""
        return self.stop.ending(self.generated[-self.stop.rule.width :], lambda: self.generated)


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """A prompt, and a function that creates its sampler each time generation starts."""

    prompt: EncodedPrompt
    sampler: Callable[[], TokenSampler]


@dataclass(slots=True)
class SlotGenerator:
    """Generates answers through one reader.

    Attributes:
        reader: runs packed forward passes and decode steps.
        text_generator: the tokenizer and stop rules.
        batching: maximum number of rows, and a callback for when it shrinks.
        meter: counts tokens and FLOPs.
        slots_for: number of slots that fit, from the tokens per slot and the number of prompts.
        most_tokens: maximum number of tokens in a pack.
    """

    reader: TreeReader
    text_generator: TextGenerator
    batching: Batching
    meter: Meter
    slots_for: Callable[[int, int], int]
    most_tokens: int

    def generate(self, queue: Sequence[QueuedPrompt]) -> Iterator[Generated]:
        """Generates an answer for every prompt."""
        with using_attention(self.reader.network):
            for group in prefix_groups(queue):
                yield from self._prefix_group(group)

    def _prefix_group(self, queue: Sequence[QueuedPrompt]) -> Iterator[Generated]:
        """Answers the prompts of a group; on an error, restarts the remaining prompts with fewer slots."""
        left = {queued.prompt.index: queued for queued in queue}
        broken: list[QueuedPrompt] = []
        slots = self.batching.limit.rows
        while left:
            table = _SlotTable(self, list(left.values()), slots)
            for entry in table.run():
                if isinstance(entry, Failure):
                    break
                index, answer = entry
                queued = left.pop(index)
                if answer is BROKEN and len(queue) > 1:
                    broken.append(queued)
                else:
                    yield entry
            else:
                break
            failure: Failure = entry
            if table.slots > 1:
                slots = table.slots // 2
                if failure.kind == "out_of_memory":
                    self.batching.on_shrink(BatchLimit(rows=slots))
            else:
                yield left.pop(table.under_way).prompt.index, failure
        for queued in broken:
            # NaN logits of one prompt may have affected others in its pack; alone, each shows its own.
            yield from self._prefix_group([queued])


class _SlotTable:
    """The slots of one prefix group: prefills prompts into free slots and decodes a token for each occupied one."""

    def __init__(self, owner: SlotGenerator, queue: Sequence[QueuedPrompt], slots: int | None) -> None:
        self._owner = owner
        self._tree = build_tree(as_texts([queued.prompt for queued in queue]))
        self._queue = [queue[int(index)] for index in self._tree.order]
        self._next = 0  # next prompt, in the order of the tree
        self._row = 0  # first row of the tree that is not computed yet
        prefix = _common_prefix(self._tree)
        room = max(len(queued.prompt.ids) - prefix + queued.prompt.max_tokens for queued in queue)
        fitting = owner.slots_for(room, len(queue))
        self.slots = min(fitting if slots is None else slots, len(queue))
        self.under_way = queue[0].prompt.index
        self._reader = owner.reader
        self._reader.path.clear()
        self._cache = SlotCache(self._reader.path, prefix, self.slots, room)
        self._sequences: list[ActiveSequence] = []
        self._state: Tensor | None = None

    def run(self) -> Iterator[Generated | Failure]:
        """Answers as they end; a failure ends the iteration, with `under_way` one of the unanswered prompts."""
        import torch

        try:
            while self._sequences or self._next < len(self._queue):
                with torch.inference_mode():
                    found = attempt(self._refill if self._has_room() else self._step)
                if isinstance(found, Failure):
                    yield found
                    return
                yield from found
        finally:
            self._reader.path.clear()

    def _has_room(self) -> bool:
        return len(self._sequences) < self.slots and self._next < len(self._queue)

    def _refill(self) -> list[Generated]:
        """Prefills prompts for the free slots, at most one pack at a time, and samples their first tokens."""
        free = self.slots - len(self._sequences)
        self.under_way = self._queue[self._next].prompt.index
        if self._row < self._cache.prefix:
            self._read_prefix()
            return []
        last = self._tree.last_rows
        if last[self._next] < self._row:
            return self._admit_duplicate()
        high = min(int(last[min(self._next + free, len(last)) - 1]) + 1, self._row + self._owner.most_tokens)
        pack = make_pack(self._tree, self._row, high)
        first = self._next
        admitted = [index for index in range(first, min(first + free, len(last))) if last[index] < high]
        slots = range(len(self._sequences), len(self._sequences) + len(admitted))
        rows = np.asarray([last[index] - self._row for index in admitted], dtype=np.int64)
        exports = [self._planned(slot, pack, int(row)) for slot, row in zip(slots, rows, strict=True)]
        states = self._reader.read(pack, rows, partial(self._export, exports))
        self._row, self._next = high, first + len(admitted)
        self._owner.meter.read(pack_counts(pack.positions, len(rows)))
        if admitted and last[admitted[-1]] == high - 1:
            self._state = states[-1:]
        return self._begin(admitted, states)

    def _planned(self, slot: int, pack: Pack, row: int) -> _Export:
        """The rows whose keys and values a slot receives: the path of a prompt that ends at `row`, inclusive."""
        import torch

        piece = next(piece for piece in pack.pieces if piece.start <= row < piece.end)
        rows = torch.from_numpy(concat_ranges((*piece.ancestors, (piece.start, row + 1))))
        return _Export(slot, piece.cached, rows.to(self._reader.network.device))

    def _read_prefix(self) -> None:
        high = min(self._cache.prefix, self._row + self._owner.most_tokens)
        pack = make_pack(self._tree, self._row, high)
        self._reader.read(pack, np.zeros(0, dtype=np.int64))
        self._row = high
        self._owner.meter.read(pack_counts(pack.positions, 0))

    def _admit_duplicate(self) -> list[Generated]:
        """Admits a prompt with the same ids as the previous one: the path still ends there."""
        assert self._state is not None
        index, slot, path, prefix = self._next, len(self._sequences), self._reader.path, self._cache.prefix
        for call in range(self._reader.layers):
            own = (path.keys[call][:, prefix : path.length], path.values[call][:, prefix : path.length])
            self._cache.fill(slot, call, [own])
        self._next += 1
        return self._begin([index], self._state)

    def _export(
        self, exports: Sequence[_Export], call: int, path: tuple[Tensor, Tensor], rows: tuple[Tensor, Tensor]
    ) -> None:
        prefix = self._cache.prefix
        for one in exports:
            before = (path[0][0, :, prefix : one.cached], path[1][0, :, prefix : one.cached])
            own = (rows[0][0].index_select(1, one.rows), rows[1][0].index_select(1, one.rows))
            self._cache.fill(one.slot, call, [before, own])

    def _begin(self, indices: Sequence[int], states: Tensor) -> list[Generated]:
        fresh = []
        for index in indices:
            queued = self._queue[index]
            fresh.append(
                ActiveSequence(
                    queued.prompt, queued.sampler(), StopState(self._owner.text_generator.rule(queued.prompt.request))
                )
            )
        self._sequences.extend(fresh)
        return self._advance(len(self._sequences) - len(fresh), states) if fresh else []

    def _step(self) -> list[Generated]:
        """Decodes one token for every occupied slot."""
        import torch

        reader, sequences = self._reader, self._sequences
        self.under_way = sequences[0].prompt.index
        device = reader.network.device
        positions = torch.tensor([sequence.position for sequence in sequences], device=device)
        ids = torch.tensor([sequence.generated[-1] for sequence in sequences], device=device)
        longest = max(sequence.position for sequence in sequences) + 1 - self._cache.prefix
        self._cache.reserve(longest)
        dtype = torch.promote_types(reader.network.module.dtype, torch.float32)
        entry = DecodeStep(self._cache, positions, self._cache.width(longest), dtype)
        with attention.answering_attention(entry):
            states = reader.forward(ids, positions, torch.arange(len(sequences), device=device))
        if entry.calls != reader.layers:
            raise Unsupported(f"attention was called {entry.calls} times for {reader.layers} layers")
        return self._advance(0, states)

    def _advance(self, first: int, states: Tensor) -> list[Generated]:
        """Samples a token for the slots from `first` on; removes those that have ended."""
        sequences = self._sequences[first:]
        self._owner.meter.write(len(sequences))
        done: list[Generated] = []
        over: list[int] = []
        for number, (sequence, token) in enumerate(zip(sequences, self._sample(sequences, states), strict=True)):
            if token is None:
                done.append((sequence.prompt.index, BROKEN))
                over.append(first + number)
                continue
            sequence.generated.append(token)
            ending = sequence.ending()
            if ending or len(sequence.generated) >= sequence.prompt.max_tokens:
                answer = finish(sequence.prompt, sequence.generated, self._owner.text_generator, ending == "stop")
                done.append((sequence.prompt.index, answer))
                over.append(first + number)
            else:
                self._owner.text_generator.on_tokens(sequence.prompt.index, sequence.generated)
        for index in reversed(over):
            self._leave(index)
        return done

    def _sample(self, sequences: Sequence[ActiveSequence], states: Tensor) -> list[int | None]:
        """The next token of each sequence; None if its logits are not finite."""
        import torch

        logits = self._logits(states)
        top = logits.topk(min(2, logits.shape[-1]), dim=-1)
        sound = (torch.isfinite(top.values[:, 0]) & ~logits.isnan().any(dim=-1)).tolist()
        # argmax returns the first of tied tokens, as `generate` does; topk any of them.
        likeliest: list[int] = logits.argmax(dim=-1).tolist()
        close = (top.values[:, 0] - top.values[:, -1] < self._closeness()).tolist()
        sampled: list[int | None] = []
        for number, sequence in enumerate(sequences):
            if not sound[number]:
                sampled.append(None)
            elif sequence.sampler.is_plain:
                sampled.append(self._alone(sequence) if close[number] else likeliest[number])
            else:
                sampled.append(sequence.sampler.sample([*sequence.prompt.ids, *sequence.generated], logits[number]))
        return sampled

    def _logits(self, states: Tensor) -> Tensor:
        import torch

        head = self._reader.head
        logits = states if isinstance(head, PrecomputedLogits) else head.block(states, 0, head.columns)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def _closeness(self) -> float:
        """The threshold for near-ties; disabled for 16-bit types, where ties are common."""
        import torch

        return CLOSE if torch.finfo(self._reader.network.module.dtype).eps < 1e-6 else -1.0

    def _alone(self, sequence: ActiveSequence) -> int:
        """The argmax of a forward pass of this row alone, independent of the batch."""
        ids = [*sequence.prompt.ids, *sequence.generated]
        network = self._reader.network
        with using_attention(network, self._reader.stock):
            return int(network.logits([ids], [len(ids) - 1])[0, 0].argmax())

    def _leave(self, index: int) -> None:
        """Removes a sequence; the last one moves into its slot, so that occupied slots stay contiguous."""
        sequence = self._sequences[index]
        self._owner.meter.end(len(sequence.generated), sequence.prompt.max_tokens)
        last = self._sequences.pop()
        if index < len(self._sequences):
            self._cache.move(len(self._sequences), index, last.position + 1 - self._cache.prefix)
            self._sequences[index] = last


@dataclass(frozen=True, slots=True)
class _Export:
    """Source and destination of a prompt's keys: its slot, the cached tokens it continues, and its rows in the pack."""

    slot: int
    cached: int
    rows: Tensor


def _common_prefix(tree: PrefixTree) -> int:
    """Length of the prefix shared by all sequences of a tree; at least the last token of each is excluded."""
    first = tree.segments[0]
    shared = min((segment.depth for segment in tree.segments[1:]), default=first.end)
    return max(min(shared, int(tree.last_rows[0])), 0)


def prefix_groups(queue: Sequence[QueuedPrompt]) -> Iterator[list[QueuedPrompt]]:
    """Groups prompts by a long common prefix; the remaining prompts form one more group."""
    if not queue:
        return
    ordered = sorted(queue, key=lambda queued: queued.prompt.ids)
    runs: list[list[QueuedPrompt]] = []
    for queued in ordered:
        if runs and queued.prompt.ids[:GROUP_PREFIX] == runs[-1][0].prompt.ids[:GROUP_PREFIX]:
            runs[-1].append(queued)
        else:
            runs.append([queued])
    yield from (run for run in runs if len(run) >= GROUP_SIZE)
    rest = [queued for run in runs if len(run) < GROUP_SIZE for queued in run]
    if rest:
        yield rest
