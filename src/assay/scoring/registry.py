"""Registries of filters, metrics and question views, with plugins; and what a task's scoring needs to be installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from assay.core.errors import Fault, UserError
from assay.core.metric_names import DRAW_METRICS, expanded_specs, family_of
from assay.core.packages import RequiredPackage, declared_packages
from assay.core.protocols import Filter
from assay.core.registry import Registry
from assay.core.requests import Instance
from assay.core.specs import FilterSpec, MetricSpec, Scoring
from assay.scoring.filters.custom import TaskFilter
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.metrics.definitions import MetricDefinition

_GENERATED, _EXACT = "generate_until", "exact_match"
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
    "acc_top2",
    "accuracy_amb",
    "accuracy_disamb",
    "amb_bias_score",
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
    "disamb_bias_score",
    "document_perplexity",
    "document_perplexity_median",
    "ece",
    "ece_adaptive",
    "entity_em",
    "entity_f1",
    "exact_match",
    "f1",
    "greedy_choice",
    "group_em",
    "group_f1",
    "likelihood",
    "likelihood_diff",
    "log_loss",
    "macro_f1",
    "mc2",
    "mcc",
    "mrr",
    "nats_per_token",
    "pct_stereotype",
    "pearson",
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
    "set_f1",
    "spearman",
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


class MetricKinds(Mapping[str, frozenset[str]]):
    """Metric → output types that it scores; a definition is loaded when its name is looked up."""

    def __getitem__(self, name: str) -> frozenset[str]:
        if name not in METRICS.names():
            raise KeyError(name)
        return frozenset(metric_definition(name).values)

    def __contains__(self, name: object) -> bool:
        return name in METRICS.names()

    def __iter__(self) -> Iterator[str]:
        return iter(METRICS.names())

    def __len__(self) -> int:
        return len(METRICS.names())


# Optional packages of a task's scoring, and metrics of `evaluate` that its code loads by name


def scoring_needs(scoring: Scoring, where: str) -> list[RequiredPackage]:
    """Every package that the filters, metrics and code of a task import when called.

    Args:
        scoring: the task's scoring.
        where: the task, for errors.
    """
    try:
        specs = expanded_specs(scoring.metrics, where)
    except UserError:  # reported when the scoring is resolved
        specs = scoring.metrics
    needs = [need for pipeline in scoring.pipelines for step in pipeline.steps for need in _of_filter(step, where)]
    for spec in specs:
        needs += _of_metric(spec, scoring, f'{where}, metric "{spec.name}"')
    return [*needs, *_of_code(scoring.process, f"{where}, process_results")]


def check_loaded(scoring: Scoring, where: str) -> None:
    """Loads the metrics of `evaluate` that the task's code will load, so that a missing one fails now."""
    code = list(_code(scoring))
    if not code:
        return
    from assay.scoring.code_imports import late_imports
    from assay.scoring.metrics.hf_evaluate import load_external

    for location, thing in code:
        for name, function in late_imports(thing).metrics.items():
            load_external(name, f"{where}, {location} ({function})")


def _of_filter(spec: FilterSpec, where: str) -> list[RequiredPackage]:
    location = f'{where}, filter "{spec.name}"'
    found = [need for thing in _filter_code(spec) for need in _of_code(thing, location)]
    if spec.factory is None and spec.name in FILTERS:
        found += declared_packages(FILTERS.get(spec.name, where), location)
    return found


def _filter_code(spec: FilterSpec) -> list[Any]:
    own = spec.options.get("filter_fn") if spec.name == "custom" else None
    return [thing for thing in (spec.factory, own) if thing is not None]


def _of_metric(spec: MetricSpec, scoring: Scoring, location: str) -> list[RequiredPackage]:
    found = _of_aggregation(spec, location)
    if scoring.process is not None:
        return found
    if scoring.scorer == _GENERATED and spec.function is not None:
        return found + _of_code(spec.function, location)
    if scoring.scorer == _GENERATED and spec.is_external and spec.name != _EXACT:
        return [*found, RequiredPackage("evaluate", location, "metrics")]
    if spec.name in METRICS:
        definition = metric_definition(spec.name)
        found += declared_packages(definition, location) + declared_packages(
            definition.values.get(scoring.scorer), location
        )
    return found


def _of_aggregation(spec: MetricSpec, location: str) -> list[RequiredPackage]:
    named = spec.aggregation
    if callable(named):
        return _of_code(named, location)
    if named is None and spec.name in METRICS:
        named = metric_definition(spec.name).aggregation
    return declared_packages(AGGREGATIONS[named], location) if named in AGGREGATIONS else []


def _of_code(thing: Any, location: str) -> list[RequiredPackage]:
    """The packages that a function or class declares, and those that its body imports."""
    if thing is None:
        return []
    from assay.scoring.code_imports import late_imports  # few tasks have code of their own

    found = late_imports(thing)
    needs = declared_packages(thing, location) + [
        need for function in found.called for need in declared_packages(function, location)
    ]
    return needs + [RequiredPackage(module, f"{location} ({function})") for module, function in found.modules.items()]


def _code(scoring: Scoring) -> Iterator[tuple[str, Any]]:
    """All scoring code of the task, with its location."""
    for pipeline in scoring.pipelines:
        yield from ((f'filter "{step.name}"', thing) for step in pipeline.steps for thing in _filter_code(step))
    if scoring.process is not None:
        yield "process_results", scoring.process
    for spec in scoring.metrics:
        yield from ((f'metric "{spec.name}"', each) for each in (spec.function, spec.aggregation) if callable(each))
