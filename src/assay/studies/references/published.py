"""Published numbers of the models of a run, beside its scores.

In: the results of a run and the names of its model. Out: a comparison for each published number of that model. The
published value counts as exact: its own sampling error is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from assay.core.results import GroupResult, TaskResult
from assay.core.scores import Estimate, MetricResult
from assay.studies.references.model_names import ModelName, matching_name

INSIDE, ABOVE, BELOW = "inside", "above", "below"
EXACT = "A published value counts as exact here: its own sampling error is not known."


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """A published number of the run's model, and the run's score.

    Attributes:
        task: the task or group.
        metric, filter: the score of the run.
        model: the model as published.
        origin: why it is the model of the run, if its name is not the one that the user gave.
        published: the published value.
        source: where it was published.
        shots: its few-shot examples; None if not stated.
        own_shots: those of the run; None for a group.
        value, low, high: the run's score and its interval.
        place: where the published value lies: `inside` the interval, `above` or `below` it; None without an interval.
        note: what the source adds.
    """

    task: str
    metric: str
    filter: str
    model: str
    origin: str
    published: float
    source: str
    shots: int | None
    own_shots: int | None
    value: float | None
    low: float | None
    high: float | None
    place: str | None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON data."""
        return asdict(self)

    @property
    def distance(self) -> float | None:
        """How far the published value lies outside the interval; 0 inside."""
        if self.low is None or self.high is None:
            return None
        return max(self.low - self.published, self.published - self.high, 0.0)

    @property
    def line(self) -> str:
        """The comparison in one sentence."""
        shots = "" if self.shots is None else f", {self.shots} {'shot' if self.shots == 1 else 'shots'}"
        if None not in (self.shots, self.own_shots) and self.shots != self.own_shots:
            shots += f", here {self.own_shots}"
        notes = "".join(f"; {text}" for text in (self.note, self.origin) if text)
        head = (
            f"{self.task}: {self.metric} of {self.model} published {self.published:.4g} ({self.source}{shots}{notes})"
        )
        if self.value is None:
            return f"{head}: no score here"
        if self.place is None:
            return f"{head}: {self.value:.4g} here, without an interval"
        interval = f"your interval {self.low:.4f} … {self.high:.4f}"
        if self.place == INSIDE:
            return f"{head}: inside {interval}"
        see = f"see: assay explain {self.task} --reference {_quoted(self.model)}"
        return f"{head}: {self.distance:.4g} {self.place} {interval}; {see}"


def _quoted(text: str) -> str:
    return f"'{text}'" if " " in text else text


def published_scores(
    tasks: Sequence[TaskResult], groups: Sequence[GroupResult], names: list[ModelName]
) -> tuple[PublishedScore, ...]:
    """Every published number of the model of a run."""
    own = [(task.name, task.card.facts, task.metrics, task.card.num_fewshot) for task in tasks]
    both = [*own, *((group.spec.name, group.spec.facts, group.metrics, None) for group in groups)]
    found = (
        compared_score(name, entry, metrics, shots, names)
        for name, facts, metrics, shots in both
        for entry in facts.get("references") or ()
    )
    return tuple(item for item in found if item is not None)


def compared_score(
    task: str, entry: Mapping[str, Any], metrics: Sequence[MetricResult], shots: int | None, names: list[ModelName]
) -> PublishedScore | None:
    """A published number beside the score of a task; None if it is about another model or metric.

    Args:
        task: name of the task or group.
        entry: the published number, as the card states it.
        metrics: the scores of the task.
        shots: few-shot examples of the task; None for a group.
        names: the names of the run's model.
    """
    name = matching_name(str(entry.get("model", "")), names)
    score = _find_metric(entry, metrics)
    if name is None or score is None or entry.get("value") is None:
        return None
    estimate, value = score.estimate, float(entry["value"])
    return PublishedScore(
        task=task,
        metric=score.metric,
        filter=score.filter,
        model=str(entry["model"]),
        origin=name.origin,
        published=value,
        source=str(entry.get("source", "")),
        shots=entry.get("shots"),
        own_shots=shots,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        place=_place_of(value, estimate),
        note=str(entry.get("note", "")),
    )


def _find_metric(entry: Mapping[str, Any], metrics: Sequence[MetricResult]) -> MetricResult | None:
    """The score that a published number is about; None if the run does not report its metric."""
    metric, _, pipeline = str(entry.get("metric", "")).partition(",")
    pipeline = str(entry.get("filter") or pipeline)
    own = [item for item in metrics if item.metric == metric and pipeline in ("", item.filter)]
    return own[0] if own else None


def _place_of(value: float, estimate: Estimate) -> str | None:
    """Where a value lies: inside an estimate's interval, above or below it; None without an interval."""
    if estimate.low is None or estimate.high is None:
        return None
    return BELOW if value < estimate.low else ABOVE if value > estimate.high else INSIDE


def published_lines(found: Sequence[PublishedScore]) -> list[str]:
    """The comparisons as sentences, and what they leave out."""
    return [*(item.line for item in found), EXACT] if found else []
