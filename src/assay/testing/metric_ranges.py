"""The best value of every metric, and how near a document's values are to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from assay.core.metric_names import family_of
from assay.scoring.registry import METRICS, metric_definition

# Metrics whose best value is not 1 (higher is better) or 0 (lower is better). None: no answer is the best one.
_BEST: Mapping[str, float | None] = {
    **dict.fromkeys(("perplexity", "word_perplexity", "byte_perplexity", "token_perplexity"), 1.0),
    **dict.fromkeys(("document_perplexity", "document_perplexity_median"), 1.0),
    **dict.fromkeys(("bleu", "chrf", "chrf++"), 100.0),
    **dict.fromkeys(("auroc", "aurc", "likelihood", "bypass"), None),
    # Differences between a true and a false reference: no answer has the highest possible value.
    **dict.fromkeys(("bleu_diff", "rouge1_diff", "rouge2_diff", "rougeL_diff"), None),
    # Measures of bias have no right answers.
    **dict.fromkeys(("pct_stereotype", "likelihood_diff", "amb_bias_score", "disamb_bias_score"), None),
}
_TOLERANCE = 1e-6


def best_value(metric: str, higher_is_better: bool | None) -> float | None:
    """The best value of a metric; None if it has none, or if its direction is not defined."""
    family = family_of(metric)
    if family in _BEST:
        return _BEST[family]
    if higher_is_better is None:
        return None
    return 1.0 if higher_is_better else 0.0


def is_builtin(metric: str) -> bool:
    """Whether the metric is Assay's own; others may measure something else than how right an answer is."""
    return family_of(metric) in METRICS.table


def is_best(value: float, best: float) -> bool:
    """Whether a score is the best one, also on a scale to 100."""
    return math.isclose(value, best, abs_tol=_TOLERANCE) or (best == 1.0 and math.isclose(value, 100.0, abs_tol=1e-4))


def goodness(values: Mapping[str, Any]) -> float:
    """How good a document's values are: the mean over its metrics, 1 for the best value of each."""
    found = [_single(name, value) for name, value in values.items()]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known else 1.0


def _single(name: str, value: Any) -> float | None:
    """One value as a number from 0 to 1; None if it says nothing about how good an answer is."""
    if isinstance(value, (list, tuple)):
        is_pair = len(value) == 2 and any(isinstance(part, (str, list)) for part in value)
        return float(_pair_is_equal(*value)) if is_pair else None
    if isinstance(value, (bool, int, float)):
        higher = metric_definition(name).higher_is_better if name in METRICS else True
        best = best_value(name, higher)
        if best is None or math.isnan(value):
            return None
        scale = 100.0 if abs(value) > 1.5 else 1.0
        return max(0.0, 1.0 - abs(value / scale - best))
    return None


def _pair_is_equal(right: Any, predicted: Any) -> bool:
    """Whether a predicted label or text is right; several right texts are alternatives."""
    return predicted in right if isinstance(right, list) else bool(predicted == right)
