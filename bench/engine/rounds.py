"""The rounds of one workload: ours, lm-eval, ours, lm-eval, …, so that a slow phase of the machine affects both.

In: a built workload and two workers. Out: every timing, with what was left out and why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from assay.core.errors import AssayError
from bench.engine.agreement import Agreement, compare
from bench.engine.processes import ForeignLoad, Worker
from bench.engine.shape import Shape
from bench.engine.tree import Least
from bench.engine.workloads import BuiltWorkload

# Rough rates of lm-eval on two cores. They decide only whether each batch size is run in full or on a sample first.
TOKENS_PER_SECOND, SECONDS_PER_TEXT = 400, 7
# What lm-eval's "auto" forwards before it answers: this many times this many rows of the longest input.
DETECTION_PASSES, DETECTION_ROWS = 5, 64
SAMPLE_INPUTS = 8
MEMORY_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Plan:
    """How many rounds, and what lm-eval may skip.

    Attributes:
        repeats: rounds.
        batches: lm-eval's batch sizes.
        budget_seconds: a workload's time for lm-eval; once it is spent, only ours is repeated.
        documents: how many documents lm-eval answers; its time is then extrapolated. None for all.
        runs_auto: whether "auto" runs even if it cannot be the best.
    """

    repeats: int
    batches: tuple[str, ...]
    budget_seconds: float
    documents: int | None = None
    runs_auto: bool = False


@dataclass(frozen=True, slots=True)
class Timing:
    """One run of one worker."""

    seconds: float
    whole_seconds: float
    tokens: int
    foreign: float
    answer: dict[str, Any]


@dataclass(slots=True)
class Measured:
    """All timings of a workload, filled round by round.

    Attributes:
        ours: one timing a round.
        theirs: batch size → number of the round → timing.
        best: lm-eval's fastest batch size in the first round.
        scale: all tokens by those that lm-eval had to read; more than 1 means that its seconds are extrapolated.
        agreement: of the first round's answers.
        notes: notes below the table.
    """

    built: BuiltWorkload
    least: Least
    ours: list[Timing] = field(default_factory=list)
    theirs: dict[str, dict[int, Timing]] = field(default_factory=dict)
    best: str | None = None
    scale: float = 1.0
    agreement: Agreement | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def reference(self) -> list[Timing]:
        """lm-eval's runs at its best batch size."""
        return list(self.theirs[self.best].values()) if self.best else []

    def ratios(self) -> list[float]:
        """lm-eval's seconds by ours, round by round; a round without lm-eval takes its median."""
        if not self.best:
            return []
        runs = self.theirs[self.best]
        usual = median(run.seconds for run in runs.values())
        return [
            self.scale * (runs[number].seconds if number in runs else usual) / one.seconds
            for number, one in enumerate(self.ours)
        ]


def timed(worker: Worker, built: BuiltWorkload, **settings: Any) -> Timing:
    """One run, with the load by other processes during it."""
    load = ForeignLoad(worker)
    answer = worker.ask("run", file=str(built.file), **settings)
    return Timing(answer["seconds"], answer["whole_seconds"], answer["tokens"], load.read(), answer)


def measure(built: BuiltWorkload, plan: Plan, shape: Shape, ours: Worker, reference: Worker | None) -> Measured:
    """All rounds of a workload, and whether the answers agree."""
    found = Measured(built, Least(**ours.ask("least", file=str(built.file))))
    ours.ask("run", file=str(built.file), documents=1)
    if reference and plan.documents is not None:
        part = Least(**ours.ask("least", file=str(built.file), documents=plan.documents))
        found.scale = found.least.plain / part.plain
    theirs = Theirs(reference, plan, shape, found) if reference else None
    if theirs:
        theirs.warm_up()
    for number in range(plan.repeats):
        found.ours.append(timed(ours, built))
        if theirs:
            theirs.take_turn(number)
    found.notes += _changes(found)
    if theirs:
        _check(found, ours)
    return found


class Theirs:
    """lm-eval's rounds in a workload: which batch sizes, and how long its budget lasts."""

    def __init__(self, worker: Worker, plan: Plan, shape: Shape, found: Measured) -> None:
        self._worker, self._plan, self._shape, self._found = worker, plan, shape, found
        self._spent = 0.0
        self._batches = [batch for batch in plan.batches if batch != "auto" and self._fits(batch)]

    def warm_up(self) -> None:
        """A first document; or, if full runs at every batch size would take too long, a sample to choose by."""
        least, built = self._found.least, self._found.built
        texts = built.requests if built.kind == "generation" else 0
        forecast = (least.plain / TOKENS_PER_SECOND + texts * SECONDS_PER_TEXT) / self._found.scale
        if len(self._batches) < 2 or forecast * len(self._batches) <= self._plan.budget_seconds:
            self._run(self._batches[0] if self._batches else "auto", 1)
            return
        documents = math.ceil(SAMPLE_INPUTS * built.documents / least.inputs)
        seconds = {batch: self._run(batch, documents).seconds for batch in self._batches}
        best = min(seconds, key=seconds.__getitem__)
        shown = ", ".join(f"{batch}: {value:.1f} s" for batch, value in seconds.items())
        self._found.notes.append(
            f"lm-eval's batch size chosen on the first {documents} of {built.documents} documents ({shown})"
        )
        self._batches = [best]

    def take_turn(self, number: int) -> None:
        """The first round tries every batch size, later ones the best."""
        if number == 0:
            for batch in self._batches:
                self._record(batch, number)
            if "auto" in self._plan.batches and self._may_run_auto():
                self._record("auto", number)
            runs = {batch: runs[0].seconds for batch, runs in self._found.theirs.items()}
            if not runs:
                raise AssayError(f"{self._found.built.workload.name}: no batch size of lm-eval could run")
            self._found.best = min(runs, key=runs.__getitem__)
            return
        best = self._found.best
        assert best is not None, "the first round has chosen"
        if self._spent + self._found.theirs[best][0].whole_seconds <= self._plan.budget_seconds:
            self._record(best, number)

    def _record(self, batch: str, number: int) -> None:
        timing = self._run(batch, self._plan.documents)
        self._spent += timing.whole_seconds
        self._found.theirs.setdefault(batch, {})[number] = timing

    def _run(self, batch: str, documents: int | None) -> Timing:
        return timed(self._worker, self._found.built, batch=batch, documents=documents)

    def _fits(self, batch: str) -> bool:
        """lm-eval keeps the logits of all positions, and also their softmax."""
        rows = min(int(batch), self._found.least.inputs)
        needed = 2 * 4 * rows * self._found.least.longest * self._shape.vocabulary
        return self._has_memory(needed, f"batch {batch}")

    def _has_memory(self, needed: int, what: str) -> bool:
        if needed <= MEMORY_SHARE * available_bytes():
            return True
        self._found.notes.append(f"lm-eval's {what} not run: its logits would take {needed / 1e9:.0f} GB")
        return False

    def _may_run_auto(self) -> bool:
        """Finding a batch size is so expensive on a CPU that "auto" makes no sense for few documents."""
        found = self._found
        longest = found.least.longest if found.built.kind == "loglikelihood" else self._shape.most
        tokens = DETECTION_PASSES * DETECTION_ROWS * longest
        if not self._has_memory(2 * 4 * DETECTION_ROWS * longest * self._shape.vocabulary, "batch auto"):
            return False
        best = min((runs[0] for runs in found.theirs.values()), key=lambda run: run.seconds, default=None)
        if best is None or self._plan.runs_auto or tokens < best.tokens:
            return True
        found.notes.append(
            f"lm-eval's batch auto not run: finding its size forwards {tokens:,} tokens, the whole run {best.tokens:,}"
        )
        return False


def available_bytes() -> int:
    """Memory that is free for a new process."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise AssayError("/proc/meminfo has no MemAvailable")


def _check(found: Measured, worker: Worker) -> None:
    """Compares answers, and the minimum work by both tools' own ids.

    Log-likelihoods are compared in lm-eval's arithmetic: its log-softmax alone is off by up to the tolerance.
    """
    reference = found.reference[0].answer
    with found.built.file.open(encoding="utf-8") as lines:
        documents = [json.loads(line)["document"] for line in lines]
    exact = compare(documents, found.ours[0].answer["answers"], reference["answers"])
    found.agreement = exact
    if exact.worst is not None:
        found.notes.append(f"exact log-likelihoods are {exact.worst:.1e} a token from lm-eval's at most")
        alike = worker.ask("alike", file=str(found.built.file))
        found.agreement = compare(documents, alike["answers"], reference["answers"])
    theirs = reference["least"]
    if theirs is not None and found.scale == 1.0 and Least(**theirs) != found.least:
        found.notes.append(f"the two tools read different ids: {found.least} by ours, {Least(**theirs)} by lm-eval's")


def _changes(found: Measured) -> Iterator[str]:
    """What our own rounds disagree about."""
    first = found.ours[0].answer["answers"]
    for number, other in enumerate(found.ours[1:], 2):
        pairs = list(zip(first, other.answer["answers"], strict=True))
        apart = max((abs(one["total"] - two["total"]) for one, two in pairs if "total" in one), default=0.0)
        texts = sum(one.get("text") != two.get("text") for one, two in pairs)
        if apart or texts:
            yield f"round {number} of ours differs from round 1: totals by up to {apart:.1e}, {texts} texts"
    for notice in found.ours[-1].answer["notices"]:
        yield f"ours says: {notice}"
    last = found.ours[-1].answer
    if last["embedded"] and last["embedded"] != last["tokens"]:
        yield f"ours accounts for {last['tokens']:,} tokens; its embedding was given {last['embedded']:,}"
