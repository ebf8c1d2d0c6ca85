"""Checks of a benchmark's scores: models that know the right answers are evaluated in the ordinary way.

In: tasks as asked. Out: findings where right, wrong or random answers do not score what they must.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from assay.core.errors import AssayError
from assay.core.metric_names import family_of
from assay.core.protocols import Task
from assay.core.requests import REQUEST_KINDS, Instance
from assay.core.responses import Output
from assay.core.results import TaskResult
from assay.core.scores import MetricResult, Sample
from assay.options.specification import make_spec
from assay.run.build import has_invalid_gold
from assay.run.events import ignore
from assay.run.session import Session, run
from assay.scoring.document_scorer import DocumentScorer, document_scorer
from assay.store.store import open_store
from assay.tasks.head_requests import HeadTask
from assay.tasks.selection import Selection
from assay.testing.benchmark_values import FindingList
from assay.testing.metric_ranges import best_value, is_best, is_builtin
from assay.testing.oracles import (
    NONSENSE,
    Answers,
    answers_by_request,
    answers_for_choices,
    certain_answers,
    oracle,
    random_choice,
    right_choices,
    right_text,
    wrong_choice,
)
from assay.testing.prompt_checks import AskedDocument

# Metrics that are 1 for a document whose predicted choice is right.
_HITS = ("acc", "exact_match")
_CORRELATIONS = ("mcc", "cohen_kappa", "pearson", "spearman")
# Standard errors by which a rate may differ from its expectation.
_STANDARD_ERRORS = 4.0
_LEAST_TOLERANCE = 0.006


@dataclass(frozen=True)
class AskedTask:
    """A task, or a style or head of it, with its documents built.

    Attributes:
        task: the task.
        name: its name in reports.
        documents: its documents as asked.
        findings: what was found so far.
        head: kind of the head that answers it; empty for a language model.
    """

    task: Task
    name: str
    documents: tuple[AskedDocument, ...]
    findings: FindingList
    head: str = ""

    @property
    def card(self) -> Mapping[str, Any]:
        """What the task states about itself."""
        return self.task.card.facts

    @property
    def primary(self) -> str:
        """The metric to quote: the card's if the task reports it, else its first."""
        names = [spec.name for spec in self.task.scoring.metrics]
        stated = str(self.card.get("primary") or "").partition(",")[0]
        return stated if stated and (stated in names or not names) else (names[0] if names else "")

    @property
    def primary_pipeline(self) -> str:
        """The filter pipeline whose value is quoted: the card's, else the first."""
        named = str(self.card.get("primary") or "").partition(",")[2]
        names = [pipeline.name for pipeline in self.task.scoring.pipelines]
        return named if named in names else names[0]

    def quoted(self, result: TaskResult) -> MetricResult | None:
        """The value to quote of a result."""
        own = [metric for metric in result.metrics if metric.metric == self.primary]
        return next((metric for metric in own if metric.filter == self.primary_pipeline), own[0] if own else None)

    @property
    def has_choices(self) -> bool:
        """Whether every document has choices and a right one among them."""
        return all(right_choices(item.instance) for item in self.documents)

    @cached_property
    def scorer(self) -> DocumentScorer:
        return document_scorer(self.task.scoring, f"task {self.task.card.name}")


# Answers to one document; None where there is none, such as a wrong choice among right ones.
_Reply = Callable[[AskedTask, AskedDocument], "Sequence[Output] | None"]


def check_answers(tasks: Sequence[AskedTask]) -> None:
    """Right, wrong and random answers to tasks; tasks that do not build, or have no valid label, are left out."""
    ready = [task for task in tasks if _is_ready(task)]
    texts = {task.name: found for task in ready if (found := _right_texts(task)) is not None}
    ready = [task for task in ready if task.name in texts]
    right = _right_scores(ready, texts)
    wrong = _scores(ready, "wrong", _wrong)
    chosen = [task for task in ready if _has_random_answers(task)]
    random = _scores(chosen, "random", _random)
    for task in ready:
        _check_perfect(task, right.get(task.name, {}))
        _check_corrupted(task, right.get(task.name, {}), wrong.get(task.name))
        _check_chance(task, random.get(task.name), wrong.get(task.name))


def _is_ready(task: AskedTask) -> bool:
    if not task.documents or any(finding.check == "builds" for finding in task.findings.found):
        return False
    with_choices = [item.instance for item in task.documents if item.instance.choices]
    return not with_choices or not all(map(has_invalid_gold, with_choices))


# Evaluations


def _scores(tasks: Sequence[AskedTask], name: str, reply: _Reply) -> dict[str, TaskResult]:
    """The result of every task under a model with these answers, by name.

    Tasks that ask the same and expect different answers are evaluated one after the other.
    """
    found: dict[str, TaskResult] = {}
    waiting = [(task, answers) for task in tasks if (answers := _answers(task, reply)) is not None]
    while waiting:
        batch: list[AskedTask] = []
        table: Answers = {}
        later: list[tuple[AskedTask, Answers]] = []
        for task, answers in waiting:
            if batch and not _goes_with(batch[0], task, table, answers):
                later.append((task, answers))
            else:
                batch.append(task)
                table.update(answers)
        found.update(_evaluated(batch, name, table))
        waiting = later
    return found


def _answers(task: AskedTask, reply: _Reply) -> Answers | None:
    """Request → answer for all documents; None if a document has no such answer. Of equal requests the first counts."""
    answers: Answers = {}
    for item in task.documents:
        outputs = reply(task, item)
        if outputs is None:
            return None
        for key, output in answers_by_request(item.instance, outputs).items():
            answers.setdefault(key, output)
    return answers


def _goes_with(first: AskedTask, task: AskedTask, table: Answers, answers: Answers) -> bool:
    """Whether a task can be answered by the model of a batch: the same kind of model, and no other answers."""
    if (first.head, _labels(first)) != (task.head, _labels(task)):
        return False
    return all(table.get(key, output) == output for key, output in answers.items())


def _evaluated(tasks: Sequence[AskedTask], name: str, answers: Answers) -> dict[str, TaskResult]:
    """Evaluates a batch; if it fails as a whole, its halves, so that the failure is a finding of a single task."""
    try:
        return _run(tasks, name, answers)
    except AssayError as error:
        if len(tasks) == 1:
            tasks[0].findings.add("builds", f"it cannot be evaluated: {error}")
            return {}
    half = len(tasks) // 2
    return {**_evaluated(tasks[:half], name, answers), **_evaluated(tasks[half:], name, answers)}


def _run(tasks: Sequence[AskedTask], name: str, answers: Answers) -> dict[str, TaskResult]:
    head = tasks[0].head
    model = oracle(name, answers, (head,) if head else REQUEST_KINDS, _labels(tasks[0]))
    wanted = [_given_task(task) for task in tasks]
    samples = {task.task.card.base: tuple(item.document.id for item in task.documents) for task in tasks}
    spec = make_spec("none", (), samples=samples, bootstrap_iters=0, confirm_run_unsafe_code=True)
    with open_store(":memory:") as store:
        # The tasks are at hand, so that nothing is looked up; everything else is a run as any other.
        session = Session(spec, store, ignore, select=lambda spec, given: Selection(tuple(wanted), ()))
        result = run(session, wanted, model)
    return {task.name: found for task, found in zip(tasks, result.tasks, strict=True)}


def _labels(task: AskedTask) -> tuple[str, ...]:
    """The classes of a task that a head answers."""
    return task.task.labels if isinstance(task.task, HeadTask) else ()


def _given_task(task: AskedTask) -> Task:
    """The task that is passed to `evaluate`, which makes the form for a head itself."""
    return task.task.task if isinstance(task.task, HeadTask) else task.task


def _right_scores(
    tasks: Sequence[AskedTask], texts: Mapping[str, Mapping[int, Mapping[str, str]]]
) -> dict[str, dict[str, TaskResult]]:
    """Task → filter pipeline → its result under right answers. Pipelines may read a right answer in different forms.

    Args:
        tasks: the tasks.
        texts: task → document → pipeline → a right answer as text.
    """
    found: dict[str, dict[str, TaskResult]] = {task.name: {} for task in tasks}
    most = max((len(task.task.scoring.pipelines) for task in tasks), default=0)
    for place in range(most):
        own = [task for task in tasks if place < len(task.task.scoring.pipelines)]

        def reply(task: AskedTask, item: AskedDocument, place: int = place) -> Sequence[Output]:
            if right_choices(item.instance):
                return answers_for_choices(item.instance, right_choices(item.instance))
            pipeline = task.task.scoring.pipelines[place].name
            text = texts[task.name].get(item.document.id, {}).get(pipeline, "")
            return certain_answers(item.instance, text, is_right=True)

        again = [task for task in own if place == 0 or not _reads_alike(task, texts[task.name], place)]
        results = _scores(again, f"right-{place}", reply)
        for task in own:
            pipeline = task.task.scoring.pipelines[place].name
            known = results.get(task.name) or next(iter(found[task.name].values()), None)
            if known is not None:
                found[task.name][pipeline] = known
    return found


def _reads_alike(task: AskedTask, texts: Mapping[int, Mapping[str, str]], place: int) -> bool:
    """Whether a pipeline reads the same right texts as the first."""
    first, own = task.task.scoring.pipelines[0].name, task.task.scoring.pipelines[place].name
    return all(by_pipeline.get(first) == by_pipeline.get(own) for by_pipeline in texts.values())


def _right_texts(task: AskedTask) -> dict[int, dict[str, str]] | None:
    """Document → pipeline → a right answer as text, for documents without choices; None if scoring it fails."""
    free = [item for item in task.documents if not right_choices(item.instance)]
    scoring, found = task.task.scoring, dict[int, dict[str, str]]()
    for item in free:
        try:
            found[item.document.id] = right_text(item.document, item.instance, task.scorer, scoring)
        except Exception as error:  # filters and metrics of tasks and plugins may raise anything
            message = f"a right answer cannot be scored: {type(error).__name__}: {error}"
            task.findings.add_documents("perfect", message, [item.document.id], strict=True)
            return None
    return found


def _wrong(task: AskedTask, item: AskedDocument) -> Sequence[Output] | None:
    if not right_choices(item.instance):
        return certain_answers(item.instance, NONSENSE, is_right=False)
    index = wrong_choice(item.instance)
    # Among right choices only there is no wrong one; then the model would write none of them.
    right = right_choices(item.instance)
    return answers_for_choices(item.instance, frozenset() if index is None else frozenset((index,)), right)


def _random(task: AskedTask, item: AskedDocument) -> Sequence[Output] | None:
    return answers_for_choices(item.instance, frozenset((random_choice(item.instance),)))


def _has_random_answers(task: AskedTask) -> bool:
    return all(item.instance.choices for item in task.documents)


# What the scores must be


def _check_perfect(task: AskedTask, right: Mapping[str, TaskResult]) -> None:
    """Right answers score the best value of every metric."""
    if not right:
        return
    task.findings.done.add("perfect")
    for pipeline, result in right.items():
        if result.problem is not None:
            task.findings.add("perfect", f"right answers cannot be scored: {result.problem.text}")
            return
        for metric in result.metrics:
            if metric.filter != pipeline:
                continue
            best, value = _best(task, metric), metric.estimate.value
            if best is not None and (value is None or not is_best(value, best)):
                message = f"right answers score {_shown(metric)} {_number(value)}, the best value is {best:g}"
                odd = _imperfect(result, metric, best)
                if odd:
                    documents = [sample.document_id for sample in odd]
                    task.findings.add_documents("perfect", message + _example(result, odd[0]), documents)
                else:
                    task.findings.add("perfect", message)


def _check_corrupted(task: AskedTask, right: Mapping[str, TaskResult], wrong: TaskResult | None) -> None:
    """Wrong answers score worse."""
    chosen = _chosen(task)
    if not right or wrong is None or (chosen and all(wrong_choice(item.instance) is None for item in chosen)):
        return
    if wrong.problem is not None:
        task.findings.add("corrupted", f"wrong answers cannot be scored: {wrong.problem.text}")
        return
    task.findings.done.add("corrupted")
    for metric in wrong.metrics:
        best = _best(task, metric)
        reference = right.get(metric.filter)
        if best is None or reference is None or reference.problem is not None:
            continue
        value, perfect = metric.estimate.value, reference.metric(metric.metric, metric.filter).estimate.value
        if value is None or perfect is None:
            continue
        is_worse = value < perfect if metric.higher_is_better is not False else value > perfect
        if not is_worse:
            message = f"wrong answers score {_shown(metric)} {_number(value)}, right ones {_number(perfect)}"
            task.findings.add("corrupted", message)


def _chosen(task: AskedTask) -> list[AskedDocument]:
    return [item for item in task.documents if right_choices(item.instance)]


def _best(task: AskedTask, metric: MetricResult) -> float | None:
    """The best value; of plugins' metrics and a task's own scoring, only that of the primary metric is known."""
    if not is_builtin(metric.metric) and metric.metric != task.primary:
        return None
    return best_value(metric.metric, metric.higher_is_better)


def _check_chance(task: AskedTask, random: TaskResult | None, wrong: TaskResult | None) -> None:
    """Random answers score the stated chance, and so does the share of right choices."""
    stated = task.card.get("chance")
    counts_hits = family_of(task.primary).startswith(_HITS) and task.has_choices
    if _chosen(task) and all(wrong_choice(item.instance) is None for item in task.documents):
        counts_hits, random = False, None  # every choice is right: there is nothing to guess
    is_own_form = not task.head and "@" not in task.name
    if stated is not None and not is_own_form and not counts_hits:
        return  # another style has other metrics
    if random is None or not random.metrics:
        if stated == 0 and wrong is not None and wrong.metrics:
            _check_zero(task, wrong)
        return
    expected = _share_of_right(task) if counts_hits else None
    if stated is not None and expected is not None and is_own_form:
        _compare(task, "chance", stated, expected, _row_spread(task))
        _check_majority(task)
    level = expected if expected is not None else stated
    metric = task.quoted(random)
    if level is None or metric is None or metric.estimate.value is None:
        return
    size = len(task.documents)
    # Correlations of independent values have a variance of 1 / n, rates one of p (1 - p) / n.
    variance = 1.0 if family_of(task.primary) in _CORRELATIONS else max(level * (1 - level), 0.01)
    # Metrics over groups of rows count the groups.
    size = min(size, metric.estimate.clusters or size, metric.estimate.n or size)
    tolerance = _STANDARD_ERRORS * math.sqrt(variance / size) + 1 / size
    task.findings.done.add("chance")
    if abs(metric.estimate.value - level) > tolerance:
        found = f"random answers score {_shown(metric)} {_number(metric.estimate.value)}"
        task.findings.add("chance", f"{found}, expected {level:.3f} ± {tolerance:.3f}")


def _check_zero(task: AskedTask, wrong: TaskResult) -> None:
    task.findings.done.add("chance")
    metric = task.quoted(wrong)
    if metric is not None and (metric.estimate.value or 0.0) > 0.02:
        found = f"nonsense scores {_shown(metric)} {_number(metric.estimate.value)}"
        task.findings.add("chance", f"{found}, the card states 0")


def _share_of_right(task: AskedTask) -> float:
    """Expected accuracy of a uniform guess."""
    return math.fsum(_row_chance(item.instance) for item in task.documents) / len(task.documents)


def _row_chance(instance: Instance) -> float:
    return len(right_choices(instance)) / len(instance.choices)


def _row_spread(task: AskedTask) -> float:
    """Standard error of the share of right choices, if the rows are a sample."""
    mean, size = _share_of_right(task), len(task.documents)
    variance = math.fsum((_row_chance(item.instance) - mean) ** 2 for item in task.documents) / size
    return math.sqrt(variance / size)


def _check_majority(task: AskedTask) -> None:
    """The share of the commonest right choice, by its index."""
    stated = task.card.get("majority")
    golds = [right_choices(item.instance) for item in task.documents]
    if stated is None or any(len(gold) != 1 for gold in golds):
        return
    size = len(golds)
    share = Counter(golds).most_common(1)[0][1] / size
    error = math.sqrt(stated * (1 - stated) / size)
    # The largest of several shares of a small sample is above its expectation.
    slack = error * len(set(golds)) / 2 if size < 100 else 0.0
    _compare(task, "majority", stated, share, error + slack)


def _compare(task: AskedTask, check: str, stated: float, found: float, error: float) -> None:
    """A rate that the card states, and that of the rows with its standard error."""
    task.findings.done.add(check)
    tolerance = _LEAST_TOLERANCE + _STANDARD_ERRORS * error
    if abs(stated - found) > tolerance:
        message = f"the card states a {check} of {stated:g}, the rows have {found:.4f} (tolerance {tolerance:.3f})"
        task.findings.add(check, message)


def _shown(metric: MetricResult) -> str:
    return metric.metric if metric.filter == "none" else f"{metric.metric},{metric.filter}"


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"


def _imperfect(result: TaskResult, metric: MetricResult, best: float) -> list[Sample]:
    """The documents that are not right, of a metric with a number for each."""
    values = [(sample, sample.values.get(metric.metric)) for sample in result.samples if sample.filter == metric.filter]
    return [sample for sample, value in values if isinstance(value, (int, float)) and not is_best(float(value), best)]


def _example(result: TaskResult, sample: Sample) -> str:
    """The right answer of a document, the given one, and what its filters left."""
    answered = next(item for item in result.answered if item.document.id == sample.document_id)
    given = getattr(answered.outputs[0], "text", answered.outputs[0])
    left = "" if result.card.kind != "generate_until" else f", read as {list(sample.filtered)!r:.80}"
    return f"; right answer {answered.instance.gold!r:.80}, given {given!r:.80}{left}"
