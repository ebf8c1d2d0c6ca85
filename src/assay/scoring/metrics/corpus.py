"""BLEU, chrF, chrF++ and TER of a whole corpus, through sacrebleu, with its defaults.

Each is a function of sums over segments, so the segments are counted once and every replicate of a bootstrap is a sum.
Sacrebleu's own bootstrap does so with the same private methods; a test holds the values against its public functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.scores import Estimate
from assay.scoring.metrics.reading import Unreadable
from assay.scoring.packages import require
from assay.stats import bootstrap, harness_bootstrap

_EXPECTED = "[right text or texts, generated text]"


def estimate(corpus: Corpus) -> Estimate:
    """The score, with bootstrap error and interval."""
    return bootstrap.spread(bootstrap.percentile_estimate(corpus.places, corpus.scores))


def clustered_estimate(corpus: Corpus, clusters: Sequence[str]) -> Estimate:
    """The same, resampled by whole clusters."""
    found = bootstrap.cluster_bootstrap(corpus.places, clusters, corpus.scores, bootstrap.Resampling())
    return bootstrap.spread(found)


def harness_stderr(corpus: Corpus, iterations: int) -> float | None:
    """lm-eval's bootstrap error: its resamples are of documents, so places are resampled in their stead."""
    return harness_bootstrap.harness_stderr(corpus.places, corpus.scores, iterations)


class Corpus:
    """The segments of a corpus, counted for one metric."""

    def __init__(self, values: Sequence[Any], name: str) -> None:
        self.places = np.arange(len(values), dtype=np.float64)
        self._metric = _metric(name)
        said = [_said(value) for value in values]
        references = [_references(value) for value in values]
        # One stream per reference; where a document has fewer, sacrebleu takes None for "no more".
        most = max(map(len, references), default=0)
        streams = [[own[place] if place < len(own) else None for own in references] for place in range(most)]
        counted = self._metric._extract_corpus_statistics(said, streams) if values else []
        self._segments = np.asarray(counted, dtype=np.float64)

    def scores(self, resamples: NDArray[np.float64]) -> NDArray[np.float64]:
        """The score of each row of places."""
        size = len(self._segments)
        return np.array([self._score(np.bincount(row.astype(np.int64), minlength=size)) for row in resamples])

    def scores_of_times(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """The score of sets in which each segment comes so often, one row per set."""
        return np.array([self._score(row) for row in times])

    def _score(self, times: NDArray[Any]) -> float:
        # How often each segment was drawn, times its counts: sums of whole numbers, so floats are exact.
        totals = times @ self._segments
        return float(self._metric._compute_score_from_stats([_whole(total) for total in totals.tolist()]).score)


def _whole(total: float) -> float:
    return int(total) if total.is_integer() else total


def _said(value: Any) -> str:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise Unreadable(value, _EXPECTED)
    said = value[1]
    if isinstance(said, (list, tuple)) and len(said) == 1:
        said = said[0]
    if not isinstance(said, str):
        raise Unreadable(value, _EXPECTED)
    return said


def _references(value: Any) -> list[str]:
    """A document's references. lm-eval cuts all documents to the fewest; here each keeps its own."""
    given = [value[0]] if isinstance(value[0], str) else value[0]
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(text, str) for text in given):
        raise Unreadable(value, _EXPECTED)
    return list(given)


def _metric(name: str) -> Any:
    require("sacrebleu", f"aggregation {name}")
    from sacrebleu.metrics import BLEU, CHRF, TER

    # `force` silences a remark about tokenised text, which generated answers often are.
    made = {"bleu": lambda: BLEU(force=True), "chrf": CHRF, "chrf++": lambda: CHRF(word_order=2), "ter": TER}
    return made[name]()
