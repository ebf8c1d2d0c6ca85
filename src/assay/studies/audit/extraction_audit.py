"""Audit of a task's answer extraction: matching rules, disagreements of rules or pipelines, truncated texts.

In: a finished `TaskResult`. Out: counts and a list of documents to inspect. No request is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.errors import LimitError
from assay.core.protocols import Filter
from assay.core.requests import Instance
from assay.core.responses import Text
from assay.core.results import AnsweredDocument, TaskResult
from assay.core.scores import UNKNOWN_OFFSET, Extraction, Sample
from assay.core.specs import PipelineSpec
from assay.guard.time_limit import ResourceLimit
from assay.scoring.extraction.numbers import canonical
from assay.scoring.extraction.spans import plain
from assay.scoring.filters.extract import Extract
from assay.scoring.registry import make_filter

_AROUND = 40


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A text from which different answers are extracted.

    Attributes:
        document_id: the document's index.
        draw: index of the draw, counted from 0.
        answers: extractor, or pipeline → its answer; the one that counted comes first among extractors.
        right: the right answers, as texts.
        excerpt: the text around the answer that counted.
        is_truncated: whether the text reached the token limit.
    """

    document_id: int
    draw: int
    answers: Mapping[str, str]
    right: tuple[str, ...]
    excerpt: str
    is_truncated: bool


@dataclass(frozen=True, slots=True)
class PipelineAudit:
    """Audit of one pipeline.

    Attributes:
        pipeline: its name.
        texts: number of texts it searched, every draw on its own.
        matched: extractor → texts in which it found the answer; 0 for listed extractors that never did.
        no_answer: texts in which no answer was found.
        truncated: texts that reached the token limit.
        truncated_with_answer: those of them in which an answer was found.
        disagreements: texts in which two extractors of the list find different answers.
    """

    pipeline: str
    texts: int
    matched: Mapping[str, int]
    no_answer: int
    truncated: int
    truncated_with_answer: int
    disagreements: tuple[Disagreement, ...]


@dataclass(frozen=True, slots=True)
class TaskAudit:
    """A task's pipelines, and the texts on which two of them disagree."""

    task: str
    pipelines: tuple[PipelineAudit, ...]
    between: tuple[Disagreement, ...]


@dataclass(frozen=True, slots=True)
class _Reading:
    """One text with the answer that one pipeline extracted."""

    item: AnsweredDocument
    draw: int
    text: Text
    extraction: Extraction


def audit_task(task: TaskResult) -> TaskAudit | None:
    """The audit of a task; None if none of its pipelines extracts answers."""
    by_document = {item.document.id: item for item in task.answered}
    by_pipeline: dict[str, list[_Reading]] = {}
    for sample in task.samples:
        if sample.extractions:
            by_pipeline.setdefault(sample.filter, []).extend(_readings(by_document[sample.document_id], sample))
    if not by_pipeline:
        return None
    replays = {spec.name: _replay(spec) for spec in task.pipelines}
    audits = [_audit(name, readings, replays.get(name)) for name, readings in by_pipeline.items()]
    return TaskAudit(task.name, tuple(audits), tuple(_between(by_pipeline)))


def audit_run(tasks: Sequence[TaskResult]) -> tuple[TaskAudit, ...]:
    """The audits of all tasks that have one."""
    return tuple([audit for task in tasks if (audit := audit_task(task)) is not None])


def _readings(item: AnsweredDocument, sample: Sample) -> Iterator[_Reading]:
    draws = item.instance.draws
    for question, extractions in enumerate(sample.extractions):
        for draw, extraction in enumerate(extractions):
            place = question * draws + draw
            output = item.outputs[place] if place < len(item.outputs) else None
            if isinstance(output, Text):
                yield _Reading(item, place, output, extraction)


@dataclass(frozen=True, slots=True)
class _Replay:
    """A pipeline up to its extraction step, to run every extractor on its own."""

    before: tuple[Filter, ...]
    step: Extract

    @property
    def names(self) -> list[str]:
        return [*(extractor.name for extractor in self.step.patterns), *self.step.names]

    def answers(self, text: Text, fields: Mapping[str, Any]) -> dict[str, str]:
        """Extractor → its answer, for those that find one."""
        left: list[Any] = [[text.text]]
        with ResourceLimit():
            for filter in self.before:
                left = filter(left, fields)
            seen = left[0][0] if isinstance(left[0], list) and left[0] else left[0]
            found = self.step.extract_each(seen if isinstance(seen, str) else "", fields, text.is_cut_off)
        return {name: each.answer for name, each in found.items() if each.answer is not None}


def _replay(spec: PipelineSpec) -> _Replay | None:
    """The replay of a pipeline; None without a step `extract`, or with task code before it, which may do anything."""
    before: list[Filter] = []
    for step in spec.steps:
        if step.factory is not None or step.name == "custom":
            return None
        made = make_filter(step, f"filter {spec.name}")
        if isinstance(made, Extract):
            return _Replay(tuple(before), made)
        if step.name != "take_first_k":  # there is one text at a time here
            before.append(made)
    return None


def _audit(pipeline: str, readings: Sequence[_Reading], replay: _Replay | None) -> PipelineAudit:
    matched = Counter(dict.fromkeys(replay.names if replay is not None else (), 0))
    matched.update(name for reading in readings if (name := reading.extraction.extractor) is not None)
    cut = [reading for reading in readings if reading.text.is_cut_off]
    return PipelineAudit(
        pipeline=pipeline,
        texts=len(readings),
        matched=dict(matched),
        no_answer=sum(reading.extraction.answer is None for reading in readings),
        truncated=len(cut),
        truncated_with_answer=sum(reading.extraction.answer is not None for reading in cut),
        disagreements=tuple(_within(readings, replay)) if replay is not None else (),
    )


def _within(readings: Sequence[_Reading], replay: _Replay) -> Iterator[Disagreement]:
    """Texts from which two extractors of a list extract different answers."""
    for reading in readings:
        try:
            found = _differing(reading, replay.answers(reading.text, reading.item.document.fields))
        except LimitError as error:
            document = reading.item.document
            raise error.at(f"task {document.task}, audit of document {document.id}: filter extract") from error
        if found is not None:
            yield found


def _between(by_pipeline: Mapping[str, Sequence[_Reading]]) -> Iterator[Disagreement]:
    """Texts from which two pipelines extract different answers; a pipeline that found none does not count."""
    texts: dict[tuple[int, int], dict[str, _Reading]] = {}
    for pipeline, readings in by_pipeline.items():
        for reading in readings:
            texts.setdefault((reading.item.document.id, reading.draw), {})[pipeline] = reading
    for _, read in sorted(texts.items()):
        answers = {name: each.extraction.answer for name, each in read.items() if each.extraction.answer is not None}
        found = _differing(next(iter(read.values())), answers)
        if found is not None:
            yield found


def _differing(reading: _Reading, answers: Mapping[str, str]) -> Disagreement | None:
    if len({comparable(answer) for answer in answers.values()}) < 2:
        return None
    item = reading.item
    return Disagreement(
        document_id=item.document.id,
        draw=reading.draw,
        answers=answers,
        right=right_answers(item.instance),
        excerpt=excerpt(reading.text.text, reading.extraction),
        is_truncated=reading.text.is_cut_off,
    )


def right_answers(instance: Instance) -> tuple[str, ...]:
    """Every right answer as scorers compare it, or as the task states it if they have none."""
    gold = instance.target if instance.gold is None else instance.gold
    return tuple(map(str, gold)) if isinstance(gold, (tuple, list)) else (str(gold),)


def comparable(answer: str) -> str:
    """An answer normalised for comparison: 1,000 is 1000.0, (B) is b."""
    return canonical(answer) or canonical(plain(answer)) or plain(answer)


def excerpt(text: str, extraction: Extraction) -> str:
    """The text around an answer; the end of the text if the position is unknown."""
    if extraction.start == UNKNOWN_OFFSET:
        start, end = max(0, len(text) - 2 * _AROUND), len(text)
    else:
        start, end = max(0, extraction.start - _AROUND), min(len(text), extraction.end + _AROUND)
    return ("…" if start else "") + " ".join(text[start:end].split()) + ("…" if end < len(text) else "")
