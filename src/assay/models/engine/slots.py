"""Writing in slots: as soon as one answer ends, the next prompt takes its place.

Takes encoded prompts and a reader; gives (place, Text | Failure) as answers end. Prompts are read as a prefix tree;
what all prompts of a family share is remembered once and looked at by all rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from assay.core.responses import Failure
from assay.models.batches import Batching, BatchLimit, attempt
from assay.models.engine import attention
from assay.models.engine.account import Meter, pack_amount
from assay.models.engine.attention import Unsupported
from assay.models.engine.head import ReadyLogits
from assay.models.engine.packs import Pack, cut, spread
from assay.models.engine.picking import Picker
from assay.models.engine.reader import TreeReader, using_attention
from assay.models.engine.steps import Bank, Step
from assay.models.engine.tree import PrefixTree, build_tree
from assay.models.generation import BROKEN, Writer, Written, finish
from assay.models.stops import StopState
from assay.models.tokens import EncodedPrompt, as_texts

if TYPE_CHECKING:
    from torch import Tensor

# Two logits this near may change places by rounding, which depends on what else is in the batch.
CLOSE = 2e-4
# A prefix shorter than this is not worth a family of its own.
FAMILY_PREFIX = 64
FAMILY_SIZE = 4


@dataclass(slots=True)
class Seat:
    """An answer being written.

    Attributes:
        prompt: what is answered.
        picker: picks its tokens.
        stop: tells when it ends.
        written: its ids so far.
    """

    prompt: EncodedPrompt
    picker: Picker
    stop: StopState
    written: list[int] = field(default_factory=list)

    @property
    def position(self) -> int:
        """Where the last token written stands."""
        return len(self.prompt.ids) + len(self.written) - 1

    def ending(self) -> str | None:
        """How the last token written ended the answer; None when it did not."""
        return self.stop.ending(self.written[-self.stop.rule.width :], lambda: self.written)


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt, and what makes a picker of its tokens: a new one each time it is begun."""

    prompt: EncodedPrompt
    picker: Callable[[], Picker]


@dataclass(slots=True)
class SlotWriter:
    """Answers prompts through one reader.

    Attributes:
        reader: reads packs and steps.
        writer: the tokenizer, and what ends an answer.
        batching: most rows at once, and whom to tell when they shrink.
        meter: counts the work.
        slots_for: how many rows fit, from the tokens each keeps for itself and the number of prompts.
        most_tokens: most tokens of a pack.
    """

    reader: TreeReader
    writer: Writer
    batching: Batching
    meter: Meter
    slots_for: Callable[[int, int], int]
    most_tokens: int

    def write(self, tasks: Sequence[Task]) -> Iterator[Written]:
        """The answer to every prompt."""
        with using_attention(self.reader.network):
            for family in families(tasks):
                yield from self._family(family)

    def _family(self, tasks: Sequence[Task]) -> Iterator[Written]:
        """Answers the prompts of a family; starts again with what is left, in fewer slots, when something breaks."""
        left = {task.prompt.index: task for task in tasks}
        broken: list[Task] = []
        slots = self.batching.limit.rows
        while left:
            table = _Table(self, list(left.values()), slots)
            for entry in table.run():
                if isinstance(entry, Failure):
                    break
                index, answer = entry
                task = left.pop(index)
                if answer is BROKEN and len(tasks) > 1:
                    broken.append(task)
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
        for task in broken:
            # Broken numbers of one prompt may have spoilt its neighbours in a pack; alone, each shows its own.
            yield from self._family([task])


class _Table:
    """The slots of one family: reads prompts into free ones and writes a token for each taken one."""

    def __init__(self, owner: SlotWriter, tasks: Sequence[Task], slots: int | None) -> None:
        self._owner = owner
        self._tree = build_tree(as_texts([task.prompt for task in tasks]))
        self._tasks = [tasks[int(place)] for place in self._tree.order]
        self._next = 0  # of the prompts in the order of the tree
        self._row = 0  # of the tree, the first not read yet
        trunk = _trunk(self._tree)
        room = max(len(task.prompt.ids) - trunk + task.prompt.max_tokens for task in tasks)
        fitting = owner.slots_for(room, len(tasks))
        self.slots = min(fitting if slots is None else slots, len(tasks))
        self.under_way = tasks[0].prompt.index
        self._reader = owner.reader
        self._reader.path.clear()
        self._bank = Bank(self._reader.path, trunk, self.slots, room)
        self._seats: list[Seat] = []
        self._state: Tensor | None = None

    def run(self) -> Iterator[Written | Failure]:
        """Answers as they end; a failure ends it all, with `under_way` one of those that were not answered."""
        import torch

        try:
            while self._seats or self._next < len(self._tasks):
                with torch.inference_mode():
                    found = attempt(self._refill if self._has_room() else self._step)
                if isinstance(found, Failure):
                    yield found
                    return
                yield from found
        finally:
            self._reader.path.clear()

    def _has_room(self) -> bool:
        return len(self._seats) < self.slots and self._next < len(self._tasks)

    def _refill(self) -> list[Written]:
        """Reads as many prompts as there are free slots, at most a pack at once; picks their first tokens."""
        free = self.slots - len(self._seats)
        self.under_way = self._tasks[self._next].prompt.index
        if self._row < self._bank.trunk:
            self._read_trunk()
            return []
        last = self._tree.last_rows
        if last[self._next] < self._row:
            return self._seat_twin()
        high = min(int(last[min(self._next + free, len(last)) - 1]) + 1, self._row + self._owner.most_tokens)
        pack = cut(self._tree, self._row, high)
        first = self._next
        seated = [place for place in range(first, min(first + free, len(last))) if last[place] < high]
        slots = range(len(self._seats), len(self._seats) + len(seated))
        rows = np.asarray([last[place] - self._row for place in seated], dtype=np.int64)
        exports = [self._planned(slot, pack, int(row)) for slot, row in zip(slots, rows, strict=True)]
        states = self._reader.read(pack, rows, partial(self._export, exports))
        self._row, self._next = high, first + len(seated)
        self._owner.meter.read(pack_amount(pack.positions, len(rows)))
        if seated and last[seated[-1]] == high - 1:
            self._state = states[-1:]
        return self._begin(seated, states)

    def _planned(self, slot: int, pack: Pack, row: int) -> _Export:
        """What a slot gets of a prompt that ends at a row: that row's own path, itself included."""
        import torch

        piece = next(piece for piece in pack.pieces if piece.start <= row < piece.end)
        rows = torch.from_numpy(spread((*piece.ancestors, (piece.start, row + 1))))
        return _Export(slot, piece.kept, rows.to(self._reader.network.device))

    def _read_trunk(self) -> None:
        high = min(self._bank.trunk, self._row + self._owner.most_tokens)
        pack = cut(self._tree, self._row, high)
        self._reader.read(pack, np.zeros(0, dtype=np.int64))
        self._row = high
        self._owner.meter.read(pack_amount(pack.positions, 0))

    def _seat_twin(self) -> list[Written]:
        """A prompt with the same ids as the one before: the path still leads to its end."""
        assert self._state is not None
        place, slot, path, trunk = self._next, len(self._seats), self._reader.path, self._bank.trunk
        for call in range(self._reader.layers):
            own = (path.keys[call][:, trunk : path.length], path.values[call][:, trunk : path.length])
            self._bank.fill(slot, call, [own])
        self._next += 1
        return self._begin([place], self._state)

    def _export(
        self, exports: Sequence[_Export], call: int, path: tuple[Tensor, Tensor], rows: tuple[Tensor, Tensor]
    ) -> None:
        trunk = self._bank.trunk
        for one in exports:
            before = (path[0][0, :, trunk : one.kept], path[1][0, :, trunk : one.kept])
            own = (rows[0][0].index_select(1, one.rows), rows[1][0].index_select(1, one.rows))
            self._bank.fill(one.slot, call, [before, own])

    def _begin(self, places: Sequence[int], states: Tensor) -> list[Written]:
        fresh = []
        for place in places:
            task = self._tasks[place]
            fresh.append(Seat(task.prompt, task.picker(), StopState(self._owner.writer.rule(task.prompt.request))))
        self._seats.extend(fresh)
        return self._advance(len(self._seats) - len(fresh), states) if fresh else []

    def _step(self) -> list[Written]:
        """One more token for every seat."""
        import torch

        reader, seats = self._reader, self._seats
        self.under_way = seats[0].prompt.index
        device = reader.network.device
        positions = torch.tensor([seat.position for seat in seats], device=device)
        ids = torch.tensor([seat.written[-1] for seat in seats], device=device)
        longest = max(seat.position for seat in seats) + 1 - self._bank.trunk
        self._bank.reserve(longest)
        entry = Step(self._bank, positions, longest, torch.promote_types(reader.network.module.dtype, torch.float32))
        with attention.reading(entry):
            states = reader.forward(ids, positions, torch.arange(len(seats), device=device))
        if entry.calls != reader.layers:
            raise Unsupported(f"attention was called {entry.calls} times for {reader.layers} layers")
        return self._advance(0, states)

    def _advance(self, first: int, states: Tensor) -> list[Written]:
        """Picks a token for the seats from `first` on; takes those out that have ended."""
        seats = self._seats[first:]
        self._owner.meter.write(len(seats))
        done: list[Written] = []
        over: list[int] = []
        for number, (seat, token) in enumerate(zip(seats, self._pick(seats, states), strict=True)):
            if token is None:
                done.append((seat.prompt.index, BROKEN))
                over.append(first + number)
                continue
            seat.written.append(token)
            ending = seat.ending()
            if ending or len(seat.written) >= seat.prompt.max_tokens:
                answer = finish(seat.prompt, seat.written, self._owner.writer, ending == "stop")
                done.append((seat.prompt.index, answer))
                over.append(first + number)
        for place in reversed(over):
            self._leave(place)
        return done

    def _pick(self, seats: Sequence[Seat], states: Tensor) -> list[int | None]:
        """The next token of each seat; None where the logits are broken."""
        import torch

        logits = self._logits(states)
        top = logits.topk(min(2, logits.shape[-1]), dim=-1)
        sound = (torch.isfinite(top.values[:, 0]) & ~logits.isnan().any(dim=-1)).tolist()
        # Of tied tokens argmax takes the first, as `generate` does; topk takes any.
        likeliest: list[int] = logits.argmax(dim=-1).tolist()
        close = (top.values[:, 0] - top.values[:, -1] < self._closeness()).tolist()
        picked: list[int | None] = []
        for number, seat in enumerate(seats):
            if not sound[number]:
                picked.append(None)
            elif seat.picker.is_plain:
                picked.append(self._alone(seat) if close[number] else likeliest[number])
            else:
                picked.append(seat.picker.pick([*seat.prompt.ids, *seat.written], logits[number]))
        return picked

    def _logits(self, states: Tensor) -> Tensor:
        import torch

        head = self._reader.head
        logits = states if isinstance(head, ReadyLogits) else head.block(states, 0, head.columns)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def _closeness(self) -> float:
        """Only wide formats can be told apart: in narrow ones the likeliest tokens are level all the time."""
        import torch

        return CLOSE if torch.finfo(self._reader.network.module.dtype).eps < 1e-6 else -1.0

    def _alone(self, seat: Seat) -> int:
        """The likeliest token by a forward pass of this row alone, which knows no neighbours."""
        ids = [*seat.prompt.ids, *seat.written]
        network = self._reader.network
        with using_attention(network, self._reader.stock):
            return int(network.logits([ids], [len(ids) - 1])[0, 0].argmax())

    def _leave(self, place: int) -> None:
        """Takes a seat out; the last one moves into its slot, so that the taken slots stay together."""
        seat = self._seats[place]
        self._owner.meter.end(len(seat.written), seat.prompt.max_tokens)
        last = self._seats.pop()
        if place < len(self._seats):
            self._bank.move(len(self._seats), place, last.position + 1 - self._bank.trunk)
            self._seats[place] = last


@dataclass(frozen=True, slots=True)
class _Export:
    """Where a prompt's own keys go: its slot, up to where it continues the path, and its rows in the pack."""

    slot: int
    kept: int
    rows: Tensor


def _trunk(tree: PrefixTree) -> int:
    """Tokens that all sequences of a tree share; each keeps at least its last one for itself."""
    first = tree.segments[0]
    shared = min((segment.depth for segment in tree.segments[1:]), default=first.end)
    return max(min(shared, int(tree.last_rows[0])), 0)


def families(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Prompts with a long prefix in common go together; those without family make up one more."""
    if not tasks:
        return
    ordered = sorted(tasks, key=lambda task: task.prompt.ids)
    runs: list[list[Task]] = []
    for task in ordered:
        if runs and task.prompt.ids[:FAMILY_PREFIX] == runs[-1][0].prompt.ids[:FAMILY_PREFIX]:
            runs[-1].append(task)
        else:
            runs.append([task])
    yield from (run for run in runs if len(run) >= FAMILY_SIZE)
    rest = [task for run in runs if len(run) < FAMILY_SIZE for task in run]
    if rest:
        yield rest
