"""Registries of filters, metrics and question views, with plugins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from assay.core.errors import Fault, UserError
from assay.core.metric_names import DRAW_METRICS, family_of
from assay.core.protocols import Filter
from assay.core.registry import Registry
from assay.core.requests import Instance
from assay.core.specs import FilterSpec
from assay.scoring.filters.custom import TaskFilter
from assay.scoring.metrics.definitions import MetricDefinition

View = Callable[[Instance, Sequence[Any]], Any]

FILTERS = Registry(
    "filter",
    {
        "take_first": "assay.scoring.filters.draw_selection:take_first",
        "take_first_k": "assay.scoring.filters.draw_selection:take_first_k",
        "majority_vote": "assay.scoring.filters.draw_selection:majority_vote",
        "extract": "assay.scoring.filters.extract:extract",
        "regex": "assay.scoring.filters.text_filters:regex",
        "multi_choice_regex": "assay.scoring.filters.text_filters:multi_choice_regex",
        "remove_whitespace": "assay.scoring.filters.text_filters:remove_whitespace",
        "lowercase": "assay.scoring.filters.text_filters:lowercase",
        "uppercase": "assay.scoring.filters.text_filters:uppercase",
        "map": "assay.scoring.filters.text_filters:map_values",
        "regex_pos": "assay.scoring.filters.tagging:regex_pos",
        "format_span": "assay.scoring.filters.tagging:format_span",
        "custom": "assay.scoring.filters.custom:custom",
        "decontaminate": "assay.scoring.filters.custom:decontaminate",
    },
    "assay.filters",
)

_METRIC_NAMES = (
    "acc",
    "acc_all",
    "acc_bytes",
    "acc_mutual_info",
    "acc_mutual_phrase",
    "acc_norm",
    "acc_opencompass",
    "acc_per_char",
    "acc_tokens",
    "aurc",
    "auroc",
    "bits_per_byte",
    "bleu",
    "brier_score",
    "bypass",
    "byte_perplexity",
    "choice_margin",
    "choice_mass",
    "chrf",
    "chrf++",
    "cohen_kappa",
    "document_perplexity",
    "document_perplexity_median",
    "ece",
    "ece_adaptive",
    "exact_match",
    "f1",
    "greedy_choice",
    "likelihood",
    "log_loss",
    "mcc",
    "nats_per_token",
    "perplexity",
    "position_bias",
    "positions",
    "rotation_agreement",
    "rotation_all",
    "rotation_vote",
    "rouge1",
    "rouge2",
    "rougeL",
    "rougeLsum",
    "selective_acc",
    "squad_em",
    "squad_f1",
    "ter",
    "token_perplexity",
    "word_perplexity",
)
# Defined apart from the others, in `benchmark_metrics`.
OF_BENCHMARKS = (
    *("math_match", "minerva_match", "math_verify", "drop_em", "drop_f1", "coqa_em", "coqa_f1"),
    *(
        f"{measure}_{summary}"
        for measure in ("bleu", "rouge1", "rouge2", "rougeL")
        for summary in ("max", "acc", "diff")
    ),
    *("prompt_level_strict_acc", "inst_level_strict_acc", "prompt_level_loose_acc", "inst_level_loose_acc"),
)
_OTHER_ATTRIBUTES = {
    "chrf++": "chrf_plus_plus",
    **dict(zip(DRAW_METRICS, ("pass_at_k", "pass_hat_k", "majority_at_k", "mean_at_k", "g_pass_at_k"), strict=True)),
}


class _Metrics(Registry):
    """Metrics, also found by a name that contains a setting, such as pass@5."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(family_of(name) if isinstance(name, str) else name)

    def get(self, name: str, where: str = "") -> Any:
        return super().get(family_of(name), where)


METRICS = _Metrics(
    "metric",
    {
        name: f"assay.scoring.metrics.definitions:{_OTHER_ATTRIBUTES.get(name, name)}"
        for name in (*_METRIC_NAMES, *DRAW_METRICS)
    }
    | {name: f"assay.scoring.metrics.benchmark_metrics:{name}" for name in OF_BENCHMARKS},
    "assay.metrics",
)

# Output type → what metrics see of a document.
SCORERS = Registry(
    "scorer",
    {
        "multiple_choice": "assay.scoring.scorers.multiple_choice:choice_view",
        "label_scores": "assay.scoring.scorers.multiple_choice:scores_view",
        "rotated_choice": "assay.scoring.scorers.choice_orders:rotated_view",
        "rotated_answer": "assay.scoring.scorers.choice_orders:rotated_answers",
        "loglikelihood": "assay.scoring.scorers.text_likelihood:likelihood_view",
        "loglikelihood_rolling": "assay.scoring.scorers.text_likelihood:likelihood_view",
        "generate_until": "assay.scoring.scorers.generated_answer:answer_view",
    },
    "assay.scorers",
)


def make_filter(spec: FilterSpec, where: str) -> Filter:
    """The filter that a task file describes; the task's own class, if given, is used as in lm-eval."""
    factory = _made(spec.factory) if spec.factory is not None else FILTERS.get(spec.name, where)
    try:
        built: Filter = factory(**spec.options)
    except UserError:
        raise
    except Exception as error:  # invalid settings may raise TypeError, re.error, …
        raise UserError(
            Fault(
                where, f'filter "{spec.name}" does not take {dict(spec.options)}: {error}', next="See: assay ls filters"
            )
        ) from error
    return built


def _made(factory: Callable[..., Any]) -> Callable[..., Filter]:
    def make(**options: Any) -> Filter:
        return TaskFilter(factory(**options))

    return make


def metric_definition(name: str, where: str = "") -> MetricDefinition:
    """The metric registered under this name."""
    definition: MetricDefinition = METRICS.get(name, where)
    return definition
