"""The metrics: name, direction, default aggregation, and the value function per question shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.scoring.scorers import choice_methods as methods
from assay.scoring.scorers import choice_orders as rotation
from assay.scoring.scorers import draws
from assay.scoring.scorers import generated_answer as answer
from assay.scoring.scorers import multiple_choice as choice
from assay.scoring.scorers import rouge as overlap
from assay.scoring.scorers import squad as spans
from assay.scoring.scorers import text_likelihood as continuation

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
        gives_many: whether its value is a mapping of several values, each reported under its own name.
        over_draws: whether it looks at all draws of a question, each judged by another metric.
        span: lowest and highest value that a document can have; None where there is no such range, or not known.
        code: hash of the source of a metric that a program added with `@assay.metric`; None for all others.
    """

    name: str
    aggregation: str
    higher_is_better: bool | None
    values: Mapping[str, Value]
    description: str
    option_names: frozenset[str] = frozenset()
    gives_many: bool = False
    over_draws: bool = False
    span: tuple[float, float] | None = None
    code: str | None = None


# Values of documents that are right, wrong or partly right.
_SHARE = (0.0, 1.0)
_CHOICE, _CONTINUATION, _ROLLING, _GENERATED = (
    "multiple_choice",
    "loglikelihood",
    "loglikelihood_rolling",
    "generate_until",
)
# The same questions in several orders of their choices.
_ROTATED, _ROTATED_ANSWER = "rotated_choice", "rotated_answer"
# Scores that a head gives to labels or choices.
_SCORES = "label_scores"
_SHAPES = (_CHOICE, _SCORES, _ROTATED, _ROTATED_ANSWER, _CONTINUATION, _ROLLING, _GENERATED)
_MATCH_OPTIONS = frozenset({"regexes_to_ignore", "ignore_case", "ignore_punctuation", "ignore_numbers"})


def _accuracy(method: str, description: str, *option_names: str) -> MetricDefinition:
    """Accuracy under a way of picking; in several orders of the choices, the mean over them."""
    value = choice.accuracy_by(methods.METHODS[method].scores)
    values = {_CHOICE: value, _ROTATED: rotation.mean_of(value)}
    name = methods.METHODS[method].metric
    return MetricDefinition(name, "mean", True, values, description, frozenset(option_names), span=_SHARE)


acc = MetricDefinition(
    "acc",
    "mean",
    True,
    {
        _CHOICE: choice.accuracy,
        _SCORES: choice.accuracy,
        _ROTATED: rotation.mean_of(choice.accuracy),
        _CONTINUATION: continuation.greedy,
    },
    "share of documents whose likeliest choice is right (or whose continuation is the greedy one)",
    span=_SHARE,
)
acc_norm = _accuracy("character", "accuracy with log-likelihoods divided by the choices' characters")
acc_per_char = _accuracy(
    "continuation", "the same with the delimiter before the choice counted too (OLMES's acc_per_char)"
)
acc_bytes = _accuracy("byte", "accuracy with log-likelihoods divided by the choices' bytes")
acc_tokens = _accuracy("token", "accuracy with log-likelihoods divided by the choices' tokens")
acc_mutual_info = _accuracy("mutual", "accuracy with the choices' log-likelihoods without the question subtracted")
acc_mutual_phrase = _accuracy(
    "mutual-phrase", 'the same with the choices\' after a phrase; phrase: "Answer:" unless another is named', "phrase"
)
acc_opencompass = _accuracy(
    "opencompass", "accuracy by the mean log-likelihood over the whole prompt and choice (OpenCompass's PPL rule)"
)
exact_match = MetricDefinition(
    "exact_match",
    "mean",
    True,
    {
        _GENERATED: answer.exact_match,
        _CHOICE: choice.exact_match,
        _ROTATED: rotation.mean_of(choice.exact_match),
        _ROTATED_ANSWER: rotation.answers_match,
    },
    "share of answers equal to a right one",
    _MATCH_OPTIONS,
    span=_SHARE,
)
brier_score = MetricDefinition(
    "brier_score",
    "brier_score",
    False,
    {_CHOICE: choice.probabilities, _SCORES: choice.probabilities},
    "squared distance of the choices' probabilities from the truth",
)
ece = MetricDefinition(
    "ece",
    "ece",
    False,
    {_CHOICE: choice.confidence, _SCORES: choice.confidence},
    "calibration error: probability among the choices against accuracy, in ten bins of equal width",
)


def _by_confidence(
    name: str, higher_is_better: bool, description: str, value: Value, *options: str
) -> MetricDefinition:
    values = {_CHOICE: value, _SCORES: value}
    return MetricDefinition(name, name, higher_is_better, values, description, frozenset(options))


ece_adaptive = _by_confidence(
    "ece_adaptive",
    False,
    "calibration error in ten bins of equal mass: as many documents in each",
    choice.confidence,
)
auroc = _by_confidence("auroc", True, "probability that a right answer is surer than a wrong one", choice.confidence)
aurc = _by_confidence(
    "aurc", False, "share of wrong answers, averaged over all shares of surest documents answered", choice.confidence
)
selective_acc = _by_confidence(
    "selective_acc",
    True,
    "accuracy on the surest documents; coverage: 0.8, or a list; reported as selective_acc@0.8",
    choice.covered_confidence,
    "coverage",
)
log_loss = MetricDefinition(
    "log_loss",
    "mean_of_known",
    False,
    {_CHOICE: choice.log_loss, _SCORES: choice.log_loss},
    "minus the log of the probability, among the choices, of the right one",
)
cohen_kappa = MetricDefinition(
    "cohen_kappa",
    "cohen_kappa",
    True,
    {_CHOICE: choice.position_pair, _SCORES: choice.position_pair},
    "Cohen's kappa of right and picked labels: agreement beyond chance",
)
greedy_choice = MetricDefinition(
    "greedy_choice",
    "mean",
    None,
    {_CHOICE: choice.greedy_choice, _ROTATED: rotation.mean_of(choice.greedy_choice)},
    "share of documents for which greedy decoding would say one of the choices",
    span=_SHARE,
)
choice_mass = MetricDefinition(
    "choice_mass",
    "mean",
    None,
    {_CHOICE: choice.mass, _ROTATED: rotation.mean_of(choice.mass)},
    "probability of all choices together, before any is compared",
    span=_SHARE,
)
rotation_agreement = MetricDefinition(
    "rotation_agreement",
    "mean",
    True,
    {_ROTATED: rotation.agreement, _ROTATED_ANSWER: rotation.answers_agree},
    "share of documents with the same pick in every order of the choices",
    span=_SHARE,
)
rotation_all = MetricDefinition(
    "rotation_all",
    "mean",
    True,
    {_ROTATED: rotation.all_right, _ROTATED_ANSWER: rotation.answers_all_match},
    "share of documents that are right in every order of the choices",
    span=_SHARE,
)
rotation_vote = MetricDefinition(
    "rotation_vote",
    "mean",
    True,
    {_ROTATED: rotation.vote, _ROTATED_ANSWER: rotation.answers_vote},
    "accuracy of the choice that is picked in most orders",
    span=_SHARE,
)
choice_margin = MetricDefinition(
    "choice_margin",
    "mean_of_known",
    None,
    {_CHOICE: choice.margin, _SCORES: choice.margin},
    "log-likelihood by which the likeliest choice is ahead of the next",
)
position_bias = MetricDefinition(
    "position_bias",
    "position_bias",
    False,
    {_CHOICE: choice.position_pair, _SCORES: choice.position_pair},
    "how far the places of picked choices are from those of right ones: share of picks to move",
)
positions = MetricDefinition(
    "positions",
    "mean",
    None,
    {_CHOICE: choice.positions, _SCORES: choice.positions},
    "share of documents in which each place is picked: position_0, position_1, …",
    gives_many=True,
    span=_SHARE,
)
f1 = MetricDefinition(
    "f1",
    "f1",
    True,
    {_CHOICE: choice.label_pair, _SCORES: choice.label_pair, _GENERATED: answer.label_pair},
    "F1 of label 1 over documents",
)
mcc = MetricDefinition(
    "mcc",
    "matthews_corrcoef",
    True,
    {_CHOICE: choice.label_pair, _SCORES: choice.label_pair, _GENERATED: answer.label_pair},
    "Matthews' correlation of right and picked labels",
)
# lm-eval's default for `likelihood` is the mean, which no pair has: a task must bring its own aggregation.
likelihood = MetricDefinition(
    "likelihood",
    "mean",
    True,
    {_CHOICE: choice.likelihoods, _SCORES: choice.likelihoods},
    "log-likelihoods of all choices, for a task's own aggregation",
)
acc_all = MetricDefinition(
    "acc_all",
    "mean",
    True,
    {},
    "share of questions with every part right; values come from the task's own scoring",
    span=_SHARE,
)
perplexity = MetricDefinition(
    "perplexity",
    "perplexity",
    False,
    {_CONTINUATION: continuation.log_probability},
    "exp of the mean negative log-likelihood per document",
)
word_perplexity = MetricDefinition(
    "word_perplexity", "weighted_perplexity", False, {_ROLLING: continuation.per_word}, "perplexity per word"
)
byte_perplexity = MetricDefinition(
    "byte_perplexity", "weighted_perplexity", False, {_ROLLING: continuation.per_byte}, "perplexity per byte"
)
bits_per_byte = MetricDefinition(
    "bits_per_byte", "bits_per_byte", False, {_ROLLING: continuation.per_byte}, "bits that coding a byte takes"
)
token_perplexity = MetricDefinition(
    "token_perplexity", "weighted_perplexity", False, {_ROLLING: continuation.per_token}, "perplexity per token"
)
nats_per_token = MetricDefinition(
    "nats_per_token", "weighted_nats", False, {_ROLLING: continuation.per_token}, "cross-entropy per token, in nats"
)
document_perplexity = MetricDefinition(
    "document_perplexity",
    "mean_of_known",
    False,
    {_ROLLING: continuation.token_perplexity},
    "mean of the documents' own perplexities per token",
)
document_perplexity_median = MetricDefinition(
    "document_perplexity_median",
    "median_of_known",
    False,
    {_ROLLING: continuation.token_perplexity},
    "median of the documents' own perplexities per token",
)
squad_em = MetricDefinition(
    "squad_em",
    "mean",
    True,
    {_GENERATED: spans.squad_em},
    "share of answers equal to a right one but for case, punctuation and articles (SQuAD); no_answer: words for none",
    frozenset({"no_answer"}),
    span=_SHARE,
)
squad_f1 = MetricDefinition(
    "squad_f1",
    "mean",
    True,
    {_GENERATED: spans.squad_f1},
    "F1 of the words shared with the nearest right answer (SQuAD); no_answer: words for none",
    frozenset({"no_answer"}),
    span=_SHARE,
)
bypass = MetricDefinition(
    "bypass",
    "bypass",
    True,
    {kind: (lambda view, options: None) for kind in _SHAPES},
    "nothing: answers are only recorded (--predict_only)",
)


def _corpus(name: str, higher_is_better: bool, description: str) -> MetricDefinition:
    return MetricDefinition(name, name, higher_is_better, {_GENERATED: answer.text_pair}, description)


bleu = _corpus("bleu", True, "BLEU of the whole corpus, 0 to 100 (sacrebleu)")
chrf = _corpus("chrf", True, "chrF of the whole corpus, 0 to 100 (sacrebleu)")
chrf_plus_plus = _corpus("chrf++", True, "chrF with words and their pairs, 0 to 100 (sacrebleu)")
ter = _corpus("ter", False, "edits per word of the reference, in percent (sacrebleu)")


def _rouge(kind: str, description: str) -> MetricDefinition:
    values = {_GENERATED: overlap.Rouge(kind)}
    return MetricDefinition(kind, "mean", True, values, description, frozenset({"use_stemmer"}), span=_SHARE)


rouge1 = _rouge("rouge1", "F-measure of shared words (rouge-score)")
rouge2 = _rouge("rouge2", "F-measure of shared pairs of words (rouge-score)")
rougeL = _rouge("rougeL", "F-measure of the longest common subsequence (rouge-score)")  # noqa: N816
rougeLsum = _rouge("rougeLsum", "the same line by line (rouge-score)")  # noqa: N816


def _over_draws(name: str, value: Value, description: str, *options: str) -> MetricDefinition:
    """A metric over draws, each judged by exact match with its options, or `of` another metric."""
    names = _MATCH_OPTIONS | {"k", "of", *options}
    values = {_GENERATED: value}
    return MetricDefinition(name, "draws", True, values, description, names, over_draws=True, span=_SHARE)


pass_at_k = _over_draws(
    "pass@k", draws.pass_at_k, "probability that one of k draws is right; k: 1, or a list; of: METRIC"
)
pass_hat_k = _over_draws("pass^k", draws.pass_hat_k, "probability that all of k draws are right; k, of")
majority_at_k = _over_draws("maj@k", draws.majority_at_k, "whether what most of k draws say is right; k, of")
mean_at_k = _over_draws("mean@k", draws.mean_at_k, "mean over k draws; k, of: also metrics that are not 0 or 1")
g_pass_at_k = _over_draws(
    "gpass@k", draws.g_pass_at_k, "probability that at least a share of k draws is right; k, tau: 0.5, of", "tau"
)
