"""Corpus-level BLEU, chrF, chrF++ and TER, through sacrebleu with its defaults.

Each is a function of sums over segments, so the segments are counted once and every bootstrap replicate is a sum.
Sacrebleu's own bootstrap uses the same private methods; a test compares the values with its public functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.core.packages import require
from assay.core.protocols import ProgressCallback, ignore_progress
from assay.core.scores import Estimate
from assay.scoring.metrics.value_types import Unreadable
from assay.stats import bootstrap, lm_eval_bootstrap

_SEGMENTS_AT_ONCE = 100
_EXPECTED = "[right text or texts, generated text]"


def estimate(corpus: CountedSegments) -> Estimate:
    """The score, with bootstrap standard error and interval."""
    return bootstrap.spread(bootstrap.percentile_estimate(corpus.indices, corpus.scores))


def clustered_estimate(corpus: CountedSegments, clusters: Sequence[str]) -> Estimate:
    """The same with a cluster bootstrap."""
    found = bootstrap.cluster_bootstrap(corpus.indices, clusters, corpus.scores, bootstrap.Resampling())
    return bootstrap.spread(found)


def lm_eval_stderr(corpus: CountedSegments, iterations: int, report: ProgressCallback) -> float | None:
    """lm-eval's bootstrap standard error: its resamples are of documents, here represented by indices."""
    corpus.count(report)
    return lm_eval_bootstrap.lm_eval_stderr(corpus.indices, corpus.scores, iterations, report)


class CountedSegments:
    """The segments of a corpus, counted for one metric."""

    def __init__(self, values: Sequence[Any], name: str) -> None:
        self.indices = np.arange(len(values), dtype=np.float64)
        self._metric = _metric(name)
        self._hypotheses = [_hypotheses(value) for value in values]
        self._references = [_references(value) for value in values]
        self._counted: NDArray[np.float64] | None = None

    def count(self, report: ProgressCallback = ignore_progress) -> NDArray[np.float64]:
        """The counts of each segment. Counting takes a while, so it is done once, with progress."""
        if self._counted is None:
            counted: list[Any] = []
            for start in range(0, len(self._hypotheses), _SEGMENTS_AT_ONCE):
                counted.extend(self._statistics(slice(start, start + _SEGMENTS_AT_ONCE)))
                report("segments counted", len(counted), len(self._hypotheses))
            self._counted = np.asarray(counted, dtype=np.float64)
        return self._counted

    def _statistics(self, part: slice) -> list[Any]:
        # One stream per reference; if a document has fewer, sacrebleu expects None.
        own = self._references[part]
        most = max(map(len, self._references))
        streams = [[texts[index] if index < len(texts) else None for texts in own] for index in range(most)]
        return list(self._metric._extract_corpus_statistics(self._hypotheses[part], streams))

    def scores(self, resamples: NDArray[np.float64]) -> NDArray[np.float64]:
        """The score of each row of segment indices."""
        size = len(self._hypotheses)
        return np.array([self._score(np.bincount(row.astype(np.int64), minlength=size)) for row in resamples])

    def scores_by_counts(self, resample_counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The score of resamples given as segment counts, one row per resample."""
        return np.array([self._score(row) for row in resample_counts])

    def _score(self, resample_counts: NDArray[Any]) -> float:
        # Frequency of each segment times its counts: sums of integers, so floats are exact.
        totals = resample_counts @ self.count()
        return float(self._metric._compute_score_from_stats([_whole(total) for total in totals.tolist()]).score)


def single_bleu(text: str, reference: str) -> float:
    """BLEU of one text, 0 to 100, with the settings of T5's metrics: international tokens, exponential smoothing."""
    require("sacrebleu", "metric bleu_max")
    from sacrebleu.metrics import BLEU

    metric = BLEU(smooth_method="exp", smooth_value=0.0, tokenize="intl", force=True)
    return float(metric.corpus_score([text], [[reference]]).score)


def _whole(total: float) -> float:
    return int(total) if total.is_integer() else total


def _hypotheses(value: Any) -> str:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise Unreadable(value, _EXPECTED)
    hypothesis = value[1]
    if isinstance(hypothesis, (list, tuple)) and len(hypothesis) == 1:
        hypothesis = hypothesis[0]
    if not isinstance(hypothesis, str):
        raise Unreadable(value, _EXPECTED)
    return hypothesis


def _references(value: Any) -> list[str]:
    """A document's references. lm-eval truncates all documents to the fewest; here each keeps its own."""
    given = [value[0]] if isinstance(value[0], str) else value[0]
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(text, str) for text in given):
        raise Unreadable(value, _EXPECTED)
    return list(given)


def _metric(name: str) -> Any:
    require("sacrebleu", f"aggregation {name}")
    from sacrebleu.metrics import BLEU, CHRF, TER

    # `force` silences a warning about tokenised text, which generated answers often look like.
    made = {"bleu": lambda: BLEU(force=True), "chrf": CHRF, "chrf++": lambda: CHRF(word_order=2), "ter": TER}
    return made[name]()
