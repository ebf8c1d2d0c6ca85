"""Interface to scoring code of task files: the inputs it receives, how it is called, and how its errors are reported.

Such code is written for lm-eval, which has no `Logprob`: a log-likelihood is the pair (total, is_greedy), that of a
whole text is a number, an answer is a string.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from assay.core.documents import Document, is_changed
from assay.core.errors import DataError, Fault, UserError, install_line
from assay.core.requests import Instance, RollingLoglikelihood
from assay.core.responses import Logprob
from assay.core.specs import MetricSpec
from assay.scoring.metrics.definitions import Value
from assay.scoring.scorers.generated_answer import AnswerView, cast_like


def task_code_error(where: str, what: str, error: BaseException) -> UserError:
    """The error for task code that raised an exception; a user error stays as it is."""
    if isinstance(error, UserError):
        return error
    advice = "Fix the code that the task file names"
    if isinstance(error, ModuleNotFoundError) and error.name:
        advice = install_line(error.name)
    return UserError(Fault(where, f"{what} raised {type(error).__name__}: {error}", next=advice))


def as_lm_eval(questions: Sequence[Any], instance: Instance) -> list[Any]:
    """The outputs of each question in lm-eval's form. Idempotent."""
    first_draws = instance.requests[:: instance.draws]
    rolling = [isinstance(request, RollingLoglikelihood) for request in first_draws] or [False] * len(questions)
    return [_as_lm_eval(item, is_rolling) for item, is_rolling in zip(questions, rolling, strict=True)]


def _as_lm_eval(item: Any, is_rolling: bool) -> Any:
    if isinstance(item, Logprob):
        return item.total if is_rolling else (item.total, item.is_greedy)
    return [_as_lm_eval(part, is_rolling) for part in item] if isinstance(item, list) else item


def to_logprobs(results: Sequence[Any], where: str) -> list[Logprob]:
    """The inverse, for built-in metrics after a filter of the task: they read totals and greedy flags only."""
    return [_to_logprob(item, where) for item in results]


def _to_logprob(item: Any, where: str) -> Logprob:
    if isinstance(item, Logprob):
        return item
    try:
        total, is_greedy = item if isinstance(item, (list, tuple)) else (item, False)
        return Logprob(float(total), 0, bool(is_greedy))
    except (TypeError, ValueError) as error:
        expected = "(log-likelihood, is_greedy), or a number for a whole text"
        raise DataError(Fault(where, f"the task's filter returned {item!r} for a question", expected)) from error


ProcessFunction = Callable[[dict[str, Any], list[Any]], Mapping[str, Any]]


class ProcessedDocument(NamedTuple):
    """Result of the task's own scoring: values, and the document if the scoring changed it; else None."""

    values: dict[str, Any]
    document: Mapping[str, Any] | None


def run_process_results(
    process: ProcessFunction, document: Document, results: Sequence[Any], where: str
) -> ProcessedDocument:
    """Runs the task's own scoring of a document."""
    where = f"{where}, document {document.id}"
    own = copied_fields(document.fields)
    try:
        values = process(own, list(results))
    except (Exception, SystemExit) as error:  # task code may raise anything
        raise task_code_error(where, "process_results", error) from error
    if not isinstance(values, Mapping):
        raise UserError(Fault(where, f"process_results returned {values!r}", "a mapping from metric to value"))
    found = {str(name): value for name, value in values.items()}
    return ProcessedDocument(found, own if is_changed(own, document.fields) else None)


def copied_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a document that task code may change."""
    try:
        return copy.deepcopy(dict(fields))
    except Exception:  # a column may hold what cannot be copied, such as an open file; then it is shared
        return dict(fields)


def function_value(spec: MetricSpec) -> Value:
    """The value function of a task's own metric, or of one that is called in the same way."""
    assert spec.function is not None, "called for metrics with a function only"
    call = _caller(spec.function, spec.options)

    def value(view: AnswerView, options: Mapping[str, Any]) -> Any:
        if not view.is_multiple:
            return call(cast_like(view.golds[0], view.result), view.result)
        # lm-eval's rule for several right answers, whatever the metric: 1 if any of them scored above 0.
        found = [call(gold, view.result) for gold in view.golds]
        return float(any(score[spec.name] if isinstance(score, dict) else score for score in found))

    return value


def _caller(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    """A function of (right answer, result) that calls the metric with the arguments it accepts.

    lm-eval calls by name and, after any TypeError, again with the positional pair, which hides bugs in a metric. Here
    the signature decides. Trial calls remain for functions whose signature does not say: those that take any keyword
    (such as a plain decorator around a pass-through), and compiled ones.
    """

    def by_name(gold: Any, result: Any) -> Any:
        return function(references=[gold], predictions=[result], **options)

    def by_pair(gold: Any, result: Any) -> Any:
        return function([gold, result])

    def by_trial(gold: Any, result: Any) -> Any:
        try:
            return by_name(gold, result)
        except TypeError:
            return by_pair(gold, result)

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return by_trial
    try:
        signature.bind(references=[], predictions=[], **options)
    except TypeError:
        return by_pair
    return by_name if {"references", "predictions"} <= set(signature.parameters) else by_trial
