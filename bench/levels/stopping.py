"""Runs that stop by looking at their answers: how often they decide wrongly, and whether their bounds hold the truth.

The laps and the rule are those of `--until_se` and `--until_decided`: `decide` looks after every document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from assay.stats.means import normal_quantile, wilson_interval
from assay.stats.paired import mcnemar_p
from assay.stats.sequential import decide, mean_bounds
from assay.studies.sampling.early_stopping import lap_end
from bench.levels.evaluating import EVALUATIONS, Rate, findings, generator_of
from bench.levels.pairs import ALPHA, outcomes


def laps(most: int) -> Iterator[int]:
    """Number of evaluated documents after each lap of a run."""
    asked = 0
    while asked < most:
        asked = min(most, lap_end(asked))
        yield asked


def wrong_decisions(documents: int, discordance: float, evaluations: int = EVALUATIONS) -> Rate:
    """How often equal runs are ever declared different by outcomes, looking after every document."""

    def finds(generator: np.random.Generator) -> bool:
        return decide(*outcomes(generator, documents, discordance)).is_decided

    return findings(f"outcomes, {discordance:.0%} discordant", documents, finds, evaluations)


def wrong_decisions_of_values(documents: int, evaluations: int = EVALUATIONS) -> Rate:
    """The same for values from 0 to 1, such as F1 of answers."""

    def finds(generator: np.random.Generator) -> bool:
        ease = generator.random(documents)
        first, second = (ease + generator.random((2, documents))) / 2
        return decide(first.tolist(), second.tolist()).is_decided

    return findings("values from 0 to 1", documents, finds, evaluations)


def right_decisions(documents: int, discordance: float, difference: float, evaluations: int = EVALUATIONS) -> Rate:
    """How often a better run is found."""

    def finds(generator: np.random.Generator) -> bool:
        first, second = outcomes(generator, documents, discordance, difference)
        return decide(second, first).is_first_better is True

    return findings(f"outcomes, {discordance:.0%} discordant, better by {difference:g}", documents, finds, evaluations)


def peeking_mcnemar(documents: int, discordance: float, evaluations: int = EVALUATIONS) -> Rate:
    """How often an ordinary test after every document would declare equal runs different."""

    def finds(generator: np.random.Generator) -> bool:
        first, second = (np.array(side) for side in outcomes(generator, documents, discordance))
        gaps = second - first
        splits = set(zip(np.cumsum(gaps > 0).tolist(), np.cumsum(gaps < 0).tolist(), strict=True))
        return any(_mcnemar(wins, losses) < ALPHA for wins, losses in splits)

    return findings(f"ordinary McNemar, {discordance:.0%} discordant", documents, finds, evaluations)


_mcnemar = cache(mcnemar_p)


@dataclass(frozen=True, slots=True)
class Stopped:
    """Runs that stopped at an error.

    Attributes:
        bounds: how often the anytime-valid bounds held the truth where the run stopped.
        ordinary: how often the table's interval did.
        documents: mean number of evaluated documents.
    """

    bounds: Rate
    ordinary: Rate
    documents: float


def until_error(share: float, error: float, most: int, evaluations: int) -> Stopped:
    """Runs with `--until_se`: lap after lap until the bounds are as narrow as requested, or no documents are left."""
    generator = generator_of("until", share, error, most)
    held, ordinary, asked = 0, 0, 0
    for _ in range(evaluations):
        values = (generator.random(most) < share).astype(np.float64).tolist()
        for n in laps(most):
            bounds = mean_bounds(values[:n])
            if bounds.half_width <= normal_quantile() * error:
                break
        low, high = wilson_interval(sum(values[:n]), n)
        held += bounds.low <= share <= bounds.high
        ordinary += low <= share <= high
        asked += n
    name = f"p = {share:g}, --until_se {error:g}"
    return Stopped(
        Rate(name, most, held / evaluations, evaluations),
        Rate(name, most, ordinary / evaluations, evaluations),
        asked / evaluations,
    )
