"""What only a reopened run tells of compared documents: the questions that score otherwise, the choices picked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.core.comparisons import Agreement, PairedScore
from assay.core.requests import Generation, Instance, Loglikelihood, uncut
from assay.run.picks import picks_of, right_of
from assay.run.sides import Side
from assay.scoring.comparing import agreement_of

# The question stands at the end, behind the few-shot examples.
_LETTERS = 200


def with_questions(score: PairedScore, side: Side) -> PairedScore:
    """The pair with the question of every listed document, or a remark that says why they are not shown."""
    if not score.flips:
        return score
    if side.posed is None:
        return replace(score, remarks=(*score.remarks, f"questions cannot be shown: {side.told}"))
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


def picks_agreement(
    sides: tuple[Side, Side],
    documents: Sequence[tuple[int, int]],
    clusters: Sequence[str] | None,
    score: PairedScore,
    seed: int,
) -> Agreement | str:
    """How far two runs pick the same choices; or why that cannot be told.

    Args:
        sides: the task in both runs.
        documents: the documents in common, as each run numbers them.
        clusters: the cluster of each.
        score: the pair, for its metric and pipeline.
        seed: of the bootstrap.
    """
    picked, right = [], []
    for side in sides:
        if side.posed is None or side.result is None:
            return side.told
        picks = picks_of(side.posed.task, side.result, score.metric, score.filter)
        if len(picks) != 1:
            return f"{score.metric} of {side.name} picks no choice"
        picked.append(picks[0])
        right.append(right_of(side.posed.task, side.result))
    found = [(picked[0].get(one), picked[1].get(two)) for one, two in documents]
    known = [place for place, both in enumerate(found) if None not in both]
    if not known:
        return "no document has a pick in both runs"
    if any(right[0][one] != right[1][two] for one, two in (documents[place] for place in known)):
        return "the documents have other choices"
    own = None if clusters is None else [clusters[place] for place in known]
    return agreement_of([found[place][0] for place in known], [found[place][1] for place in known], own, seed)
