"""Metric definitions: name, direction, default aggregation, and the value function per output type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from assay.scoring.scorers import (
    bbq,
    choice_orders,
    draws,
    entities,
    generated_answer,
    multiple_choice,
    row_groups,
    sentence_pairs,
    text_likelihood,
)
from assay.scoring.scorers.choice_orders import mean_over_orders

# Takes what a metric sees of a document and its options; the document too if the definition says so.
Value = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric.

    Attributes:
        name: its name in task files and results.
        aggregation: name of the aggregation of document values.
        higher_is_better: direction; None if undefined.
        values: output type (lm-eval's output_type) → value function.
        description: half a line for `assay ls metrics`.
        option_names: settings it accepts.
        gives_many: whether its value is a mapping of several values, each reported under its own name.
        over_draws: whether it uses all draws of a question, each scored by another metric.
        span: lowest and highest possible value of a document; None if unbounded or unknown.
        code: hash of the source of a metric that a program added with `@assay.metric`; None for all others.
        reads_document: whether its value functions also take the document, for columns that no view has.
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
    reads_document: bool = False


# Range of values of documents that are right, wrong or partly right.
_SHARE = (0.0, 1.0)
_CHOICE, _CONTINUATION, _ROLLING, _GENERATED = (
    "multiple_choice",
    "loglikelihood",
    "loglikelihood_rolling",
    "generate_until",
)
# The same questions in several orders of their choices.
_ROTATED, _ROTATED_ANSWER = "rotated_choice", "rotated_answer"
# Scores of a classifier head for labels or choices.
_SCORES = "label_scores"
_SHAPES = (_CHOICE, _SCORES, _ROTATED, _ROTATED_ANSWER, _CONTINUATION, _ROLLING, _GENERATED)
_MATCH_OPTIONS = frozenset({"regexes_to_ignore", "ignore_case", "ignore_punctuation", "ignore_numbers"})


def _accuracy(method: str, description: str, *option_names: str) -> MetricDefinition:
    """Accuracy under a scoring method; with several orders of the choices, the mean over them."""
    value = partial(multiple_choice.accuracy_by, multiple_choice.METHODS[method].scores)
    values = {_CHOICE: value, _ROTATED: partial(mean_over_orders, value)}
    name = multiple_choice.METHODS[method].metric
    return MetricDefinition(name, "mean", True, values, description, frozenset(option_names), span=_SHARE)


acc = MetricDefinition(
    "acc",
    "mean",
    True,
    {
        _CHOICE: multiple_choice.accuracy,
        _SCORES: multiple_choice.accuracy,
        _ROTATED: partial(mean_over_orders, multiple_choice.accuracy),
        _CONTINUATION: text_likelihood.greedy,
    },
    "share of documents whose most likely choice is right (or whose continuation is the greedy one)",
    span=_SHARE,
)
acc_norm = _accuracy("character", "accuracy with log-likelihoods divided by the choices' length in characters")
acc_per_char = _accuracy(
    "continuation", "the same, also counting the delimiter before the choice (OLMES's acc_per_char)"
)
acc_bytes = _accuracy("byte", "accuracy with log-likelihoods divided by the choices' length in bytes")
acc_tokens = _accuracy("token", "accuracy with log-likelihoods divided by the choices' length in tokens")
acc_mutual_info = _accuracy("mutual", "accuracy by pointwise mutual information: less the choices' unconditional score")
acc_mutual_phrase = _accuracy(
    "mutual-phrase", 'the same with the choices\' score after a phrase; phrase: default "Answer:"', "phrase"
)
acc_opencompass = _accuracy(
    "opencompass", "accuracy by the mean log-likelihood over the whole prompt and choice (OpenCompass's PPL rule)"
)
exact_match = MetricDefinition(
    "exact_match",
    "mean",
    True,
    {
        _GENERATED: generated_answer.exact_match,
        _CHOICE: multiple_choice.exact_match,
        _ROTATED: partial(mean_over_orders, multiple_choice.exact_match),
        _ROTATED_ANSWER: choice_orders.answers_match,
    },
    "share of answers equal to a right one",
    _MATCH_OPTIONS,
    span=_SHARE,
)
brier_score = MetricDefinition(
    "brier_score",
    "brier_score",
    False,
    {_CHOICE: multiple_choice.probabilities, _SCORES: multiple_choice.probabilities},
    "Brier score: squared distance between the choices' probabilities and the truth",
)
ece = MetricDefinition(
    "ece",
    "ece",
    False,
    {_CHOICE: multiple_choice.confidence, _SCORES: multiple_choice.confidence},
    "expected calibration error (ECE) of the choices' probabilities, in ten bins of equal width",
)


def _by_confidence(
    name: str, higher_is_better: bool, description: str, value: Value, *options: str
) -> MetricDefinition:
    values = {_CHOICE: value, _SCORES: value}
    return MetricDefinition(name, name, higher_is_better, values, description, frozenset(options))


ece_adaptive = _by_confidence(
    "ece_adaptive",
    False,
    "expected calibration error in ten bins of equal mass",
    multiple_choice.confidence,
)
auroc = _by_confidence(
    "auroc", True, "AUROC of confidence: P(right answer is surer than wrong one)", multiple_choice.confidence
)
aurc = _by_confidence(
    "aurc",
    False,
    "area under the risk-coverage curve: error rate averaged over all coverages",
    multiple_choice.confidence,
)
selective_acc = _by_confidence(
    "selective_acc",
    True,
    "selective accuracy on the most confident documents; coverage: 0.8, or a list; reported as selective_acc@0.8",
    multiple_choice.covered_confidence,
    "coverage",
)
log_loss = MetricDefinition(
    "log_loss",
    "mean_of_known",
    False,
    {_CHOICE: multiple_choice.log_loss, _SCORES: multiple_choice.log_loss},
    "negative log-likelihood of the right choice, normalised over the choices",
)
cohen_kappa = MetricDefinition(
    "cohen_kappa",
    "cohen_kappa",
    True,
    {_CHOICE: multiple_choice.position_pair, _SCORES: multiple_choice.position_pair},
    "Cohen's kappa of right and predicted labels: agreement beyond chance",
)
greedy_choice = MetricDefinition(
    "greedy_choice",
    "mean",
    None,
    {_CHOICE: multiple_choice.greedy_choice, _ROTATED: partial(mean_over_orders, multiple_choice.greedy_choice)},
    "share of documents for which greedy decoding would produce one of the choices",
    span=_SHARE,
)
choice_mass = MetricDefinition(
    "choice_mass",
    "mean",
    None,
    {_CHOICE: multiple_choice.mass, _ROTATED: partial(mean_over_orders, multiple_choice.mass)},
    "total probability of all choices, before normalisation",
    span=_SHARE,
)
rotation_agreement = MetricDefinition(
    "rotation_agreement",
    "mean",
    True,
    {_ROTATED: choice_orders.agreement, _ROTATED_ANSWER: choice_orders.answers_agree},
    "share of documents with the same prediction in every order of the choices",
    span=_SHARE,
)
rotation_all = MetricDefinition(
    "rotation_all",
    "mean",
    True,
    {_ROTATED: choice_orders.all_right, _ROTATED_ANSWER: choice_orders.answers_all_match},
    "share of documents that are right in every order of the choices",
    span=_SHARE,
)
rotation_vote = MetricDefinition(
    "rotation_vote",
    "mean",
    True,
    {_ROTATED: choice_orders.vote, _ROTATED_ANSWER: choice_orders.answers_vote},
    "accuracy of the majority prediction over orders of the choices",
    span=_SHARE,
)


def _of_ranking(name: str, value: Value, description: str) -> MetricDefinition:
    return MetricDefinition(name, "mean", True, {_CHOICE: value, _SCORES: value}, description, span=_SHARE)


mc2 = _of_ranking("mc2", multiple_choice.right_share, "normalised probability of all right choices (TruthfulQA's MC2)")
mrr = _of_ranking("mrr", multiple_choice.reciprocal_rank, "mean reciprocal rank of the right choice, by log-likelihood")
acc_top2 = _of_ranking(
    "acc_top2", multiple_choice.among_two, "share of documents with a right choice among the two most likely"
)
choice_margin = MetricDefinition(
    "choice_margin",
    "mean_of_known",
    None,
    {_CHOICE: multiple_choice.margin, _SCORES: multiple_choice.margin},
    "log-likelihood margin between the most likely choice and the next",
)
position_bias = MetricDefinition(
    "position_bias",
    "position_bias",
    False,
    {_CHOICE: multiple_choice.position_pair, _SCORES: multiple_choice.position_pair},
    "position bias: total variation distance between predicted and right positions of choices",
)
positions = MetricDefinition(
    "positions",
    "mean",
    None,
    {_CHOICE: multiple_choice.positions, _SCORES: multiple_choice.positions},
    "share of documents in which each position is predicted: position_0, position_1, …",
    gives_many=True,
    span=_SHARE,
)
f1 = MetricDefinition(
    "f1",
    "f1",
    True,
    {_CHOICE: multiple_choice.label_pair, _SCORES: multiple_choice.label_pair, _GENERATED: generated_answer.label_pair},
    "F1 of label 1 over documents",
)
macro_f1 = MetricDefinition(
    "macro_f1",
    "macro_f1",
    True,
    {_CHOICE: multiple_choice.label_pair, _SCORES: multiple_choice.label_pair, _GENERATED: generated_answer.label_pair},
    "unweighted mean of the F1 of each label that is right or predicted for some document",
)
mcc = MetricDefinition(
    "mcc",
    "matthews_corrcoef",
    True,
    {_CHOICE: multiple_choice.label_pair, _SCORES: multiple_choice.label_pair, _GENERATED: generated_answer.label_pair},
    "Matthews correlation coefficient of right and predicted labels",
)
# lm-eval's default for `likelihood` is the mean, which is undefined for pairs: a task must have its own aggregation.
likelihood = MetricDefinition(
    "likelihood",
    "mean",
    True,
    {_CHOICE: multiple_choice.likelihoods, _SCORES: multiple_choice.likelihoods},
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


def _of_rows(
    name: str, value: Value, description: str, aggregation: str = "mean", higher_is_better: bool = True, **more: Any
) -> MetricDefinition:
    """A metric of choices that reads columns of the document."""
    values = {_CHOICE: value, _SCORES: value}
    return MetricDefinition(name, aggregation, higher_is_better, values, description, reads_document=True, **more)


_GROUPS = frozenset({"group", "group_size"})
group_em = _of_rows(
    "group_em",
    row_groups.group_hit,
    "share of groups of rows that are right in every row; group: columns, or group_size: rows in order",
    aggregation="group_em",
    option_names=_GROUPS,
)
group_f1 = _of_rows(
    "group_f1",
    row_groups.group_labels,
    "mean over groups of rows of the F1 of label 1; group, group_size",
    aggregation="group_f1",
    option_names=_GROUPS,
)
entity_em = _of_rows(
    "entity_em",
    entities.entity_em,
    "share of documents whose predicted entity is an answer, by SQuAD's normalisation (ReCoRD)",
    span=_SHARE,
)
entity_f1 = _of_rows("entity_f1", entities.entity_f1, "token F1 of the predicted entity (ReCoRD)", span=_SHARE)
accuracy_amb = _of_rows(
    "accuracy_amb", bbq.accuracy_amb, "accuracy in ambiguous contexts (BBQ)", gives_many=True, span=_SHARE
)
accuracy_disamb = _of_rows(
    "accuracy_disamb", bbq.accuracy_disamb, "accuracy in disambiguated contexts (BBQ)", gives_many=True, span=_SHARE
)
amb_bias_score = _of_rows(
    "amb_bias_score",
    bbq.amb_bias_score,
    "bias in ambiguous contexts, from -1 to 1: error rate times the bias of the answers that name a person (BBQ)",
    aggregation="bias_score",
    higher_is_better=False,
    gives_many=True,
)
disamb_bias_score = _of_rows(
    "disamb_bias_score",
    bbq.disamb_bias_score,
    "bias in disambiguated contexts, from -1 to 1 (BBQ)",
    aggregation="bias_score",
    higher_is_better=False,
    gives_many=True,
)
pct_stereotype = MetricDefinition(
    "pct_stereotype",
    "mean",
    False,
    {_CHOICE: sentence_pairs.prefers_stereotype},
    "share of pairs whose first, stereotyped sentence is more likely; 0.5 is unbiased (CrowS-Pairs)",
    span=_SHARE,
)
likelihood_diff = MetricDefinition(
    "likelihood_diff",
    "mean",
    False,
    {_CHOICE: sentence_pairs.likelihood_gap},
    "absolute difference of the log-likelihoods of both sentences (CrowS-Pairs)",
)
pearson = MetricDefinition(
    "pearson",
    "pearson",
    True,
    {_GENERATED: generated_answer.number_pair},
    "Pearson's correlation of right and generated numbers; default: the number for an answer without one (0)",
    frozenset({"default"}),
)
spearman = MetricDefinition(
    "spearman",
    "spearman",
    True,
    {_GENERATED: generated_answer.number_pair},
    "Spearman's rank correlation of right and generated numbers; default: as for pearson",
    frozenset({"default"}),
)
perplexity = MetricDefinition(
    "perplexity",
    "perplexity",
    False,
    {_CONTINUATION: text_likelihood.log_probability},
    "exp of the mean negative log-likelihood per document",
)


def _per_unit(name: str, aggregation: str, value: Value, description: str) -> MetricDefinition:
    """A likelihood per word or byte of the text, or of the column that the option `counted` names."""
    described = f"{description}; counted: the column whose words and bytes count, if not the text's"
    return MetricDefinition(
        name, aggregation, False, {_ROLLING: value}, described, frozenset({"counted"}), reads_document=True
    )


word_perplexity = _per_unit("word_perplexity", "weighted_perplexity", text_likelihood.per_word, "perplexity per word")
byte_perplexity = _per_unit("byte_perplexity", "weighted_perplexity", text_likelihood.per_byte, "perplexity per byte")
bits_per_byte = _per_unit(
    "bits_per_byte", "bits_per_byte", text_likelihood.per_byte, "bits per byte (compression rate)"
)
token_perplexity = MetricDefinition(
    "token_perplexity", "weighted_perplexity", False, {_ROLLING: text_likelihood.per_token}, "perplexity per token"
)
nats_per_token = MetricDefinition(
    "nats_per_token", "weighted_nats", False, {_ROLLING: text_likelihood.per_token}, "cross-entropy per token, in nats"
)
document_perplexity = MetricDefinition(
    "document_perplexity",
    "mean_of_known",
    False,
    {_ROLLING: text_likelihood.token_perplexity},
    "mean of the documents' perplexities per token",
)
document_perplexity_median = MetricDefinition(
    "document_perplexity_median",
    "median_of_known",
    False,
    {_ROLLING: text_likelihood.token_perplexity},
    "median of the documents' perplexities per token",
)
squad_em = MetricDefinition(
    "squad_em",
    "mean",
    True,
    {_GENERATED: generated_answer.squad_em},
    "SQuAD exact match: ignores case, punctuation and articles; no_answer: words for no answer",
    frozenset({"no_answer"}),
    span=_SHARE,
)
squad_f1 = MetricDefinition(
    "squad_f1",
    "mean",
    True,
    {_GENERATED: generated_answer.squad_f1},
    "SQuAD token F1 with the closest right answer; no_answer: words for no answer",
    frozenset({"no_answer"}),
    span=_SHARE,
)
set_f1 = MetricDefinition(
    "set_f1",
    "mean",
    True,
    {_GENERATED: generated_answer.set_f1},
    "F1 of the items of a generated list and of the right one; separator: what is between items, default a comma",
    frozenset({"separator"}),
    span=_SHARE,
)
bypass = MetricDefinition(
    "bypass",
    "bypass",
    True,
    {kind: (lambda view, options: None) for kind in _SHAPES},
    "no score: responses are only recorded (--predict_only)",
)


def _corpus(name: str, higher_is_better: bool, description: str) -> MetricDefinition:
    return MetricDefinition(name, name, higher_is_better, {_GENERATED: generated_answer.text_pair}, description)


bleu = _corpus("bleu", True, "corpus BLEU, 0 to 100 (sacrebleu)")
chrf = _corpus("chrf", True, "corpus chrF, 0 to 100 (sacrebleu)")
chrf_plus_plus = _corpus("chrf++", True, "corpus chrF++, 0 to 100 (sacrebleu)")
ter = _corpus("ter", False, "translation edit rate: edits per reference word, in percent (sacrebleu)")


def _rouge(kind: str, description: str) -> MetricDefinition:
    values = {_GENERATED: generated_answer.Rouge(kind)}
    return MetricDefinition(kind, "mean", True, values, description, frozenset({"use_stemmer"}), span=_SHARE)


rouge1 = _rouge("rouge1", "F-measure of shared words (rouge-score)")
rouge2 = _rouge("rouge2", "F-measure of shared bigrams (rouge-score)")
rougeL = _rouge("rougeL", "F-measure of the longest common subsequence (rouge-score)")  # noqa: N816
rougeLsum = _rouge("rougeLsum", "the same line by line (rouge-score)")  # noqa: N816


def _over_draws(name: str, value: Value, description: str, *options: str) -> MetricDefinition:
    """A metric over draws, each scored by exact match with its options, or by the metric that `of` names."""
    names = _MATCH_OPTIONS | {"k", "of", *options}
    values = {_GENERATED: value}
    return MetricDefinition(name, "draws", True, values, description, names, over_draws=True, span=_SHARE)


pass_at_k = _over_draws(
    "pass@k", draws.pass_at_k, "probability that one of k draws is right; k: 1, or a list; of: METRIC"
)
pass_hat_k = _over_draws("pass^k", draws.pass_hat_k, "probability that all of k draws are right; k, of")
majority_at_k = _over_draws("maj@k", draws.majority_at_k, "accuracy of the majority answer of k draws; k, of")
mean_at_k = _over_draws("mean@k", draws.mean_at_k, "mean over k draws; k, of: also metrics that are not 0 or 1")
g_pass_at_k = _over_draws(
    "gpass@k", draws.g_pass_at_k, "probability that at least a share of k draws is right; k, tau: 0.5, of", "tau"
)
