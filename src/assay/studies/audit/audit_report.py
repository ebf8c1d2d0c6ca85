"""The audit of answer extraction as lines of text, and as data for the result file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from assay.core.plural import plural
from assay.report.safe_names import printable
from assay.studies.audit.extraction_audit import Disagreement, PipelineAudit, TaskAudit


def audit_data(audits: Sequence[TaskAudit]) -> dict[str, Any]:
    """The audit in full, by task."""
    return {audit.task: {key: value for key, value in asdict(audit).items() if key != "task"} for audit in audits}


def audit_lines(audits: Sequence[TaskAudit], most: int | None) -> Iterator[str]:
    """The lines of the audit, task by task.

    Args:
        audits: the audits of the tasks.
        most: documents to show per list; None for all of them.
    """
    if not audits:
        yield "audit: no task of this run extracts answers from generated text"
    for audit in audits:
        for pipeline in audit.pipelines:
            yield from _pipeline_lines(audit.task, pipeline, most)
        if len(audit.pipelines) > 1:
            texts = plural(len(audit.between), "text")
            yield f"audit of {printable(audit.task)}: {texts} read differently by its pipelines"
            yield from _disagreement_lines(audit.between, most)


def _pipeline_lines(task: str, audit: PipelineAudit, most: int | None) -> Iterator[str]:
    yield (
        f"audit of {printable(task)} ({printable(audit.pipeline)}): {plural(audit.texts, 'text')}, "
        f"no answer in {audit.no_answer}, cut off {audit.truncated}, "
        f"of which {audit.truncated_with_answer} with an answer"
    )
    for name, count in audit.matched.items():
        yield f"  {count:>7} × {printable(name)}"
    if audit.disagreements:
        yield f"  {plural(len(audit.disagreements), 'text')} from which the extractors read different answers:"
    yield from _disagreement_lines(audit.disagreements, most)


def _disagreement_lines(disagreements: Sequence[Disagreement], most: int | None) -> Iterator[str]:
    for each in disagreements[:most]:
        answers = ", ".join(f"{name} {answer!r}" for name, answer in each.answers.items())
        cut = ", cut off" if each.is_truncated else ""
        draw = f", text {each.draw}" if each.draw else ""
        right = " or ".join(map(repr, each.right))
        yield printable(f"  document {each.document_id}{draw}: {answers}; right: {right}{cut}")
        yield printable(f"    {each.excerpt}")
    if most is not None and len(disagreements) > most:
        yield f"  and {len(disagreements) - most} more: --audit all"
