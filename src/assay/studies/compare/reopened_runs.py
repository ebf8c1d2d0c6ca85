"""Steps that need reopened runs: common documents of different splits, questions of changed documents, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.core.requests import Generation, Instance, Loglikelihood, untruncated_prompt
from assay.run.manifest import right_answer
from assay.studies.compare.comparability import Overlap
from assay.studies.paired.differences import label_agreement
from assay.studies.paired.paired_values import Agreement, PairedScore
from assay.studies.paired.predictions import gold_choices_of, predictions_of
from assay.studies.paired.recorded_tasks import ReopenedTask, main_requests
from assay.studies.paired.row_pairs import paired_rows

# The question is at the end, after the few-shot examples.
_LETTERS = 200


@dataclass(frozen=True, slots=True)
class CommonDocuments:
    """Common documents of two runs.

    Attributes:
        places: id in the first → id in the second.
        overlap: whether their requests and right answers are the same.
        how: how they were paired, if they are not equal.
    """

    places: dict[int, int]
    overlap: Overlap
    how: str = ""


def common_documents(first: ReopenedTask, second: ReopenedTask) -> CommonDocuments | None:
    """The documents in common by their content; None if there is none, or a run could not be reopened."""
    rows = paired_rows(first, second)
    places = rows.places
    if first.built is None or second.built is None or not places:
        return None
    instances = [(first.built.instances[mine], second.built.instances[theirs]) for mine, theirs in places]
    return CommonDocuments(
        {first.built.documents[mine].id: second.built.documents[theirs].id for mine, theirs in places},
        Overlap(
            has_same_requests=all(main_requests(mine) == main_requests(theirs) for mine, theirs in instances),
            has_same_targets=all(right_answer(mine) == right_answer(theirs) for mine, theirs in instances),
        ),
        rows.how,
    )


def with_questions(score: PairedScore, reopened: ReopenedTask) -> PairedScore:
    """The pair with the question of every listed document, or a caveat that says why they are not shown."""
    if not score.flips:
        return score
    if reopened.built is None:
        return replace(score, caveats=(*score.caveats, f"questions cannot be shown: {reopened.explanation}"))
    wanted = {flip.document for flip in score.flips}
    known = {
        document.id: _question(instance)
        for document, instance in zip(reopened.built.documents, reopened.built.instances, strict=True)
        if document.id in wanted
    }
    flips = tuple(replace(flip, question=known.get(flip.document, "")) for flip in score.flips)
    return replace(score, flips=flips)


def _question(instance: Instance) -> str:
    request = instance.requests[0]
    if isinstance(request, (Loglikelihood, Generation)):
        whole = untruncated_prompt(request.prompt)
        text = whole if isinstance(whole, str) else whole[-1].text if whole else ""
    else:
        text = request.text
    line = " ".join(text.split())
    return line if len(line) <= _LETTERS else "…" + line[-_LETTERS + 1 :]


def prediction_agreement(
    both: tuple[ReopenedTask, ReopenedTask],
    documents: Sequence[tuple[int, int]],
    clusters: Sequence[str] | None,
    score: PairedScore,
    seed: int,
) -> Agreement | str:
    """Agreement of two runs' predictions; or why it is unknown.

    Args:
        both: the task in both runs.
        documents: the documents in common, as each run numbers them.
        clusters: the cluster of each.
        score: the pair, for its metric and pipeline.
        seed: bootstrap seed.
    """
    predicted, right = [], []
    for reopened in both:
        if reopened.built is None or reopened.result is None:
            return reopened.explanation
        draws = predictions_of(reopened.built.task, reopened.result, score.metric, score.filter)
        if len(draws) != 1:
            return f"{score.metric} of {reopened.name} does not select a choice"
        predicted.append(draws[0])
        right.append(gold_choices_of(reopened.built.task, reopened.result))
    found = [(predicted[0].get(one), predicted[1].get(two)) for one, two in documents]
    known = [index for index, both in enumerate(found) if None not in both]
    if not known:
        return "no document has a prediction in both runs"
    if any(right[0][one] != right[1][two] for one, two in (documents[index] for index in known)):
        return "the documents have different choices"
    own = None if clusters is None else [clusters[index] for index in known]
    return label_agreement([found[index][0] for index in known], [found[index][1] for index in known], own, seed)
