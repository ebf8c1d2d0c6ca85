"""Values of paired comparisons: options, one pair of systems, pairs over all tasks, ranks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.core.scores import Estimate

if TYPE_CHECKING:
    from assay.stats.ranking import RankRange

# Differences that may be allowed between two runs, besides the metrics' values.
MODEL, SHOTS, STYLE, PROMPTS, SCORING, VERSION = "model", "shots", "style", "prompts", "scoring", "version"
AXES = (MODEL, SHOTS, STYLE, PROMPTS, SCORING, VERSION)
TESTS = ("exact", "midp", "permutation", "bootstrap")
CORRECTIONS = ("holm", "bh")
# A gate passes runs in which at most this share of the documents lacks a value.
MAX_MISSING_SHARE = 0.01
ALL = "all"
ALL_FLIPS = -1


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of a comparison.

    Attributes:
        tasks: the tasks to compare; empty for all that the runs share.
        metrics: names, or `name,filter`; empty for the first that a task reports; `all` for every one.
        baseline: the run that all others are compared with; None for all pairs of runs.
        margin: largest difference that does not matter, in the metric's own unit (0.02 is 2 points).
        alpha: level of the tests after correction, and of the margin's test; intervals use it too.
        correction: `holm` or `bh` (Benjamini and Hochberg).
        test: `exact`, `midp`, `permutation` or `bootstrap`; None for the one that fits the values.
        detect: a difference for which to report the number of documents needed.
        across: allowed differences between the runs, see `AXES`.
        force: whether to compare runs that are not comparable.
        flips: number of documents to list that are better in one run; `ALL_FLIPS` for all.
        seed: seed of sign flips and resamples.
        predictions: whether to report agreement of predictions, for which runs are reopened.
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
    predictions: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """A score of a run: task, metric, pipeline and estimate."""

    task: str
    metric: str
    filter: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class EffectSize:
    """Unit-free effect size of a difference: `odds_ratio` (wins per loss) or `d_z`."""

    name: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Margin:
    """Whether a difference stays within a margin. False means that it was not shown.

    Attributes:
        margin: largest difference that does not matter.
        is_equivalent: whether they differ by no more than the margin.
        is_not_worse: whether the second is at most the margin worse than the first; None without a direction.
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
    """Per-document agreement of two systems.

    Attributes:
        equal: share of documents with the same outcome, or the same prediction.
        kappa: Cohen's κ, which corrects for chance agreement.
    """

    equal: float
    kappa: Estimate


@dataclass(frozen=True, slots=True)
class Flip:
    """A document with a different value in the second run, with its question if that can still be read."""

    document: int
    first: float
    second: float
    question: str = ""


@dataclass(frozen=True, slots=True)
class PairedScore:
    """One system against another on one task and metric. Differences are second minus first.

    Attributes:
        n: documents that both scored.
        left_out: documents that only the first has, and that only the second has.
        scores: both scores, on these documents.
        test: `mcnemar`, `mcnemar-midp`, `sign-flip`, `cluster-sign-flip`, `bootstrap` or `cluster-bootstrap`.
        p: two-sided p-value; None if it cannot be computed.
        adjusted: p after correction over all tests of the comparison.
        wins: documents on which the second is higher; None for values that cannot be compared one by one.
        difference: its interval inverts the test at the level of the correction, so that it excludes 0 exactly when
            the adjusted p is below α.
        unpaired: standard error that the difference would have, if the two had different documents.
        correlation: correlation of the two over documents, by which pairing reduces the standard error; for scores that
            are not a mean over documents, over bootstrap resamples.
        detectable: minimum detectable difference with this many documents at 80 % power, in a single test; None if
            they cannot show any.
        needed: documents needed to detect a true difference as large as the observed one at 80 % power, likewise.
        needed_to_detect: the same for the difference of `CompareOptions.detect`; None without one.
        clusters: number of clusters, if documents are clustered.
        agreement: agreement of the outcomes, if all are 0 or 1.
        prediction_agreement: agreement of the predictions, if requested and available.
        run_differences: differences between the runs, in words.
        caveats: caveats, in words.
        outcome: `better`, `worse`, `higher`, `lower` (without a direction), `none`, or `same` in all documents.
        verdict: one sentence.
        flips: documents with a different value, up to the requested number.
        failed: per system, documents without a score because a request failed.
        unanswered: per system, documents that an unfinished run did not reach.
        undefined: per system, documents without a finite value in this run but with one in the other.
        bounds: lowest and highest difference with all failed documents counted as wrong or right; None if no
            document failed, or they are unknown.
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
    prediction_agreement: Agreement | None = None
    run_differences: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    outcome: str = "none"
    verdict: str = ""
    flips: tuple[Flip, ...] = field(default=(), repr=False)
    failed: tuple[int, int] = (0, 0)
    unanswered: tuple[int, int] = (0, 0)
    undefined: tuple[int, int] = (0, 0)
    bounds: tuple[float, float] | None = None

    @property
    def missing_values(self) -> tuple[int, int]:
        """Per system, the number of documents that should have a value and have none."""
        first, second = map(sum, zip(self.failed, self.unanswered, self.undefined, strict=True))
        return first, second

    @property
    def has_too_many_missing(self) -> bool:
        """Whether too many documents of one system lack a value for the rest to be representative."""
        return any(count > MAX_MISSING_SHARE * (self.n + count) for count in self.missing_values)

    @property
    def is_worse(self) -> bool:
        """Whether the second is significantly worse than the first."""
        return self.outcome == "worse"


@dataclass(frozen=True, slots=True)
class OverallScore:
    """One system against another over several tasks, every task counted once.

    Attributes:
        test: `sign-flip`, `cluster-sign-flip`, or `random-effects-t` if variants are random.
        random: variants treated as a random sample, in words: `5 prompts of sst2`.
        fixed: variants to which the verdict is limited, because they are too few to represent others.
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
class RankedSystem:
    """Rank of a system on a task.

    Attributes:
        rank: the best rank compatible with the data, see `RankRange`.
        last: the worst rank.
        letters: letters shared by systems that are not separable.
    """

    label: str
    estimate: Estimate
    rank: int
    last: int
    letters: str

    @property
    def ranks(self) -> RankRange:
        from assay.stats.ranking import RankRange  # numpy is loaded where a comparison is made, not for its options

        return RankRange(self.rank, self.last)


@dataclass(frozen=True, slots=True)
class RankTable:
    """All systems on one task and metric, best first; `task` is None over all tasks."""

    task: str | None
    metric: str
    filter: str
    places: tuple[RankedSystem, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the same documents under one cell.

    Attributes:
        difference: first minus second.
        low: lower end of its interval, which inverts the test at the level of the correction: it excludes 0 exactly
            when `adjusted` is below 0.05.
        high: upper end.
        p: p-value of the paired test.
        adjusted: the p-value after Holm's correction over all comparisons of the study.
        test: name of the test.
        n: documents that both have.
        clusters: number of clusters; None without clusters.
        level: nominal coverage of the interval.
    """

    task: str
    cell: str
    first: str
    second: str
    difference: float | None
    low: float | None
    high: float | None
    p: float
    adjusted: float
    test: str
    n: int
    clusters: int | None = None
    level: float = 0.95
