"""Metrics of the package `evaluate`, loaded by name before the run starts, if a value will be needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from assay.core.errors import Fault, UnknownName, UserError, did_you_mean
from assay.core.packages import is_installed, require
from assay.core.specs import MetricSpec


def with_external_function(spec: MetricSpec, known: list[str], where: str) -> MetricSpec:
    """The metric with `evaluate`'s function. A metric that cannot be loaded fails now, not after hours of inference.

    A name that the task file does not mark as one of `evaluate` may just be misspelt, and is reported as such.
    """
    if spec.is_external:
        require("evaluate", f'{where}, metric "{spec.name}"')
    elif not is_installed("evaluate"):
        raise UnknownName(
            Fault(
                where,
                f'unknown metric "{spec.name}"{did_you_mean(spec.name, known)}',
                next="See: assay ls metrics. For one of the package evaluate: pip install 'assay-eval[metrics]'",
            )
        )

    loaded = load_external(spec.name, f'{where}, metric "{spec.name}"')

    def compute(references: list[Any], predictions: list[Any], **options: Any) -> Any:
        return loaded(references=references, predictions=predictions, **options)

    return replace(spec, function=compute)


@lru_cache(maxsize=64)
def load_external(name: str, where: str) -> Callable[..., Any]:
    """The function of a metric of `evaluate`; an error if it cannot be loaded."""
    require("evaluate", where)
    import evaluate

    try:
        compute: Callable[..., Any] = evaluate.load(name).compute
    except Exception as error:  # no network, unknown metric, a missing package of the metric, …
        raise UserError(
            Fault(
                where,
                f'the package evaluate could not load "{name}": {type(error).__name__}: {str(error).rstrip(".")}',
                next="Check the name and the network. See: assay ls metrics",
            )
        ) from error
    return compute
