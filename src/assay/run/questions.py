"""The questions of documents that score otherwise, where their run can still be reopened."""

from __future__ import annotations

from dataclasses import replace

from assay.core.comparisons import PairedScore
from assay.core.requests import Generation, Instance, Loglikelihood, uncut
from assay.run.sides import Side

# The question stands at the end, behind the few-shot examples.
_LETTERS = 200


def with_questions(score: PairedScore, side: Side) -> PairedScore:
    """The pair with the question of every listed document, or a remark that says why they are not shown."""
    if not score.flips:
        return score
    if side.posed is None:
        return replace(score, remarks=(*score.remarks, f"questions cannot be shown: {side.reason}"))
    wanted = {flip.document for flip in score.flips}
    known = {
        document.id: _question(instance)
        for document, instance in zip(side.posed.documents, side.posed.instances, strict=True)
        if document.id in wanted
    }
    flips = tuple(replace(flip, question=known.get(flip.document, "")) for flip in score.flips)
    return replace(score, flips=flips)


def _question(instance: Instance) -> str:
    request = instance.requests[0]
    if isinstance(request, (Loglikelihood, Generation)):
        whole = uncut(request.prompt)
        text = whole if isinstance(whole, str) else whole[-1].text if whole else ""
    else:
        text = request.text
    line = " ".join(text.split())
    return line if len(line) <= _LETTERS else "…" + line[-_LETTERS + 1 :]
