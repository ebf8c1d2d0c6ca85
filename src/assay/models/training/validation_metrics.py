"""Validation metrics during training, with the formulas of the tasks' own metrics.

In: (right, predicted) indices of examples with choices, or (right, predicted) texts of spans. Out: values by name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from assay.core.training import ACCURACY, F1, MCC, PEARSON, WORD_F1
from assay.stats.squad_tokens import normalised, word_f1

CLASSES, MAJORITY = "classes", "majority"
Pairs = Sequence[tuple[int, int]]


def prediction_metrics(pairs: Pairs) -> dict[str, float]:
    """Metrics of predictions, the number of distinct predictions, and the share of the most frequent right answer."""
    rights = Counter(right for right, _ in pairs)
    return {
        ACCURACY: sum(right == predicted for right, predicted in pairs) / len(pairs),
        MCC: matthews(pairs),
        F1: f1(pairs),
        CLASSES: float(len({predicted for _, predicted in pairs})),
        MAJORITY: max(rights.values()) / len(pairs),
    }


def span_metrics(spans: Sequence[tuple[str, str]]) -> dict[str, float]:
    """`squad_em`, reported as accuracy, and `squad_f1`."""
    pairs = [(normalised(found), normalised(right)) for right, found in spans]
    return {
        ACCURACY: sum(found == right for found, right in pairs) / len(pairs),
        WORD_F1: math.fsum(word_f1(found, right) for found, right in pairs) / len(pairs),
    }


def number_metrics(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Pearson's correlation of right and predicted numbers; 0 if either side does not vary."""
    means = [math.fsum(side) / len(pairs) for side in zip(*pairs, strict=True)]
    gaps = [(right - means[0], found - means[1]) for right, found in pairs]
    spread = math.sqrt(math.fsum(a * a for a, _ in gaps) * math.fsum(b * b for _, b in gaps))
    return {PEARSON: math.fsum(a * b for a, b in gaps) / spread if spread else 0.0}


def f1(pairs: Pairs) -> float:
    """F1 of class 1; 0 if class 1 never occurs and is never predicted."""
    hits = sum(right == predicted == 1 for right, predicted in pairs)
    total = sum((right == 1) + (predicted == 1) for right, predicted in pairs)
    return 2 * hits / total if total else 0.0


def matthews(pairs: Pairs) -> float:
    """Matthews correlation coefficient for any number of classes (Gorodkin's R_K); 0 if undefined."""
    n, hits = len(pairs), sum(right == predicted for right, predicted in pairs)
    rights, predictions = (Counter(pair[side] for pair in pairs) for side in (0, 1))
    covariance = hits * n - sum(count * predictions[label] for label, count in rights.items())
    spread = math.prod(n * n - sum(count * count for count in own.values()) for own in (rights, predictions))
    return covariance / math.sqrt(spread) if spread else 0.0
