"""What differs in protocol between a task, or a recorded run of it, and the published numbers of its card.

In: the facts of a task or the record of a run, and a name. Out: a comparison of every published number with that name,
aspect by aspect. What the source does not state is never taken to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.core.errors import Fault, UnknownName, did_you_mean
from assay.core.scores import Estimate, MetricResult
from assay.core.version import __version__
from assay.store.run_records import RunRecord
from assay.studies.references.model_names import ModelName, is_same_model, matching_name, model_names
from assay.studies.references.published import PublishedScore, compared_score

Reference = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Aspect:
    """One part of a protocol.

    Attributes:
        name: what it is.
        published: as the source states it; empty if it does not.
        here: as it is here; empty if unknown.
        is_same: None if one of them is not stated, or if only a reader can tell.
    """

    name: str
    published: str
    here: str
    is_same: bool | None = None


@dataclass(frozen=True, slots=True)
class ReferenceComparison:
    """A published number beside a task or a run.

    Attributes:
        reference: the entry of the card.
        aspects: the protocols, part by part.
        score: the run's score beside the published one; None for a task, and for a run of another model.
    """

    task: str
    reference: Reference
    aspects: tuple[Aspect, ...]
    score: PublishedScore | None = None

    @property
    def different(self) -> tuple[str, ...]:
        """Names of the aspects that differ."""
        return tuple(aspect.name for aspect in self.aspects if aspect.is_same is False)

    @property
    def unstated(self) -> tuple[str, ...]:
        """Names of the aspects that the source does not state."""
        return tuple(aspect.name for aspect in self.aspects if not aspect.published)


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a task is evaluated here.

    Attributes:
        task: its name.
        references: the published numbers of its card.
        here: aspect → value; absent if unknown.
        metrics: the metrics that it reports.
        scores: the numbers of a recorded run.
        record: the run; None for a task as its file has it.
    """

    task: str
    references: Sequence[Reference]
    here: Mapping[str, str]
    metrics: Sequence[str] = ()
    scores: Sequence[MetricResult] = ()
    record: RunRecord | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ReferenceReport:
    """Published numbers of tasks.

    Attributes:
        of: the task, or the run, that was asked for.
        listed: task → all of its published numbers.
        comparisons: those that were named, in detail; empty if none was named.
    """

    of: str
    listed: Mapping[str, Sequence[Reference]]
    comparisons: tuple[ReferenceComparison, ...] = ()


def protocol_of_task(facts: Mapping[str, Any], wording: str = "") -> Protocol:
    """The protocol of a task or group as its file has it.

    Args:
        facts: as `assay.task_card` gives them.
        wording: style, profile or prompt that is named after an @; empty for the task's own.
    """
    below = [task for task in facts.get("tasks", ()) if "shots" in task]
    shots = {str(task["shots"]) for task in below} or {str(facts.get("shots", ""))}
    here = {
        "shots": shots.pop() if len(shots) == 1 else "",
        "split": str(facts.get("evaluated") or ""),
        "style": wording or "the task's own",
        "tool": _tool(__version__, facts),
        "documents": _rows(facts, str(facts.get("evaluated"))),
    }
    return Protocol(str(facts["name"]), facts.get("references", ()), here, tuple(facts.get("metrics", ())))


def protocols_of_run(record: RunRecord) -> list[Protocol]:
    """The protocols of a recorded run, task by task."""
    return [_recorded(record, name) for name in record.tasks]


def _recorded(record: RunRecord, name: str) -> Protocol:
    entry = record.tasks[name]
    config, card = entry.get("config") or {}, entry.get("card") or {}
    scores = tuple(
        MetricResult(item["metric"], item["filter"], Estimate(**item["estimate"]), item.get("higher_is_better"))
        for item in record.numbers(name).get("metrics", ())
    )
    precision, spec = record.fingerprint.precision, record.spec
    here = {
        "model": " ".join(filter(None, (spec.get("model", ""), (spec.get("model_args") or {}).get("pretrained")))),
        "shots": str(entry.get("num_fewshot", "")),
        "split": str(config.get("test_split") or config.get("validation_split") or ""),
        "style": str(config.get("style") or config.get("prompt") or "the task's own"),
        "tool": _tool(str(record.manifest.get("assay_version", "")), {}, spec),
        "precision": precision or "",
        "documents": _evaluated(entry),
    }
    metrics = tuple(entry.get("scoring", {}).get("metrics", ()))
    return Protocol(name, card.get("references", ()), here, metrics, scores, record)


def _tool(version: str, facts: Mapping[str, Any], spec: Mapping[str, Any] | None = None) -> str:
    like = ((spec or {}).get("options") or {}).get("like")
    prompt = f"prompt: {facts['prompt']}" if facts.get("prompt") else ""
    return ", ".join(filter(None, (f"Assay {version}", prompt, f"like {like}" if like else "")))


def _evaluated(entry: Mapping[str, Any]) -> str:
    """The number of evaluated documents, and of all if only a part was evaluated."""
    done, everything = entry.get("documents"), entry.get("documents_available")
    return str(done or "") if done == everything or everything is None else f"{done} of {everything}"


def _rows(facts: Mapping[str, Any], split: str) -> str:
    rows = (facts.get("rows") or {}).get(split)
    return "" if rows is None else str(rows)


def explain_references(of: str, protocols: Sequence[Protocol], named: str) -> ReferenceReport:
    """The published numbers of tasks; in detail those with a name.

    Args:
        of: the task or run, for the report.
        protocols: its tasks.
        named: a model or a source, or a part of one; empty to list all numbers.
    """
    listed = {protocol.task: protocol.references for protocol in protocols if protocol.references}
    everything = [entry for entries in listed.values() for entry in entries]
    if not everything:
        advice = "Numbers are stated in the task's file: card.references (docs/library.md)"
        raise UnknownName(Fault(of, "no published number is known", next=advice))
    if not named:
        return ReferenceReport(of, listed)
    found = tuple(
        _comparison(protocol, entry)
        for protocol in protocols
        for entry in protocol.references
        if _is_named(entry, named)
    )
    if not found:
        known = list(dict.fromkeys(str(entry.get("model", "")) for entry in everything))
        wrong = f'no published number of the model or source "{named}"{did_you_mean(named, known)}'
        raise UnknownName(Fault(f"{of}, --reference", wrong, ", ".join(known)))
    return ReferenceReport(of, listed, found)


def _is_named(entry: Reference, named: str) -> bool:
    model, source = str(entry.get("model", "")), str(entry.get("source", ""))
    return is_same_model(model, named) or named.lower() in source.lower()


def _comparison(protocol: Protocol, entry: Reference) -> ReferenceComparison:
    return ReferenceComparison(protocol.task, entry, tuple(_aspects(protocol, entry)), _score(protocol, entry))


def _aspects(protocol: Protocol, entry: Reference) -> Iterator[Aspect]:
    here = protocol.here
    if protocol.record is not None:
        names = _names(protocol.record)
        is_it = matching_name(str(entry.get("model", "")), names) is not None
        yield Aspect("model", str(entry.get("model", "")), here.get("model", ""), is_it)
    metric = str(entry.get("metric", "")).partition(",")[0]
    own = metric if metric in protocol.metrics else ", ".join(protocol.metrics)
    yield Aspect("metric", metric, own, metric in protocol.metrics if protocol.metrics else None)
    for name in ("shots", "split", "documents", "precision"):
        stated = "" if entry.get(name) is None else str(entry[name])
        value = here.get(name, "")
        if name in here or stated:
            yield Aspect(name, stated, value, _is_same(stated, value))
    # Only a reader can tell whether two descriptions in words mean the same.
    for name in ("style", "tool"):
        yield Aspect(name, str(entry.get(name, "")), here.get(name, ""))


def _is_same(stated: str, value: str) -> bool | None:
    return stated.lower() == value.lower() if stated and value else None


def _names(record: RunRecord) -> list[ModelName]:
    spec = record.spec
    return model_names(str(spec.get("model", record.model)), spec.get("model_args") or {}, record.fingerprint)


def _score(protocol: Protocol, entry: Reference) -> PublishedScore | None:
    """The score of a recorded run, if it evaluated the published model."""
    if protocol.record is None:
        return None
    shots = protocol.here.get("shots", "")
    own = int(shots) if shots.isdecimal() else None
    return compared_score(protocol.task, entry, protocol.scores, own, _names(protocol.record))
