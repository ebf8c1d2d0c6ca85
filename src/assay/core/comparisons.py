"""Runs compared on the same documents, as values: what a run keeps of each, what is wanted, what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

from assay.core.call_checks import checked_dataclass
from assay.core.scores import Estimate
from assay.core.tabular import Row, Tabular

# What a document brings to a metric: a number, two (a sum and its weight; the right label and the picked one), or three
# (confidence, hit, the share of documents to answer).
Label = Union[float, str]
Value = Union[float, tuple[Label, Label], tuple[float, float, float]]

# What may differ between two runs, besides the metrics' values.
MODEL, SHOTS, STYLE, PROMPTS, SCORING, VERSION = "model", "shots", "style", "prompts", "scoring", "version"
AXES = (MODEL, SHOTS, STYLE, PROMPTS, SCORING, VERSION)
TESTS = ("exact", "midp", "permutation", "bootstrap")
CORRECTIONS = ("holm", "bh")
# Levels of intervals are numbers below 1, which a float has none of within 1e-16.
MIN_ALPHA = 1e-9
# A gate lets through runs of whose documents no larger share lacks a value.
MAX_MISSING_SHARE = 0.01
# An aggregation that is a function of the task's own.
CUSTOM = "custom"
# That of answers which are recorded and not scored.
BYPASS = "bypass"
ALL = "all"
ALL_FLIPS = -1


@dataclass(frozen=True, slots=True)
class DocumentValues:
    """The value of every scored document of a task, under one metric and pipeline.

    Attributes:
        aggregation: how the values become one number, by name; `custom` for a function of the task's own.
        documents: places in the evaluated split.
        values: one per document; NaN where the metric has none.
        clusters: the cluster of each document; None where none are known.
    """

    task: str
    metric: str
    filter: str
    aggregation: str
    documents: Sequence[int]
    values: Sequence[Value]
    clusters: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What to compare, and how.

    Attributes:
        tasks: only these; all that the runs share when empty.
        metrics: names, or `name,filter`; the first that a task reports when empty; `all` for every one.
        baseline: the run that all others are compared with; None for every two runs.
        margin: largest difference that does not matter, in the metric's own unit (0.02 is 2 points).
        alpha: level of the tests after correction, and of the margin's; intervals follow it.
        correction: `holm` or `bh` (Benjamini and Hochberg).
        test: `exact`, `midp`, `permutation` or `bootstrap`; None for the one that fits the values.
        detect: the difference for which the number of documents needed is given beside that of the observed one.
        across: what may differ between the runs, see `AXES`.
        force: whether to compare what is not comparable.
        flips: how many documents to list that are better in one run; `ALL_FLIPS` for all.
        seed: of everything that is drawn.
        picks: whether to read which choices were picked, for which runs are reopened.
    """

    tasks: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    baseline: str | None = None
    margin: float | None = None
    alpha: float = 0.05
    correction: str = "holm"
    test: str | None = None
    detect: float | None = None
    across: tuple[str, ...] = (MODEL,)
    force: bool = False
    flips: int = 0
    seed: int = 0
    picks: bool = False


@checked_dataclass
@dataclass(frozen=True, slots=True)
class DetectOptions:
    """A difference that a comparison of two planned runs is to find, and what is assumed of them.

    Without a `discordance` or `deviation` two runs are taken to be independent and right half of the time, which makes
    the difference of a score from 0 to 1 vary the most: they differ on half of the documents.

    Attributes:
        difference: of the two scores; 0.02 is 2 points.
        alpha: level of the test.
        discordance: share of documents on which one run alone is right.
        deviation: standard deviation of a document's score in a single run, of scores other than 0 and 1.
        correlation: of the two runs' scores over documents.
    """

    difference: float
    alpha: float = 0.05
    discordance: float | None = None
    deviation: float | None = None
    correlation: float = 0.0

    @property
    def variance(self) -> float:
        """Of one document's difference, before its mean is taken off; of outcomes, the share that differ."""
        if self.discordance is not None:
            return self.discordance
        deviation = 0.5 if self.deviation is None else self.deviation
        return 2 * deviation**2 * (1 - self.correlation)


@dataclass(frozen=True, slots=True)
class System:
    """A run that is compared, or one task of it.

    Attributes:
        label: what to call it; differs between the systems of a comparison.
        run: the run's name.
        model: what the user called the model.
        task: the task, where one was named.
    """

    label: str
    run: str
    model: str
    task: str | None = None


@dataclass(frozen=True, slots=True)
class EffectSize:
    """How large a difference is, free of the metric's unit: `odds_ratio` (wins per loss) or `d_z`."""

    name: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Margin:
    """Whether a difference stays within a margin. False says that it was not shown.

    Attributes:
        margin: largest difference that does not matter.
        is_equivalent: no more than the margin apart.
        is_not_worse: the second is no more than the margin worse than the first; None without a direction.
        low: lower end of the 1 − 2α interval of the difference.
        high: upper end.
    """

    margin: float
    is_equivalent: bool
    is_not_worse: bool | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two systems give the same, document by document.

    Attributes:
        equal: share of documents with the same outcome, or the same choice picked.
        kappa: Cohen's κ, which allows for what would be the same by chance.
    """

    equal: float
    kappa: Estimate


@dataclass(frozen=True, slots=True)
class Flip:
    """A document that scores otherwise in the second run, with its question where that can still be read."""

    document: int
    first: float
    second: float
    question: str = ""


@dataclass(frozen=True, slots=True)
class PairedScore:
    """One system against another on one task and metric. Differences are second less first.

    Attributes:
        n: documents that both scored.
        left_out: documents that only the first has, and that only the second has.
        scores: both, on these documents.
        test: `mcnemar`, `mcnemar-midp`, `sign-flip`, `cluster-sign-flip`, `bootstrap` or `cluster-bootstrap`.
        p: two-sided; None where the data cannot say.
        adjusted: p after correction over all tests of the comparison.
        wins: documents on which the second is higher; None for values that cannot be compared singly.
        difference: its interval inverts the test at the level of the correction, so that it leaves 0 out exactly when
            the adjusted p is below α.
        unpaired: standard error that the difference would have, had the two been asked about other documents each.
        correlation: of the two over documents, by which pairing makes the standard error smaller; of scores that are
            no mean of documents, over redrawn sets.
        detectable: smallest true difference that so many documents show with 80 % power, in a single test; None where
            they can show none.
        needed: documents that show a true difference as large as the observed one with 80 % power, likewise.
        needed_to_detect: the same for the difference that was wished for; None where none was.
        clusters: how many, where documents come in clusters.
        agreement: of the outcomes, where all are 0 or 1.
        picks: agreement of the choices picked, where that was asked for and can be read.
        differing: what differs between the runs, in words.
        remarks: what else the reader ought to know.
        outcome: `better`, `worse`, `higher`, `lower` (without a direction), `none`, or `same` in every document.
        verdict: one sentence.
        flips: documents that score otherwise, as many as were asked for.
        failed: documents of either that have no score because a request failed.
        unanswered: those of either that a run did not get to, which was stopped before its end.
        undefined: those for which the metric has no finite value in this run, and has one in the other.
        bounds: lowest and highest difference with all failed documents counted as wrong or right; None where no
            document failed, or that is not known.
    """

    task: str
    metric: str
    filter: str
    higher_is_better: bool | None
    is_share: bool
    first: str
    second: str
    n: int
    left_out: tuple[int, int]
    scores: tuple[Estimate, Estimate]
    difference: Estimate
    test: str
    p: float | None
    adjusted: float | None = None
    wins: int | None = None
    losses: int | None = None
    ties: int | None = None
    effect: EffectSize | None = None
    detectable: float | None = None
    needed: int | None = None
    needed_to_detect: int | None = None
    unpaired: float | None = None
    correlation: float | None = None
    clusters: int | None = None
    margin: Margin | None = None
    agreement: Agreement | None = None
    picks: Agreement | None = None
    differing: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    outcome: str = "none"
    verdict: str = ""
    flips: tuple[Flip, ...] = field(default=(), repr=False)
    failed: tuple[int, int] = (0, 0)
    unanswered: tuple[int, int] = (0, 0)
    undefined: tuple[int, int] = (0, 0)
    bounds: tuple[float, float] | None = None

    @property
    def missing_values(self) -> tuple[int, int]:
        """Documents of either that have no value and ought to."""
        first, second = map(sum, zip(self.failed, self.unanswered, self.undefined, strict=True))
        return first, second

    @property
    def has_too_many_missing(self) -> bool:
        """Whether so many documents of one have no value that the others may not speak for it."""
        return any(count > MAX_MISSING_SHARE * (self.n + count) for count in self.missing_values)

    @property
    def is_worse(self) -> bool:
        """Whether the second is worse than the first, beyond chance."""
        return self.outcome == "worse"


@dataclass(frozen=True, slots=True)
class OverallScore:
    """One system against another over several tasks, every task counted once.

    Attributes:
        test: `sign-flip`, `cluster-sign-flip`, or `random-effects-t` where a way of asking is random.
        random: ways of asking that are taken as a sample of many, in words: `5 prompts of sst2`.
        fixed: those for which alone the verdict holds, because they are too few to stand for others.
    """

    first: str
    second: str
    tasks: tuple[str, ...]
    difference: Estimate
    p: float | None
    adjusted: float | None
    outcome: str
    verdict: str
    test: str = "sign-flip"
    random: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankRange:
    """The ranks that the data allows a system. Those of two that cannot be told apart overlap.

    Attributes:
        first: the best: 1 + how many systems are better beyond chance.
        last: the worst: all systems less those that are worse beyond chance.
    """

    first: int
    last: int

    @property
    def text(self) -> str:
        """`2`, or `1–3` where the data allows several."""
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"

    def overlaps(self, other: RankRange) -> bool:
        """Whether some rank is allowed to both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """A system's place on a task.

    Attributes:
        rank: the best rank that the data allows, see `RankRange`.
        last: the worst.
        letters: shared by systems that the data cannot tell apart.
    """

    label: str
    estimate: Estimate
    rank: int
    last: int
    letters: str

    @property
    def ranks(self) -> RankRange:
        return RankRange(self.rank, self.last)


@dataclass(frozen=True, slots=True)
class RankTable:
    """All systems on one task and metric, best first; `task` is None over all tasks."""

    task: str | None
    metric: str
    filter: str
    places: tuple[RankedSystem, ...]


@dataclass(frozen=True, slots=True)
class Uncompared:
    """What some of the systems do not have in common, and why; `metric` is None for all of a task."""

    task: str
    metric: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class RunComparison(Tabular):
    """Two or more runs compared.

    Attributes:
        wish: what was asked for.
        systems: the runs, in the order given.
        pairs: every two systems that were compared, task by task.
        overall: the same over all tasks, where there are several.
        tables: ranks, where three or more systems were compared with each other.
        tests: how many tests were corrected for.
        notices: what else the reader ought to know, in words.
        verdict: one sentence.
        uncompared: tasks and metrics that were left out.
    """

    wish: CompareOptions
    systems: tuple[System, ...]
    pairs: tuple[PairedScore, ...]
    overall: tuple[OverallScore, ...]
    tables: tuple[RankTable, ...]
    tests: int
    notices: tuple[str, ...]
    verdict: str
    uncompared: tuple[Uncompared, ...] = ()

    def to_dicts(self) -> list[Row]:
        """One row per pair of runs, task and metric."""
        return [
            {
                "task": pair.task,
                "metric": pair.metric,
                "filter": pair.filter,
                "first": pair.first,
                "second": pair.second,
                "n": pair.n,
                "difference": pair.difference.value,
                "low": pair.difference.low,
                "high": pair.difference.high,
                "test": pair.test,
                "p": pair.p,
                "adjusted_p": pair.adjusted,
                "verdict": pair.verdict,
            }
            for pair in self.pairs
        ]

    def is_worse(self, margin: float | None = None) -> bool:
        """Whether any pair fails, or something could not be compared: nothing is known of that."""
        return bool(self.uncompared) or any(self.fails(pair, margin) for pair in self.pairs)

    def fails(self, pair: PairedScore, margin: float | None = None) -> bool:
        """Whether there is a reason why a pair does not pass a gate."""
        return bool(self.failure(pair, margin))

    def failure(self, pair: PairedScore, margin: float | None = None) -> str:
        """Why a pair fails: its second is worse beyond chance, or, with a margin, not shown to be no worse than that.

        A pair that could not be tested fails: no document in common, or a score that is infinite or undefined. So does
        one of which either lacks answers: those that it has may be the easy ones. Empty where nothing is wrong.
        """
        if pair.has_too_many_missing:
            return "too many documents have no value"
        if margin is None or pair.margin is None:
            return "worse beyond chance" if pair.is_worse else "could not be tested" if pair.p is None else ""
        if pair.margin.is_not_worse is None:
            return "the metric has no direction"
        return "" if pair.margin.is_not_worse else f"not shown to be at most {margin:g} worse"
