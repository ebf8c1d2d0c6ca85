"""Aggregations: document values in, an estimate and lm-eval's standard error out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from assay.core.protocols import ProgressCallback, ignore_progress
from assay.core.scores import Estimate
from assay.scoring.metrics import grouped, value_types
from assay.stats import means

# Aggregations that are the mean of one number per document.
MEAN_AGGREGATIONS = ("mean", "nanmean", "mean_of_known", "brier_score", "draws")
# Those that read whole texts.
CORPUS_METRICS = ("bleu", "chrf", "chrf++", "ter")


class LmEvalStderr(Protocol):
    """Computes the standard error that lm-eval reports, and reports the progress of its resampled."""

    def __call__(self, values: Any, iterations: int, report: ProgressCallback = ignore_progress) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregation of document values to one number.

    Attributes:
        estimate: computes value, standard error and interval.
        lm_eval_stderr: computes the standard error that lm-eval reports; None if it has none.
        read: converts document values for the two above; raises `Unreadable`.
        package: the optional module it needs.
        clustered: (values, the cluster of each) → the estimate for clustered documents; None for an aggregation
            without a standard error.
    """

    estimate: Callable[[Any], Estimate]
    lm_eval_stderr: LmEvalStderr
    read: Callable[[Sequence[Any]], Any] = value_types.numbers
    package: str = ""
    clustered: Callable[[Any, Sequence[str]], Estimate] | None = None


def no_stderr(values: Sequence[Any], iterations: int, report: ProgressCallback = ignore_progress) -> float | None:
    return None


def _mean_stderr(values: Sequence[Any], iterations: int, report: ProgressCallback = ignore_progress) -> float | None:
    return means.standard_error(values) if iterations > 0 else None


def _resampled(statistic: str) -> LmEvalStderr:
    def stderr(values: Sequence[Any], iterations: int, report: ProgressCallback = ignore_progress) -> float | None:
        from assay.scoring.metrics import resampled

        return resampled.lm_eval_stderr(values, statistic, iterations, report)

    return stderr


def _by_bootstrap(
    statistic: str, read: Callable[[Sequence[Any]], Any] = value_types.numbers, in_lm_eval: bool = True
) -> Aggregation:
    """Bootstrap for our own interval, and again for lm-eval's standard error if lm-eval has the statistic."""

    def estimate(values: Sequence[Any]) -> Estimate:
        from assay.scoring.metrics import resampled

        return resampled.estimate(values, statistic)

    def clustered(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
        from assay.scoring.metrics import resampled

        return resampled.clustered_estimate(values, statistic, clusters)

    lm_eval_stderr = _resampled(statistic) if in_lm_eval else no_stderr
    return Aggregation(estimate, lm_eval_stderr, read, clustered=clustered)


def _over_corpus(name: str) -> Aggregation:
    # Sacrebleu and numpy are loaded when a corpus is read. Its segments are counted once, for both numbers.
    def read(values: Sequence[Any]) -> Any:
        from assay.scoring.metrics import corpus

        return corpus.CountedSegments(values, name)

    def estimate(counted: Any) -> Estimate:
        from assay.scoring.metrics import corpus

        return corpus.estimate(counted)

    def stderr(values: Any, iterations: int, report: ProgressCallback = ignore_progress) -> float | None:
        from assay.scoring.metrics import corpus

        return corpus.lm_eval_stderr(values, iterations, report)

    def clustered(counted: Any, clusters: Sequence[str]) -> Estimate:
        from assay.scoring.metrics import corpus

        return corpus.clustered_estimate(counted, clusters)

    return Aggregation(estimate, stderr, read, "sacrebleu", clustered)


def _columns(values: Sequence[Any]) -> tuple[list[float], list[float]]:
    return [value[0] for value in values], [value[1] for value in values]


def _bypassed(values: Sequence[Any]) -> Estimate:
    # 999 is what lm-eval reports for recorded but unscored answers.
    return Estimate(999.0, None, None, None, n=len(values), method="none", level=means.LEVEL)


def _mean_of_known(values: Sequence[Any]) -> Estimate:
    return means.mean_estimate(_known(values))


def _weighted_perplexity(values: Sequence[Any]) -> Estimate:
    return means.ratio_perplexity_estimate(*_columns(values))


def _weighted_nats(values: Sequence[Any]) -> Estimate:
    return means.nats_estimate(*_columns(values))


def _median_of_known(values: Sequence[Any]) -> Estimate:
    from assay.scoring.metrics import resampled

    known = _known(values)
    if math.inf in known:  # an infinite perplexity: there is a median, but no standard error
        return Estimate(statistics.median(known), None, None, None, n=len(known), method="none", level=means.LEVEL)
    return resampled.estimate(known, "middle")


def _drawn(values: Sequence[Any]) -> Estimate:
    from assay.stats.pass_at_k import draws_estimate

    return draws_estimate(_known(values)).estimate


def _drawn_stderr(values: Sequence[Any], iterations: int, report: ProgressCallback = ignore_progress) -> float | None:
    return _mean_stderr(_known(values), iterations)


def _known(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _by_confidence(measure: str, read: Callable[[Sequence[Any]], Any] = value_types.number_pairs) -> Aggregation:
    """A bootstrapped confidence metric."""

    def estimate(values: Sequence[Any], clusters: Sequence[str] | None = None) -> Estimate:
        from assay.stats.confidence import confidence_estimate

        coverage = values[0][2] if values and len(values[0]) > 2 else None
        return confidence_estimate(*_columns(values), measure, coverage, clusters)

    return Aggregation(estimate, no_stderr, read, clustered=estimate)


def _cohen_kappa(values: Sequence[Any], clusters: Sequence[str] | None = None) -> Estimate:
    from assay.stats.agreement import cohen_kappa

    return cohen_kappa(*_columns(values), clusters=clusters)


def _bits_per_byte(values: Sequence[Any]) -> Estimate:
    return means.bits_estimate(*_columns(values))


def _clustered_mean(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
    if not all(map(math.isfinite, values)):
        return means.mean_estimate(values)
    from assay.stats.clustered import clustered_mean  # few tasks have clusters

    return clustered_mean(values, clusters).estimate


def _clustered_mean_of_known(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
    known = [(value, own) for value, own in zip(values, clusters, strict=True) if not math.isnan(value)]
    return _clustered_mean([value for value, _ in known], [own for _, own in known])


def _clustered_median_of_known(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
    from assay.scoring.metrics import resampled

    known = [(value, own) for value, own in zip(values, clusters, strict=True) if not math.isnan(value)]
    if any(value == math.inf for value, _ in known):
        return _median_of_known(values)
    return resampled.clustered_estimate([value for value, _ in known], "middle", [own for _, own in known])


def _clustered_perplexity(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
    return _clustered_ratio(means.exponential)([(value, 1.0) for value in values], clusters)


def _clustered_ratio(
    of: Callable[[Estimate], Estimate],
) -> Callable[[Sequence[Any], Sequence[str]], Estimate]:
    def estimate(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
        from assay.stats.clustered import clustered_ratio

        logs, weights = _columns(values)
        if not all(map(math.isfinite, logs)):
            return of(means.nats_estimate(logs, weights))
        return of(means.above_zero(means.negated(clustered_ratio(logs, weights, clusters).estimate), logs))

    return estimate


def _clustered_points(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
    from assay.stats.clustered import clustered_mean

    return clustered_mean(values, clusters, may_be_share=False).estimate


# The mean of values whose possible range is another than 0 to 1, such as BLEU's 0 to 100.
MEAN_OF_POINTS = Aggregation(means.measured_estimate, _mean_stderr, clustered=_clustered_points)


def _share_of_parts(values: Sequence[Any]) -> Estimate:
    return means.share_estimate(*_columns(values))


def _clustered_share_of_parts(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
    from assay.stats.clustered import clustered_share

    return clustered_share(*_columns(values), clusters).estimate


def _in_bits(nats: Estimate) -> Estimate:
    return means.scaled(nats, 1 / math.log(2))


def _over_groups(score: grouped.GroupScore, read: Callable[[Sequence[Any]], Any]) -> Aggregation:
    """The mean over groups of rows; lm-eval has no such aggregation."""

    def estimate(values: Sequence[Any]) -> Estimate:
        return grouped.estimate(values, score)

    def clustered(values: Sequence[Any], clusters: Sequence[str]) -> Estimate:
        return grouped.clustered_estimate(values, clusters, score)

    return Aggregation(estimate, no_stderr, read, clustered=clustered)


AGGREGATIONS: dict[str, Aggregation] = {
    "mean": Aggregation(means.mean_estimate, _mean_stderr, clustered=_clustered_mean),
    "nanmean": Aggregation(
        _mean_of_known, _resampled("nanmean"), value_types.numbers_or_gaps, clustered=_clustered_mean_of_known
    ),
    "mean_of_known": Aggregation(
        _mean_of_known, no_stderr, value_types.numbers_or_gaps, clustered=_clustered_mean_of_known
    ),
    "median": _by_bootstrap("median"),
    "median_of_known": Aggregation(
        _median_of_known, no_stderr, value_types.numbers_or_gaps, clustered=_clustered_median_of_known
    ),
    "perplexity": Aggregation(means.perplexity_estimate, _resampled("perplexity"), clustered=_clustered_perplexity),
    "weighted_perplexity": Aggregation(
        _weighted_perplexity, no_stderr, value_types.number_pairs, clustered=_clustered_ratio(means.exponential)
    ),
    "weighted_nats": Aggregation(
        _weighted_nats, no_stderr, value_types.number_pairs, clustered=_clustered_ratio(lambda nats: nats)
    ),
    "bits_per_byte": Aggregation(
        _bits_per_byte, no_stderr, value_types.number_pairs, clustered=_clustered_ratio(_in_bits)
    ),
    "brier_score": Aggregation(means.mean_estimate, no_stderr, value_types.brier_scores, clustered=_clustered_mean),
    # F1 is that of label 1, so it is undefined for texts; scikit-learn, which lm-eval uses, rejects them too.
    "f1": _by_bootstrap("f1", value_types.number_pairs),
    "matthews_corrcoef": _by_bootstrap("matthews", value_types.label_pairs),
    "draws": Aggregation(_drawn, _drawn_stderr, value_types.numbers_or_gaps, clustered=_clustered_mean_of_known),
    "ece_adaptive": _by_confidence("ece_adaptive"),
    "auroc": _by_confidence("auroc"),
    "aurc": _by_confidence("aurc"),
    "selective_acc": _by_confidence("selective_acc", value_types.number_triples),
    "cohen_kappa": Aggregation(_cohen_kappa, no_stderr, value_types.label_pairs, clustered=_cohen_kappa),
    "ece": _by_bootstrap("ece", value_types.number_pairs, in_lm_eval=False),
    "position_bias": _by_bootstrap("position_bias", value_types.number_pairs, in_lm_eval=False),
    "macro_f1": _by_bootstrap("macro_f1", value_types.label_pairs, in_lm_eval=False),
    "pearson": _by_bootstrap("pearson", value_types.number_pairs, in_lm_eval=False),
    "spearman": _by_bootstrap("spearman", value_types.number_pairs, in_lm_eval=False),
    "bias_score": _by_bootstrap("bias_score", value_types.number_triples, in_lm_eval=False),
    "group_em": _over_groups(grouped.all_right, value_types.number_pairs),
    "group_f1": _over_groups(grouped.label_f1, value_types.number_triples),
    "share_of_parts": Aggregation(
        _share_of_parts, no_stderr, value_types.number_pairs, clustered=_clustered_share_of_parts
    ),
    "bleu": _over_corpus("bleu"),
    "chrf": _over_corpus("chrf"),
    "chrf++": _over_corpus("chrf++"),
    "ter": _over_corpus("ter"),
    "bypass": Aggregation(_bypassed, no_stderr, list),
}
