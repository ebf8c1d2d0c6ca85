"""Sequential analysis: confidence sequences and anytime-valid tests, which hold however often one looks.

The confidence sequences bet against every candidate mean (Waudby-Smith and Ramdas 2023, JRSS B 86, 1-27), with a
mixture of bets of many sizes (as Orabona and Jun 2023, IEEE Transactions on Information Theory 70, 436-455). The tests
mix over alternatives. By Ville's inequality, capital or evidence reaches 1/α with probability at most α if the
candidate is true or neither system is better. Documents must be in random order, drawn independently of the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault
from assay.stats.inputs import is_binary, require_share, require_within, same_documents
from assay.stats.means import LEVEL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALPHA = 0.05
_HALVINGS = 20
_ROWS_AT_ONCE = 10_000
# Bets of the mixtures: small ones detect small differences, large ones large. The largest keeps some capital back.
_SMALLEST_BET, _LARGEST_BET, _BETS = 0.002, 0.98, 20


@dataclass(frozen=True, slots=True)
class MeanBounds:
    """A confidence sequence for a mean: bounds that hold at all times simultaneously.

    Attributes:
        mean: mean of the values so far; None without any.
        low: lower bound; the running maximum of all lower bounds so far.
        high: upper bound.
        n: documents so far.
        level: probability that no bound, at any time, misses the true mean.
    """

    mean: float | None
    low: float
    high: float
    n: int
    level: float

    @property
    def half_width(self) -> float:
        """Half the distance between the bounds."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome of an anytime-valid test of whether one of two systems is better.

    Attributes:
        is_decided: whether the evidence ever reached 1/α.
        decided_at: documents seen when it did; None before.
        is_first_better: the direction at that time; None before.
        p: the smallest anytime-valid p-value so far.
        log_evidence: natural logarithm of the current evidence (e-value).
        n: documents seen.
        wins: documents on which the first is higher.
        losses: documents on which it is lower.
        method: `beta-binomial` for 0/1 outcomes, `betting` for other values.
    """

    is_decided: bool
    decided_at: int | None
    is_first_better: bool | None
    p: float
    log_evidence: float
    n: int
    wins: int
    losses: int
    method: str


def mean_bounds(values: Sequence[float], level: float = LEVEL, population: int | None = None) -> MeanBounds:
    """Confidence sequence for the mean of values from 0 to 1, valid under continuous monitoring.

    Args:
        values: the values, in order of arrival.
        level: nominal coverage.
        population: number of documents of which these are a random sample without replacement, for the mean over just
            those; None for the mean of the infinite population.
    """
    import numpy as np

    data = require_within(values, 0.0, 1.0, "bounds of a mean")
    alpha = 1 - require_share(level, "level")
    n = len(data)
    if population is not None and population < n:
        raise DataError(Fault("bounds of a mean", f"{n} values of {population} documents", "no more values than those"))
    if n == 0:
        return MeanBounds(None, 0.0, 1.0, 0, level)
    array = np.array(data)
    bar = math.log(2 / alpha)
    low = _bisect(lambda m: capital(array, m, population).max() < bar)
    high = 1 - _bisect(lambda m: capital(1 - array, m, population).max() < bar)
    if population is not None:  # evaluated documents are known, the others are between 0 and 1
        low, high = max(low, sum(data) / population), min(high, (sum(data) + population - n) / population)
    if low > high:  # with a probability below α: the bounds have missed the mean
        low = high = (low + high) / 2
    return MeanBounds(math.fsum(data) / n, low, high, n, level)


def difference_bounds(
    a: Sequence[float], b: Sequence[float], level: float = LEVEL, population: int | None = None
) -> MeanBounds:
    """Confidence sequence for the mean of a − b, differences from −1 to 1; arguments as in `mean_bounds`."""
    found = mean_bounds([(value + 1) / 2 for value in _differences(a, b)], level, population)
    mean = None if found.mean is None else 2 * found.mean - 1
    return MeanBounds(mean, 2 * found.low - 1, 2 * found.high - 1, found.n, level)


def capital(values: NDArray[np.float64], mean: float, population: int | None = None) -> NDArray[np.float64]:
    """Log capital, after each value, of betting that the mean is above a candidate.

    The mean of Π(1 + λ·(x − m)/m) over bets λ of many sizes: a nonnegative martingale if m is the true mean. It
    decreases in the candidate.

    Args:
        values: from 0 to 1.
        mean: the candidate m.
        population: as in `mean_bounds`.
    """
    import numpy as np

    centre = np.full(len(values), mean)
    if population is not None:
        # The mean that the documents not yet drawn must have. Sums such as .1 + .2 leave rounding error.
        left = population - np.arange(len(values))
        centre = (population * mean - (np.cumsum(values) - values)) / left
        centre = np.where(np.abs(centre) < 1e-9, 0.0, centre)
    with np.errstate(divide="ignore", invalid="ignore"):
        gains = np.where(centre > 0, values / centre - 1, np.where((centre == 0) & (values == 0), 0.0, np.inf))
    return _mixed(gains, np.geomspace(_SMALLEST_BET, _LARGEST_BET, _BETS))


def _bisect(is_inside: Callable[[float], bool]) -> float:
    """The lowest candidate that is not rejected, by bisection; rounded outwards."""
    if is_inside(0.0):
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_inside(middle) else (middle, high)
    return low


def decide(a: Sequence[float], b: Sequence[float], alpha: float = ALPHA) -> Decision:
    """Anytime-valid test of whether one system is better, on the documents so far; may be repeated at any time.

    Args:
        a: the first system's values, in order of arrival.
        b: the second system's, on the same documents; differences from −1 to 1.
        alpha: probability, over all looks, of naming a better system if neither is.
    """
    import numpy as np

    require_share(alpha, "alpha")
    differences = np.array(_differences(a, b), dtype=np.float64)
    method = "beta-binomial" if is_binary([float(x) for x in (*a, *b)]) else "betting"
    n, wins, losses = len(differences), int((differences > 0).sum()), int((differences < 0).sum())
    if n == 0:
        return Decision(
            is_decided=False,
            decided_at=None,
            is_first_better=None,
            p=1.0,
            log_evidence=0.0,
            n=0,
            wins=0,
            losses=0,
            method=method,
        )
    if method == "betting":
        evidence = value_evidence(differences)
    else:
        evidence = outcome_evidence(np.cumsum(differences > 0), np.cumsum(differences < 0))
    p = math.exp(-max(0.0, float(evidence.max())))
    over = evidence >= math.log(1 / alpha)
    at = int(np.argmax(over)) + 1 if over.any() else None
    return Decision(
        is_decided=at is not None,
        decided_at=at,
        is_first_better=None if at is None else bool(differences[:at].sum() > 0),
        p=p,
        log_evidence=float(evidence[-1]),
        n=n,
        wins=wins,
        losses=losses,
        method=method,
    )


def outcome_evidence(wins: NDArray[np.int64], losses: NDArray[np.int64]) -> NDArray[np.float64]:
    """Beta-binomial log evidence that wins and losses differ: a uniform mixture of biases against a fair coin.

    ∫ qʷ(1−q)ˡ dq / ½ʷ⁺ˡ = 2ʷ⁺ˡ · B(w+1, l+1). Concordant documents leave it unchanged.

    Args:
        wins: running count.
        losses: running count.
    """
    import numpy as np
    from scipy.special import betaln

    return np.asarray((wins + losses) * math.log(2) + betaln(wins + 1, losses + 1))


def value_evidence(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log evidence, after each document, that differences from −1 to 1 do not have mean 0.

    The mean of the capitals Π(1 + λ·d) over bets λ of many sizes and both signs.
    """
    import numpy as np

    sizes = np.geomspace(_SMALLEST_BET, _LARGEST_BET, _BETS)
    return _mixed(differences, np.concatenate([-sizes, sizes]))


def _mixed(gains: NDArray[np.float64], bets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm, after each gain, of the mean over bets of Π(1 + bet · gain); an infinite gain persists."""
    import numpy as np

    carried, parts = np.zeros(len(bets)), [np.empty(0)]
    for start in range(0, len(gains), _ROWS_AT_ONCE):
        block = gains[start : start + _ROWS_AT_ONCE, None]
        logs = carried + np.cumsum(np.log1p(block * bets), axis=0)
        top = logs.max(axis=1, keepdims=True)
        finite = np.where(np.isinf(top), 0.0, top)  # inf − inf would be NaN
        with np.errstate(over="ignore"):
            parts.append(finite[:, 0] + np.log(np.exp(logs - finite).mean(axis=1)))
        carried = logs[-1]
    return np.concatenate(parts)


def _differences(a: Sequence[float], b: Sequence[float]) -> list[float]:
    first, second = same_documents(a, b)
    return require_within([x - y for x, y in zip(first, second, strict=True)], -1.0, 1.0, "differences")
