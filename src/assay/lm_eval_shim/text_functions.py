"""`lm_eval.utils`: the few helpers that task code imports from it."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.packages import require
from assay.tasks.templates import render

eval_logger = logging.getLogger("assay.task_code")

# Detokenised forms of text that was split into words; applied in this order.
_JOINS = ((" n't", "n't"), (" )", ")"), ("( ", "("), ('" ', '"'), (' "', '"'))


def general_detokenize(string: str) -> str:
    """Text without the spaces that a word tokenizer inserts before suffixes and punctuation."""
    for apart, joined in _JOINS:
        string = string.replace(apart, joined)
    return re.sub(r" (['.,])", r"\1", string)


def weighted_f1_score(items: Sequence[tuple[Any, Any]]) -> float:
    """F1 over (gold, predicted) pairs, averaged over labels weighted by their support."""
    require("sklearn", "weighted_f1_score")
    from sklearn.metrics import f1_score

    right, picked = zip(*items, strict=True)
    return float(f1_score(list(right), list(picked), average="weighted"))


weighted_f1_score.package = "sklearn"  # type: ignore[attr-defined]  # checked before anything runs


def apply_template(template: str, doc: Mapping[str, Any]) -> str:
    """A Jinja template filled with a document."""
    return render(template, doc, "task code")


def softmax(x: Sequence[float]) -> Any:
    """Probabilities from log-likelihoods, as an array."""
    import numpy as np

    weights = np.exp(np.asarray(x) - np.max(x))
    return weights / weights.sum()


def hash_string(string: str) -> str:
    """sha256 of a text, as hex."""
    return hashlib.sha256(string.encode("utf-8")).hexdigest()


def handle_non_serializable(o: Any) -> Any:
    """Fallback of JSON serialization: numpy scalars as numbers, sets as lists, the rest as text."""
    if isinstance(o, (set, frozenset)):
        return list(o)
    return o.item() if hasattr(o, "item") and getattr(o, "ndim", 0) == 0 else str(o)


def make_table(result_dict: Mapping[str, Any], column: str = "results", sort_results: bool = False) -> str:
    """Results in lm-eval's shape as a Markdown table."""
    rows = ["|Task|Metric|Value|", "|---|---|---:|"]
    named = result_dict[column].items()
    for task, scores in sorted(named) if sort_results else named:
        for key, value in scores.items():
            if isinstance(value, (int, float)) and "," in key:
                rows.append(f"|{scores.get('alias', task)}|{key.partition(',')[0]}|{value:.4f}|")
    return "\n".join(rows)
