"""Metrics over several draws of a question: the score and vote of each draw.

Every draw is scored on its own, by exact match or by the metric that `of` names; pass@k and the like combine them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.metric_names import family_of, uses_all_draws
from assay.core.specs import MetricSpec
from assay.scoring.metrics.value_types import Unreadable, as_number
from assay.scoring.registry import METRICS
from assay.scoring.scorers.draws import DrawsView
from assay.scoring.scorers.generated_answer import AnswerView, normalised

_EXACT, _MEAN = "exact_match", "mean@k"
_OWN_SETTINGS = ("k", "tau", "of")


@dataclass(frozen=True, slots=True)
class ScoredDraw:
    """One scored draw: its value and its vote; both None if no answer was found in it."""

    value: float | None
    vote: Hashable | None


@dataclass(frozen=True, slots=True)
class DrawScorer:
    """Scorer of a single draw.

    Attributes:
        name: the metric.
        settings: its options, as sorted pairs of name and repr: draw scorers with equal settings are one.
        takes_any_number: whether any number is valid, as for mean@k; otherwise only 0 and 1.
        options: the options themselves.
    """

    name: str
    settings: tuple[tuple[str, str], ...]
    takes_any_number: bool
    options: Mapping[str, Any] = field(compare=False)

    def checked(self, value: Any, where: str) -> float:
        """The value of a draw as a number."""
        try:
            number = as_number(value)
        except Unreadable:
            raise UserError(Fault(where, f'metric "{self.name}" returned {value!r} for a draw', "a number")) from None
        if number in (0.0, 1.0) or self.takes_any_number:
            return number
        found = f'metric "{self.name}" returned {number:g} for a draw'
        raise UserError(Fault(where, found, "0 or 1", f"Only {_MEAN} accepts other numbers: of: {self.name}"))

    def found(self, values: Mapping[str, Any], where: str) -> float:
        """The value of a draw among those of the task's own scoring."""
        if self.name not in values:
            names = ", ".join(values) or "no metric"
            raise UserError(Fault(where, f'process_results returned no "{self.name}"', f"of: one of {names}"))
        return self.checked(values[self.name], where)


def draw_scorer_spec(
    spec: MetricSpec, listed: Sequence[MetricSpec], has_process: bool, where: str
) -> tuple[DrawScorer, MetricSpec | None]:
    """The draw scorer of a metric, and the metric that it computes; None if the task's own scoring does.

    Args:
        spec: the metric over draws.
        listed: all metrics of the task; a metric that `of` names is used as listed, with its options or its code.
        has_process: whether the task has its own scoring; then `of` is one of its values.
        where: the task, for errors.
    """
    name = spec.options.get("of", _EXACT)
    if not isinstance(name, str) or uses_all_draws(name):
        raise UserError(Fault(where, f'metric "{spec.name}" is of {name!r}', "of: a metric of a single answer"))
    options = {key: value for key, value in spec.options.items() if key not in _OWN_SETTINGS}
    takes_any_number = family_of(spec.name) == _MEAN
    if has_process:
        return _draw_scorer(name, {}, takes_any_number), None
    own = next((item for item in listed if item.name == name), None)
    if own is None and name not in METRICS:
        found = f'metric "{spec.name}" is of "{name}", which is unknown{did_you_mean(name, METRICS.names())}'
        raise UserError(
            Fault(where, found, "a metric that the task lists, or one of the table", "See: assay ls metrics")
        )
    own = MetricSpec(name) if own is None else own
    base = replace(own, options=options or own.options)
    return _draw_scorer(name, base.options, takes_any_number), base


def _draw_scorer(name: str, options: Mapping[str, Any], takes_any_number: bool) -> DrawScorer:
    return DrawScorer(
        name, tuple(sorted((key, repr(value)) for key, value in options.items())), takes_any_number, options
    )


def draw_vote(draw_scorer: DrawScorer, view: Any, filtered: Sequence[Any]) -> Hashable:
    """The vote of a draw: its text after the pipeline, under exact match without what that ignores."""
    if draw_scorer.name == _EXACT and isinstance(view, AnswerView):
        return normalised(view, draw_scorer.options)
    return tuple(map(str, filtered))


def draws_view(draws: Sequence[ScoredDraw], document_id: int) -> DrawsView:
    """The draws of a document as metrics see them. A draw without an answer is wrong and casts no vote."""
    values = tuple(draw.value or 0.0 for draw in draws)
    return DrawsView(values, tuple(draw.vote for draw in draws), document_id)
