"""Metrics and aggregations of our own."""

import numpy as np
from lm_eval.api.metrics import mean
from lm_eval.utils import weighted_f1_score

__all__ = ["any_right", "far_off", "nearness", "overlap", "ratio", "right_share", "spread", "weighted_f1_score"]


def overlap(references, predictions, power=1.0):
    """Share of the reference's words that the answer has."""
    wanted, said = set(references[0].split()), set(predictions[0].split())
    return (len(wanted & said) / max(1, len(wanted))) ** power


def nearness(references, predictions):
    """Two values at once."""
    longest = max(len(references[0]), len(predictions[0]), 1)
    return {
        "same_length": float(len(references[0]) == len(predictions[0])),
        "length_share": len(predictions[0]) / longest,
    }


def far_off(items):
    return float(max(items))


def ratio(items):
    return sum(a for a, _ in items) / sum(b for _, b in items)


def spread(items):
    return float(np.std(items)) + 0.0 * mean(items)


def right_share(items):
    """Mean probability of the right choice among all."""
    shares = []
    for gold, totals in items:
        weights = np.exp(np.array(totals) - max(totals))
        shares.append(float(weights[gold] / weights.sum()))
    return mean(shares)


def any_right(references, predictions):
    """Of several texts that a pipeline kept: 1 when one of them ends in the right answer."""
    return float(any(text.rstrip(" .").endswith(references[0]) for text in predictions[0]))
