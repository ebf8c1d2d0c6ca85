"""`@assay.metric` and `@assay.filter`: a function becomes a metric or a filter with a name.

@assay.metric("brief")
def brief(prediction: str, references: Sequence[str]) -> float:
    return float(len(prediction) <= max(map(len, references)))
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from assay.core.call_checks import checked
from assay.core.errors import ArgumentError, Fault, did_you_mean
from assay.core.plugin_functions import PluginFunction, plugin_function
from assay.core.protocols import Filter
from assay.scoring.metrics.aggregations import AGGREGATIONS
from assay.scoring.metrics.definitions import MetricDefinition, Value
from assay.scoring.provenance import Extractions, TruncationFlags, inferred_extractions
from assay.scoring.registry import FILTERS, METRICS
from assay.scoring.scorers.generated_answer import AnswerView

OutputType = Literal["generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling"]
MetricFunction = TypeVar("MetricFunction", bound=Callable[..., Any])
FilterFunction = TypeVar("FilterFunction", bound=Callable[..., Any])
_GENERATED = "generate_until"


@checked()
def metric(
    name: str,
    *,
    output_type: OutputType = "generate_until",
    higher_is_better: bool | None = True,
    aggregation: str = "mean",
    bounds: tuple[float, float] | None = None,
) -> Callable[[MetricFunction], MetricFunction]:
    """Makes a function that scores one document into a metric, for `metrics=` and for task files.

    For generated text the function is called as `f(prediction, references)`: a string, and all right answers. For
    multiple choice it is called with a `ChoiceView`, for log-likelihoods with a `LikelihoodView`. Keyword-only
    parameters are settings that a task file may set beside the metric's name. The record of a run names the metric
    and a hash of the function's source.

    Args:
        name: the metric's name.
        output_type: the kind of task that it scores.
        higher_is_better: direction; None if undefined.
        aggregation: how the documents' values become one number, see docs/statistics.md.
        bounds: lowest and highest value of a document, if known.
    """
    METRICS.check_name(name)
    if aggregation not in AGGREGATIONS:
        found = f'unknown aggregation "{aggregation}"{did_you_mean(aggregation, AGGREGATIONS)}'
        raise ArgumentError(Fault(f'@assay.metric("{name}")', found, "one of " + ", ".join(sorted(AGGREGATIONS))))

    def wrap(function: MetricFunction) -> MetricFunction:
        parameters = ("prediction", "references") if output_type == _GENERATED else ("view",)
        plugin = plugin_function("metric", name, function, parameters)
        definition = MetricDefinition(
            name=name,
            aggregation=aggregation,
            higher_is_better=higher_is_better,
            values={output_type: _value(plugin, aggregation == "mean", output_type == _GENERATED)},
            description=plugin.description,
            option_names=frozenset(plugin.settings),
            span=bounds,
            code=plugin.digest,
        )
        METRICS.add(name, function, definition)
        return function

    return wrap


def _value(plugin: PluginFunction, is_number: bool, is_generated: bool) -> Value:
    """The value function; of several draws that a pipeline left, the mean."""

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            found = function(*arguments)
        except Exception as error:  # a function of the user may raise anything
            raise plugin.raised(error, arguments[0]) from error
        if not is_number:
            return found
        if not isinstance(found, numbers.Real):  # True and False are
            raise plugin.returned(found, "a number, True or False", "Return a number on every path")
        return float(found)

    def text_value(view: AnswerView, options: Mapping[str, Any]) -> Any:
        function = plugin.with_settings(options)
        found = [call(function, prediction, view.golds) for prediction in view.texts]
        return found[0] if len(found) == 1 else sum(found) / len(found) if found else 0.0

    def view_value(view: Any, options: Mapping[str, Any]) -> Any:
        return call(plugin.with_settings(options), view)

    return text_value if is_generated else view_value


@checked()
def filter(name: str, *, fallback: str | None = None) -> Callable[[FilterFunction], FilterFunction]:
    """Makes a function that maps one generated text to another into a filter, for `filter_list` and `PipelineSpec`.

    The function is called as `f(text)` for every draw, and returns a string. Keyword-only parameters are settings of
    the filter. With a `fallback` it may return None for "no answer found": the fallback then takes its place, and the
    document counts as one without an answer.

    Args:
        name: the filter's name.
        fallback: the output for no answer, such as `[invalid]`; None for a filter that does not look for answers.
    """
    FILTERS.check_name(name)

    def wrap(function: FilterFunction) -> FilterFunction:
        plugin = plugin_function("filter", name, function, ("text",))

        def make(**settings: Any) -> Filter:
            call = plugin.with_settings(settings)
            return _TextFilter(plugin, call) if fallback is None else _ExtractingFilter(plugin, call, fallback)

        make.__doc__ = plugin.description
        make.code = plugin.digest  # type: ignore[attr-defined]  # for the record of a run
        own = [item for item in inspect.signature(function).parameters.values() if item.kind is item.KEYWORD_ONLY]
        make.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]  # for `assay ls filters`
        FILTERS.add(name, function, make)
        return function

    return wrap


class _TextFilter:
    """Maps each draw separately; other outputs than text are unchanged."""

    def __init__(self, plugin: PluginFunction, call: Callable[[str], Any], fallback: str | None = None) -> None:
        self._plugin = plugin
        self._function = call
        self._fallback = fallback

    def __call__(self, responses: list[Any], document: Mapping[str, Any]) -> list[Any]:
        return [list(map(self._map, item)) if isinstance(item, list) else self._map(item) for item in responses]

    def _map(self, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        try:
            found = self._function(text)
        except Exception as error:  # a function of the user may raise anything
            raise self._plugin.raised(error, text) from error
        if found is None and self._fallback is not None:
            return self._fallback
        if not isinstance(found, str):
            advice = 'For "no answer found" say @assay.filter(…, fallback="[invalid]")' if found is None else ""
            raise self._plugin.returned(found, "a string", advice)
        return found


class _ExtractingFilter(_TextFilter):
    """A filter that may find no answer; reports which texts had one."""

    def __init__(self, plugin: PluginFunction, call: Callable[[str], Any], fallback: str) -> None:
        super().__init__(plugin, call, fallback)
        self.fallback = fallback

    def traced(
        self, responses: list[Any], document: Mapping[str, Any], is_truncated: TruncationFlags = ()
    ) -> tuple[list[Any], Extractions]:
        found = self(responses, document)
        return found, inferred_extractions(self._plugin.name, None, responses, found, frozenset({self.fallback}))

    def comparable(self, answer: Any) -> Any:
        return answer
