"""The result of a run: tasks, groups, counts, notices. Reports read this and nothing else."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from assay.core.documents import Document
from assay.core.errors import Fault, UserError, no_such_result
from assay.core.protocols import Model, RendersPrompts
from assay.core.requests import Instance, Prompt
from assay.core.responses import Failure, LabelScores, Logprob, Output
from assay.core.scores import Denominators, MetricResult, Sample, TextCounts
from assay.core.secrets import redacted, redacted_text
from assay.core.specs import GroupSpec, PipelineSpec, RunSpec, TaskCard
from assay.core.tabular import Row, Tabular, as_frame

if TYPE_CHECKING:
    import pandas

# Columns of the table that terminals and notebooks show.
_DISPLAYED = ("task", "metric", "filter", "value", "stderr", "low", "high", "n")


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a part of a run is missing or incomplete: a task without a score, a group, a table, a file.

    Attributes:
        faults: where, what was found, what was expected, what to do next.
        error: the exception; None without one.
    """

    faults: tuple[Fault, ...]
    error: Exception | None = field(default=None, repr=False, compare=False)

    @property
    def is_bug(self) -> bool:
        """Whether it is a bug of Assay or a plugin, which the user cannot fix."""
        return self.error is not None and not isinstance(self.error, UserError)

    @property
    def text(self) -> str:
        """All faults in one line."""
        return "; ".join(" ".join(str(fault).split()) for fault in self.faults)

    def to_json(self) -> dict[str, Any]:
        """The problem as JSON data; with the traceback if it is a bug."""
        found: dict[str, Any] = {"text": self.text, "is_bug": self.is_bug}
        if self.is_bug and self.error is not None:
            found["trace"] = redacted_text("".join(traceback.format_exception(self.error)))
        return found


class JsonData(Protocol):
    """A value that result files can hold."""

    def to_json(self) -> dict[str, Any]:
        """The value as JSON data."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The values, lines and notices that an analysis adds to the result of a run.

    Attributes:
        key: the key of its values in the result file.
        values: numbers beside the scores.
        tasks: values that it adds to single tasks, by their names, under the same key.
        lines: sentences that are shown below the table.
        notices: warnings and remarks.
    """

    key: str = ""
    values: tuple[JsonData, ...] = ()
    tasks: Mapping[str, JsonData] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnsweredDocument:
    """A document, its instance, and the outputs request by request."""

    document: Document
    instance: Instance
    outputs: tuple[Output | Failure, ...]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task of a run.

    Attributes:
        card: the task's own description.
        metrics: every metric under every pipeline.
        denominators: document counts, including those that the metrics exclude.
        fingerprint: digest of the evaluated documents.
        prompts: digest of every request built.
        answered: documents with their instances and outputs, in order.
        samples: scored documents, one per pipeline and document, in order.
        directions: metric that the task lists, or that one of them gave → whether higher is better.
        rates: for generated answers: the share that was cut off, and per pipeline the share without an answer.
        pipelines: the task's filter chains, to filter its answers again.
        texts: counts behind perplexities, for a task of whole texts.
        additions: values that features add to the task, by key in the result file; see `reliability` and `subsample`.
        problem: why the task has no score; None if it has one.
    """

    card: TaskCard
    metrics: tuple[MetricResult, ...]
    denominators: Denominators
    fingerprint: str
    prompts: str
    answered: Sequence[AnsweredDocument] = field(default=(), repr=False)
    samples: Sequence[Sample] = field(default=(), repr=False)
    directions: Mapping[str, bool | None] = field(default_factory=dict, repr=False)
    rates: tuple[MetricResult, ...] = ()
    pipelines: tuple[PipelineSpec, ...] = field(default=(), repr=False)
    texts: TextCounts | None = None
    additions: Mapping[str, JsonData] = field(default_factory=dict)
    problem: Problem | None = None

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def reliability(self) -> Any:
        """Accuracy by confidence (`assay.studies.calibration.reliability.Reliability`), if computed."""
        return self.additions.get("reliability")

    @property
    def subsample(self) -> Any:
        """Estimates from a random sample (`assay.studies.sampling.subsample_values.SubsampleResult`), or None."""
        return self.additions.get("spared")

    @property
    def sample_len(self) -> int:
        """Documents that count: the largest n among the metrics."""
        return max((metric.estimate.n for metric in self.metrics), default=self.denominators.scored)

    def metric(self, name: str, filter: str | None = None) -> MetricResult:
        """The metric of this name; the first pipeline that has it unless one is named."""
        for result in self.metrics:
            if result.metric == name and filter in (None, result.filter):
                return result
        raise no_such_result(f"task {self.name}", "metric", name, [result.metric for result in self.metrics])

    def rate(self, name: str, filter: str | None = None) -> MetricResult:
        """The rate of this name, `no_answer` or `truncated`; the first pipeline that has it unless one is named."""
        for result in self.rates:
            if result.metric == name and filter in (None, result.filter):
                return result
        raise no_such_result(f"task {self.name}", "rate", name, [result.metric for result in self.rates])


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One group of a run: its metrics over its leaf tasks.

    Attributes:
        texts: counts behind perplexities, if the group is computed over all texts of its leaves.
        denominators: the counts of all leaves' documents.
        problem: why the group has no score of its own; None if it has one, or reports none.
    """

    spec: GroupSpec
    leaves: tuple[str, ...]
    metrics: tuple[MetricResult, ...]
    sample_len: int
    texts: TextCounts | None = None
    denominators: Denominators = field(default_factory=lambda: Denominators(0, 0, 0))
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """The requests of a run.

    Attributes:
        built: requests of all instances.
        unique: distinct requests.
        known: distinct requests that the store could answer.
        asked: distinct requests that were sent to the model.
        failed: those of them that failed.
    """

    built: int
    unique: int
    known: int
    asked: int
    failed: int = 0

    def to_json(self) -> dict[str, Any]:
        """The counts as JSON data, under the keys of records since their first version."""
        data = asdict(self)
        return {"posed": data.pop("built"), **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RequestCounts:
        """The counts that `to_json` wrote."""
        return cls(**{"built" if key == "posed" else key: value for key, value in data.items()})


@dataclass(frozen=True, slots=True)
class RunResult(Tabular):
    """A whole run.

    Attributes:
        run_id: name of the record in the store.
        spec: the specification of the run.
        tasks: task results, in the order of the run.
        groups: group results, bottom-up.
        counts: requests built, known, executed, failed.
        failures: number of failed requests by kind, with one message each.
        notices: warnings and remarks.
        manifest: everything needed to repeat the run.
        timings: seconds per stage.
        store: path of the store, or `:memory:`.
        model_run: execution report of the model, if any: engine and reason, tokens, seconds without loading.
        contributions: contributions of analyses, in order; see `prompts` and `variance`.
        run_problems: other parts that could not be made, such as the notices or the end of the record.
        model: the model, its weights released: it renders prompts and states facts for result files. None, or one
            that can do neither, if a run was rescored without its model.
    """

    run_id: str
    spec: RunSpec
    tasks: tuple[TaskResult, ...]
    groups: tuple[GroupResult, ...]
    counts: RequestCounts
    failures: Mapping[str, tuple[int, str]]
    notices: tuple[str, ...]
    manifest: Mapping[str, Any]
    timings: Mapping[str, float]
    store: str
    model_run: Mapping[str, Any] = field(default_factory=dict)
    contributions: tuple[Contribution, ...] = ()
    run_problems: tuple[Problem, ...] = ()
    model: Model | None = field(default=None, repr=False, compare=False)

    @property
    def prompts(self) -> tuple[Any, ...]:
        """Tasks in several prompts, by metric (`assay.studies.variance.variance_values.PromptAxis`)."""
        return self.values("prompts")

    @property
    def variance(self) -> tuple[Any, ...]:
        """Tasks in several prompts, seeds, orders or draws, by metric (`…values.TaskVariance`)."""
        return self.values("variance")

    def values(self, key: str) -> tuple[Any, ...]:
        """The contribution of the analysis with this key; empty if there is none."""
        return next((item.values for item in self.contributions if item.key == key and item.values), ())

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is missing: tasks and groups without a score, and other parts that could not be made."""
        own = (*(task.problem for task in self.tasks), *(group.problem for group in self.groups))
        return (*(problem for problem in own if problem is not None), *self.run_problems)

    @property
    def is_whole(self) -> bool:
        """Whether every request was answered, now or earlier, and every task scored."""
        lacks = self.counts.failed or any(task.denominators.failed for task in self.tasks)
        return not lacks and not self.problems

    def __post_init__(self) -> None:
        """Redacts secrets in texts from models and task code."""
        object.__setattr__(self, "notices", tuple(map(redacted_text, self.notices)))
        object.__setattr__(self, "model_run", redacted(self.model_run))

    def rendered(self, prompt: Prompt) -> str | None:
        """A conversation as its model reads it; None if the model is not available or does not render prompts."""
        return self.model.render(prompt) if isinstance(self.model, RendersPrompts) else None

    def task(self, name: str) -> TaskResult:
        """The task of this name."""
        for result in self.tasks:
            if result.name == name:
                return result
        raise no_such_result(f"run {self.run_id}", "task", name, [result.name for result in self.tasks])

    def group(self, name: str) -> GroupResult:
        """The group of this name."""
        for result in self.groups:
            if result.spec.name == name:
                return result
        raise no_such_result(f"run {self.run_id}", "group", name, [result.spec.name for result in self.groups])

    def to_dicts(self, samples: bool = False) -> list[Row]:
        """One row per task (or group), metric and filter pipeline.

        Args:
            samples: one row per document and pipeline instead, with the document, the answer and its score by every
                metric.
        """
        if samples:
            return [row for task in self.tasks for row in _sample_rows(self.spec.model, task)]
        rows = [_metric_row(self.spec.model, task.card, metric) for task in self.tasks for metric in task.metrics]
        return rows + [
            _group_row(self.spec.model, group.spec, metric) for group in self.groups for metric in group.metrics
        ]

    def to_pandas(self, samples: bool = False) -> pandas.DataFrame:
        """The rows of `to_dicts` as a pandas frame."""
        return as_frame(self.to_dicts(samples), "RunResult.to_pandas()")

    def _display_rows(self) -> list[Row]:
        return [{name: row[name] for name in _DISPLAYED} for row in self.to_dicts()]

    def summary(self) -> dict[str, Any]:
        """Every number of the run as JSON data, without samples, for the store and the result file."""
        return {
            "tasks": {
                task.name: {
                    "metrics": [asdict(metric) for metric in task.metrics],
                    "rates": [asdict(rate) for rate in task.rates],
                    "denominators": asdict(task.denominators),
                    "documents_fingerprint": task.fingerprint,
                    "prompts_fingerprint": task.prompts,
                    **({"texts": asdict(task.texts)} if task.texts is not None else {}),
                    **{key: value.to_json() for key, value in sorted(task.additions.items())},
                    **({"problem": task.problem.to_json()} if task.problem is not None else {}),
                }
                for task in self.tasks
            },
            "texts": {group.spec.name: asdict(group.texts) for group in self.groups if group.texts is not None},
            "groups": {group.spec.name: [asdict(metric) for metric in group.metrics] for group in self.groups},
            "group_denominators": {group.spec.name: asdict(group.denominators) for group in self.groups},
            "requests": self.counts.to_json(),
            "failures": {kind: {"count": count, "example": text} for kind, (count, text) in self.failures.items()},
            "notices": list(self.notices),
            "timings": dict(self.timings),
            "model_run": dict(self.model_run),
            **{item.key: [value.to_json() for value in item.values] for item in self.contributions if item.values},
            **({"problems": [problem.to_json() for problem in self.problems]} if self.problems else {}),
        }


def _metric_row(model: str, card: TaskCard, metric: MetricResult) -> Row:
    named = {"task": card.name, "is_group": False, "version": card.version, "num_fewshot": card.num_fewshot}
    return {"model": model, **named, **_numbers(metric)}


def _group_row(model: str, spec: GroupSpec, metric: MetricResult) -> Row:
    named = {"task": spec.name, "is_group": True, "version": spec.version, "num_fewshot": None}
    return {"model": model, **named, **_numbers(metric)}


def _numbers(metric: MetricResult) -> Row:
    estimate = metric.estimate
    return {
        "metric": metric.metric,
        "filter": metric.filter,
        "higher_is_better": metric.higher_is_better,
        **{name: getattr(estimate, name) for name in ("value", "stderr", "low", "high", "n", "method")},
    }


def _sample_rows(model: str, task: TaskResult) -> list[Row]:
    answered = {item.document.id: item for item in task.answered}
    rows = []
    for sample in task.samples:
        item = answered[sample.document_id]
        answers = [_plain_answer(answer) for answer in sample.filtered]
        rows.append(
            {
                "model": model,
                "task": task.name,
                "document_id": sample.document_id,
                "filter": sample.filter,
                "document": dict(item.document.fields),
                "target": item.instance.target,
                "answer": answers[0] if len(answers) == 1 else answers,
                **sample.values,
            }
        )
    return rows


def _plain_answer(answer: Any) -> Any:
    """The outputs of a question after a pipeline: texts unchanged, log-likelihoods as numbers."""
    if isinstance(answer, Logprob):
        return answer.total
    if isinstance(answer, LabelScores):
        return list(answer.scores)
    return [_plain_answer(item) for item in answer] if isinstance(answer, (list, tuple)) else answer
