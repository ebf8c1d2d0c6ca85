"""The metrics: name, direction, default aggregation, and the value function per question shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.scoring.scorers import answer, choice, likelihood

Value = Callable[[Any, Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric.

    Attributes:
        name: its name in task files and results.
        aggregation: how documents' values become one number, by name.
        higher_is_better: direction; None when undefined.
        values: question shape (lm-eval's output_type) → value function.
        description: half a line for `assay ls metrics`.
        option_names: settings it understands.
    """

    name: str
    aggregation: str
    higher_is_better: bool | None
    values: Mapping[str, Value]
    description: str
    option_names: frozenset[str] = frozenset()


_CHOICE, _CONTINUATION, _ROLLING, _GENERATED = (
    "multiple_choice",
    "loglikelihood",
    "loglikelihood_rolling",
    "generate_until",
)
_MATCH_OPTIONS = frozenset({"regexes_to_ignore", "ignore_case", "ignore_punctuation", "ignore_numbers"})

acc = MetricDefinition(
    "acc",
    "mean",
    True,
    {_CHOICE: choice.accuracy, _CONTINUATION: likelihood.greedy},
    "share of documents whose likeliest choice is right (or whose continuation is the greedy one)",
)
acc_norm = MetricDefinition(
    "acc_norm",
    "mean",
    True,
    {_CHOICE: choice.accuracy_per_character},
    "accuracy with log-likelihoods divided by the choices' characters",
)
acc_bytes = MetricDefinition(
    "acc_bytes",
    "mean",
    True,
    {_CHOICE: choice.accuracy_per_byte},
    "accuracy with log-likelihoods divided by the choices' bytes",
)
acc_mutual_info = MetricDefinition(
    "acc_mutual_info",
    "mean",
    True,
    {_CHOICE: choice.accuracy_mutual_information},
    "accuracy with the choices' unconditional log-likelihoods subtracted",
)
exact_match = MetricDefinition(
    "exact_match",
    "mean",
    True,
    {_GENERATED: answer.exact_match, _CHOICE: choice.exact_match},
    "share of answers equal to a right one",
    _MATCH_OPTIONS,
)
brier_score = MetricDefinition(
    "brier_score",
    "brier_score",
    False,
    {_CHOICE: choice.brier},
    "squared distance of the choices' probabilities from the truth",
)
f1 = MetricDefinition("f1", "f1", True, {_CHOICE: choice.label_pair}, "F1 of label 1 over documents")
mcc = MetricDefinition(
    "mcc", "matthews_corrcoef", True, {_CHOICE: choice.label_pair}, "Matthews' correlation of right and picked labels"
)
perplexity = MetricDefinition(
    "perplexity",
    "perplexity",
    False,
    {_CONTINUATION: likelihood.log_probability},
    "exp of the mean negative log-likelihood per document",
)
word_perplexity = MetricDefinition(
    "word_perplexity", "weighted_perplexity", False, {_ROLLING: likelihood.per_word}, "perplexity per word"
)
byte_perplexity = MetricDefinition(
    "byte_perplexity", "weighted_perplexity", False, {_ROLLING: likelihood.per_byte}, "perplexity per byte"
)
bits_per_byte = MetricDefinition(
    "bits_per_byte", "bits_per_byte", False, {_ROLLING: likelihood.per_byte}, "bits that coding a byte takes"
)
bypass = MetricDefinition(
    "bypass",
    "bypass",
    True,
    {kind: (lambda view, options: None) for kind in (_CHOICE, _CONTINUATION, _ROLLING, _GENERATED)},
    "nothing: answers are only recorded (--predict_only)",
)
