"""Finds differences between two tasks of recorded runs: each function looks for one cause and shows its evidence.

In: a pair of reopened tasks. Out: causes with evidence and, if the stored answers allow it, their share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.plural import plural
from assay.core.protocols import FewShotExample, ProvidesFewShotExamples
from assay.core.responses import NOTE_TEXTS, Failure, LabelScores, Logprob, Output, Text
from assay.core.results import AnsweredDocument, TaskResult
from assay.run.manifest import described_scoring
from assay.scoring.aggregate import aggregate_task
from assay.scoring.registry import METRICS, metric_definition
from assay.scoring.scorers.multiple_choice import METHODS
from assay.studies.explain import explain_values as kinds
from assay.studies.explain.explain_values import Cause
from assay.studies.paired.paired_values import Score
from assay.studies.paired.recorded_tasks import ReopenedTask, is_whole, main_requests, rescored_under
from assay.studies.paired.text_diff import flat, request_lines, short

# Keys of a definition that say how answers are scored; they are compared with the metrics and filters themselves.
_SCORING_KEYS = ("metric_list", "filter_list", "process_results")
_NAMES = ("task", "task_alias", "tag", "group")
_PACKAGES = ("torch", "transformers", "tokenizers", "datasets", "numpy", "jinja2", "sacrebleu", "evaluate", "lm_eval")
_MACHINE = ("assay_version", "python", "platform", "processor")
_FIELD_WORDS = {"template": "chat template", "precision": "number format", "parent": "parent model"}
# Fields of a fingerprint whose change means another network, not the same network computed differently.
_OTHER_NETWORK = {"name", "revision", "weights", "adapter", "parent", "digest"}


@dataclass(frozen=True, slots=True)
class TaskPair:
    """Two tasks to compare.

    Attributes:
        scores: the two numbers.
        common: positions of the documents that both have.
        different: positions of those whose requests differ.
        rows: how documents that are not equal were paired; empty for equal documents.
    """

    first: ReopenedTask
    second: ReopenedTask
    scores: tuple[Score, Score]
    common: Sequence[tuple[int, int]]
    different: Sequence[tuple[int, int]]
    rows: str = ""

    @property
    def reopened(self) -> tuple[ReopenedTask, ReopenedTask]:
        return self.first, self.second

    @property
    def is_open(self) -> bool:
        """Whether both runs could be reopened."""
        return self.first.result is not None and self.second.result is not None

    @property
    def has_same_requests(self) -> bool:
        """Whether every request of both is the same."""
        prompts = [reopened.entry["prompts_fingerprint"] for reopened in self.reopened]
        return prompts[0] == prompts[1] or (self.is_open and not self.different and _has_all(self))

    @property
    def has_same_questions(self) -> bool:
        """Whether every document of both has the same requests, choices and right answers, as read again today."""
        if not self.is_open or self.different or not _has_all(self):
            return False
        both = [(one.instance, two.instance) for one, two in map(self.answered, self.common)]
        return all((one.choices, one.target, one.gold) == (two.choices, two.target, two.gold) for one, two in both)

    def answered(self, places: tuple[int, int]) -> tuple[AnsweredDocument, AnsweredDocument]:
        """A document of both, with its answers."""
        assert self.first.result is not None and self.second.result is not None
        return self.first.result.answered[places[0]], self.second.result.answered[places[1]]


def _has_all(pair: TaskPair) -> bool:
    return all(
        len(pair.common) == len(reopened.built.documents) for reopened in pair.reopened if reopened.built is not None
    )


def _versus(first: Any, second: Any) -> str:
    return f"{short(first)} → {short(second)}"


# The model


def model(pair: TaskPair) -> Cause | None:
    """A different model, or the same model with different settings."""
    found = pair.first.record.fingerprint.differences(pair.second.record.fingerprint)
    if not found:
        return None
    names = [_FIELD_WORDS.get(name, name.removeprefix("settings.")) for name in found]
    lines = [f"{name}: {_versus(*values)}" for name, values in zip(names, found.values(), strict=True)]
    if not _OTHER_NETWORK.isdisjoint(found):
        lines += _answer_differences(pair)
    return Cause(kinds.MODEL, f"the models differ: {', '.join(names)}", tuple(lines))


def numerics(pair: TaskPair) -> Cause | None:
    """The same network and requests with different outputs."""
    found = pair.first.record.fingerprint.differences(pair.second.record.fingerprint)
    lines = _answer_differences(pair) if _OTHER_NETWORK.isdisjoint(found) else []
    if not lines:
        return None
    return Cause(kinds.NUMERICS, "identical requests have different answers", tuple(lines))


def _answer_differences(pair: TaskPair) -> list[str]:
    """How the answers to identical requests differ."""
    if not pair.is_open:
        return []
    different, same = set(pair.different), 0
    largest, others, predictions = 0.0, 0, 0
    for places in pair.common:
        first, second = pair.answered(places)
        if places in different or not (is_whole(first) and is_whole(second)):
            continue
        same += 1
        mine, theirs = _main_outputs(first), _main_outputs(second)
        gaps = [_gap(one, two) for one, two in zip(mine, theirs, strict=True)]
        others += any(gap > 0 for gap in gaps)
        largest = max([largest, *gaps])
        predictions += _predicted_choice(mine) != _predicted_choice(theirs)
    if not others:
        return []
    changed = plural(predictions, "prediction")
    return [
        f"{others:,} of {same:,} documents with identical requests have different answers; {changed} changed",
        *([f"largest difference of a log-likelihood: {largest:.6g}"] if largest < float("inf") else []),
    ]


def _main_outputs(item: AnsweredDocument) -> list[Output]:
    outputs = item.outputs[: len(main_requests(item.instance))]
    return [output for output in outputs if not isinstance(output, Failure)]


def _gap(first: Output, second: Output) -> float:
    if isinstance(first, Logprob) and isinstance(second, Logprob):
        return abs(first.total - second.total)
    if isinstance(first, LabelScores) and isinstance(second, LabelScores) and len(first.scores) == len(second.scores):
        return max((abs(one - other) for one, other in zip(first.scores, second.scores, strict=True)), default=0.0)
    texts = [output.text if isinstance(output, Text) else None for output in (first, second)]
    return 0.0 if texts[0] == texts[1] else float("inf")


def _predicted_choice(outputs: Sequence[Output]) -> Any:
    totals = [output.total for output in outputs if isinstance(output, Logprob)]
    if len(totals) > 1:
        return totals.index(max(totals))
    for output in outputs:
        if isinstance(output, LabelScores):
            return output.scores.index(max(output.scores))
    return [output.text for output in outputs if isinstance(output, Text)]


# The data


def dataset(pair: TaskPair) -> Cause | None:
    """Different documents, fewer documents, or failed documents."""
    entries = [reopened.entry for reopened in pair.reopened]
    prints = [entry["documents_fingerprint"] for entry in entries]
    scored = [reopened.summary.get("denominators", {}).get("scored", _scored(reopened)) for reopened in pair.reopened]
    are_same = prints[0] == prints[1] or (pair.rows and _has_all(pair))
    if are_same and scored[0] == scored[1]:
        return None
    lines = []
    for name, values in (
        ("documents evaluated", [entry["documents"] for entry in entries]),
        ("documents scored", scored),
        ("documents in the split", [entry["documents_available"] for entry in entries]),
        ("limit", [reopened.spec.limit for reopened in pair.reopened]),
        ("samples", [(reopened.spec.samples or {}).get(reopened.name) for reopened in pair.reopened]),
        ("fingerprint", [value[:12] for value in prints]),
    ):
        lines += [f"{name}: {_versus(*values)}"] if values[0] != values[1] else []
    lines += [f"in common: {len(pair.common):,}"] if pair.is_open else []
    text = "the documents differ" if not are_same else "some documents of one run have no score"
    return Cause(kinds.DATASET, text, tuple(lines), _points_of_documents(pair))


def _scored(reopened: ReopenedTask) -> int | None:
    return None if reopened.result is None else reopened.result.denominators.scored


def _points_of_documents(pair: TaskPair) -> float | None:
    """The difference minus the difference on the documents that both scored."""
    if pair.first.result is None or pair.second.result is None or not pair.common:
        return None
    common = [tuple(item.document.id for item in pair.answered(places)) for places in pair.common]
    done = [{sample.document_id for sample in reopened.samples} for reopened in (pair.first.result, pair.second.result)]
    both = [ids for ids in common if ids[0] in done[0] and ids[1] in done[1]]
    parts = []
    for place, reopened in enumerate(pair.reopened):
        whole, part = (
            _value(reopened.result, pair.scores[place]),
            _value_on(reopened, pair.scores[place], {i[place] for i in both}),
        )
        if whole is None or part is None:
            return None
        parts.append(whole - part)
    return parts[1] - parts[0]


def _value(result: TaskResult | None, score: Score) -> float | None:
    found = (
        [] if result is None else [m for m in result.metrics if (m.metric, m.filter) == (score.metric, score.filter)]
    )
    return found[0].estimate.value if found else None


def _value_on(reopened: ReopenedTask, score: Score, ids: set[int]) -> float | None:
    if reopened.result is None or reopened.scoring is None:
        return None
    samples = [
        sample for sample in reopened.result.samples if sample.document_id in ids and sample.filter == score.filter
    ]
    metrics = aggregate_task(reopened.scoring, samples, 0, f"task {reopened.name}")
    found = [m for m in metrics if (m.metric, m.filter) == (score.metric, score.filter)]
    return found[0].estimate.value if found else None


# Definition and prompts


def definition(pair: TaskPair) -> Cause | None:
    """Different task files, or settings of the run that change the requests."""
    first, second = (_definition(reopened) for reopened in pair.reopened)
    settings = [] if pair.has_same_requests else [_settings(reopened) for reopened in pair.reopened]
    if settings:
        first, second = {**first, **settings[0]}, {**second, **settings[1]}
    if pair.first.built is not None and pair.second.built is not None:
        first["output_type"], second["output_type"] = pair.first.built.task.card.kind, pair.second.built.task.card.kind
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    if not names:
        return None
    lines = [f"{name}: {_versus(first.get(name), second.get(name))}" for name in names]
    golds = sum(one.instance.gold != two.instance.gold for one, two in map(pair.answered, _opened(pair)))
    lines += [f"{golds:,} of {len(pair.common):,} common documents have a different right answer"] if golds else []
    listed, is_run = ", ".join(names), bool(settings) and set(names) <= set(settings[0]) | set(settings[1])
    text = f"the settings of the runs differ: {listed}" if is_run else f"the task definitions differ: {listed}"
    name = f"the settings of the run ({listed})" if is_run else f"the definition of the task ({listed})"
    return Cause(kinds.DEFINITION, text, tuple(lines), name=name)


def _opened(pair: TaskPair) -> Sequence[tuple[int, int]]:
    return pair.common if pair.is_open else ()


def _definition(reopened: ReopenedTask) -> dict[str, Any]:
    config = {key: value for key, value in reopened.config.items() if key not in (*_SCORING_KEYS, *_NAMES)}
    return {"num_fewshot": reopened.entry.get("num_fewshot"), **flat(config)}


def _settings(reopened: ReopenedTask) -> dict[str, Any]:
    """Settings of a run that can change requests and that no definition shows."""
    options = reopened.spec.options
    found = {**flat({"chat": reopened.spec.to_json()["options"]["chat"]}), "like": options.like}
    if reopened.entry.get("num_fewshot"):
        found["fewshot_seed"] = options.fewshot_seed
    if reopened.entry.get("config", {}).get("output_type") == "generate_until":
        found["sampling_seed"] = options.sampling_seed
    return found


def examples(pair: TaskPair) -> Cause | None:
    """Different few-shot examples in the first document whose requests differ."""
    if not pair.different or not pair.is_open:
        return None
    items = pair.answered(pair.different[0])
    shown = [_examples(reopened, item) for reopened, item in zip(pair.reopened, items, strict=True)]
    size = max(map(len, shown))
    rows = [tuple(row[place] if place < len(row) else None for row in shown) for place in range(size)]
    lines = [
        f"place {place + 1}: {_example(one)} → {_example(two)}"
        for place, (one, two) in enumerate(rows)
        if (one and dict(one.fields)) != (two and dict(two.fields))
    ]
    if not lines:
        return None
    where = f"before document {items[0].document.id}, {len(lines)} of {size} few-shot examples differ"
    return Cause(kinds.EXAMPLES, where, tuple(lines))


def _examples(reopened: ReopenedTask, item: AnsweredDocument) -> Sequence[FewShotExample]:
    task = None if reopened.built is None else reopened.built.task
    return task.examples(item.document) if isinstance(task, ProvidesFewShotExamples) else ()


def _example(example: FewShotExample | None) -> str:
    return "none" if example is None else f"{example.origin}[{example.place}]"


def prompts(pair: TaskPair) -> Cause | None:
    """Different requests for the same documents."""
    if not pair.is_open:
        entries = [reopened.entry for reopened in pair.reopened]
        same_data = entries[0]["documents_fingerprint"] == entries[1]["documents_fingerprint"]
        if pair.has_same_requests or not same_data:
            return None
        return Cause(kinds.PROMPTS, "the prompts of the same documents differ")
    if not pair.different:
        return None
    same = len(pair.common) - len(pair.different)
    first, second = pair.answered(pair.different[0])
    lines = request_lines(main_requests(first.instance), main_requests(second.instance))
    text = f"{same:,} of {len(pair.common):,} common documents have identical requests; the first that differs is"
    return Cause(kinds.PROMPTS, f"{text} document {first.document.id}", tuple(lines))


# Conditions that the model encountered


def truncation(pair: TaskPair) -> Cause | None:
    """Prompts that were truncated in one run and not in the other."""
    counts = [_denominators(reopened) for reopened in pair.reopened]
    cut = [count.get("truncated", 0) for count in counts]
    if cut[0] == cut[1]:
        return None
    return Cause(kinds.TRUNCATION, f"documents cut to fit the model: {cut[0]:,} → {cut[1]:,}")


def notes(pair: TaskPair) -> Cause | None:
    """Peculiarities of prompts and answers that a model noted, such as a second BOS."""
    first, second = (_denominators(reopened).get("notes", {}) for reopened in pair.reopened)
    names = [name for name in {**first, **second} if first.get(name, 0) != second.get(name, 0)]
    if not names:
        return None
    lines = [f"{NOTE_TEXTS.get(name, name)}: {first.get(name, 0):,} → {second.get(name, 0):,}" for name in names]
    return Cause(kinds.NOTES, f"the model's notes differ: {', '.join(names)}", tuple(lines))


def _denominators(reopened: ReopenedTask) -> Mapping[str, Any]:
    if reopened.result is None:
        found: Mapping[str, Any] = reopened.summary.get("denominators", {})
        return found
    counts = reopened.result.denominators
    return {"truncated": counts.truncated, "notes": counts.notes}


# How answers become numbers


def extraction(pair: TaskPair) -> Cause | None:
    """Different filters between the text and the scored answer."""
    steps = [
        _scoring(reopened)["filters"].get(score.filter)
        for reopened, score in zip(pair.reopened, pair.scores, strict=True)
    ]
    if steps[0] == steps[1] or None in steps:
        return None
    lines = [f"{score.filter}: {short(part)}" for score, part in zip(pair.scores, steps, strict=True)]
    lines += _extraction_differences(pair)
    points, shown = _counterfactual(pair, by_filter=True)
    return Cause(kinds.EXTRACTION, "different filters extract the answers", (*lines, *shown), points)


def _extraction_differences(pair: TaskPair) -> list[str]:
    """Documents with the same texts but different extracted answers."""
    if pair.first.result is None or pair.second.result is None:
        return []
    read = [
        {sample.document_id: sample.filtered for sample in reopened.samples if sample.filter == score.filter}
        for reopened, score in zip((pair.first.result, pair.second.result), pair.scores, strict=True)
    ]
    found, total = [], 0
    for places in pair.common:
        first, second = pair.answered(places)
        if [_gap(*both) for both in zip(_main_outputs(first), _main_outputs(second), strict=False) if _gap(*both)]:
            continue
        total += 1
        answers = read[0].get(first.document.id), read[1].get(second.document.id)
        if answers[0] != answers[1]:
            found.append(f"document {first.document.id}: {_versus(*answers)}")
    return [f"{len(found):,} of {total:,} identical texts give a different answer", *found[:1]] if found else []


def normalisation(pair: TaskPair) -> Cause | None:
    """A different metric, or the same metric with different settings."""
    first, second = (_rule(reopened, score.metric) for reopened, score in zip(pair.reopened, pair.scores, strict=True))
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    if not names:
        return None
    lines = [f"{name}: {_versus(first.get(name), second.get(name))}" for name in names if name != "metric"]
    lines += [
        f"{score.metric}: {_metric_description(score.metric)}"
        for score in dict.fromkeys(pair.scores)
        if "metric" in names
    ]
    points, shown = _counterfactual(pair, by_filter=False)
    text = f"the metrics differ: {_versus(pair.scores[0].metric, pair.scores[1].metric)}"
    if "metric" not in names:
        text = f"{pair.scores[0].metric} has other settings: {', '.join(names)}"
    return Cause(kinds.NORMALISATION, text, (*lines, *shown), points)


def _rule(reopened: ReopenedTask, metric: str) -> dict[str, Any]:
    """A metric with its settings; settings that a task leaves open have the metric's defaults."""
    scoring = _scoring(reopened)
    usual = {"aggregation": metric_definition(metric).aggregation} if metric in METRICS else {}
    return {"metric": metric, "code": scoring["process"], **usual, **scoring["metrics"].get(metric, {})}


def _scoring(reopened: ReopenedTask) -> Mapping[str, Any]:
    empty: Mapping[str, Any] = {"metrics": {}, "filters": {}, "process": None}
    today = empty if reopened.scoring is None else described_scoring(reopened.scoring)
    found: Mapping[str, Any] = reopened.entry.get("scoring", today)
    return found


def _metric_description(metric: str) -> str:
    for method in METHODS.values():
        if method.metric == metric:
            return (
                f"predicts by {method.description}" if method.name == "raw" else f"log-likelihood {method.description}"
            )
    return metric_definition(metric).description if metric in METRICS else "code of the task"


def _counterfactual(pair: TaskPair, by_filter: bool) -> tuple[float | None, list[str]]:
    """Each run's answers scored under the other's rules; also the points by which this changes the second score."""
    lines, points = [], None
    if len({reopened.scoring.scorer for reopened in pair.reopened if reopened.scoring is not None}) != 1:
        return None, []  # different output types: one run's metrics cannot read the other's answers
    for own, other in ((1, 0), (0, 1)):
        reopened, model_reopened, score = pair.reopened[own], pair.reopened[other], pair.scores[other]
        metric = (reopened if by_filter else model_reopened).metric(pair.scores[own if by_filter else other].metric)
        pipeline = model_reopened.pipeline(score.filter) if by_filter else reopened.pipeline(pair.scores[own].filter)
        result = None if metric is None else rescored_under(reopened, metric, pipeline)
        before = _value(reopened.result, pair.scores[own])
        if result is None or before is None or not result.metrics or result.metrics[0].estimate.value is None:
            continue
        value = result.metrics[0].estimate.value
        name = score.filter if by_filter else score.metric
        lines.append(f"answers of run {reopened.record.id} under {name}: {value:.4f} instead of {before:.4f}")
        points = before - value if own == 1 else points
    return points, lines


# Around the run


def environment(pair: TaskPair) -> Cause | None:
    """Different package versions, machine or engine."""
    first, second = (_environment(reopened) for reopened in pair.reopened)
    names = [name for name in first if name in second and first[name] != second[name]]
    lines = tuple(f"{name}: {_versus(first[name], second[name])}" for name in names)
    return Cause(kinds.ENVIRONMENT, "the runs were made in different environments", lines) if lines else None


def _environment(reopened: ReopenedTask) -> dict[str, Any]:
    manifest, packages = reopened.record.manifest, reopened.record.manifest.get("packages", {})
    found = {name: manifest[name] for name in _MACHINE if name in manifest}
    found.update({name: packages[name] for name in _PACKAGES if name in packages})
    engine = (reopened.record.summary or {}).get("model_run", {}).get("engine")
    return {**found, **({"engine": engine} if engine else {})}


def record(pair: TaskPair) -> Cause | None:
    """Recorded numbers that the same answers no longer produce."""
    lines, points = [], 0.0
    for sign, reopened, score in zip((1, -1), pair.reopened, pair.scores, strict=True):
        today = _value(reopened.result, score)
        then = score.estimate.value
        if today is not None and then is not None and abs(today - then) > 1e-9:
            version = reopened.record.manifest.get("assay_version")
            counts = f"{score.estimate.n:,} documents recorded, {_scored(reopened):,} today"
            lines.append(f"run {reopened.record.id}: {then:.6g} by version {version}, {today:.6g} today ({counts})")
            points += sign * (today - then)
    text = "the recorded answers no longer give the recorded score"
    return Cause(kinds.RECORD, text, tuple(lines), points) if lines else None


FINDERS: tuple[Callable[[TaskPair], Cause | None], ...] = (
    model,
    dataset,
    definition,
    examples,
    prompts,
    truncation,
    notes,
    numerics,
    extraction,
    normalisation,
    environment,
    record,
)


def find_causes(pair: TaskPair) -> list[Cause]:
    """All causes, in the order in which they act."""
    found: Iterable[Cause | None] = (find(pair) for find in FINDERS)
    return [cause for cause in found if cause is not None]
