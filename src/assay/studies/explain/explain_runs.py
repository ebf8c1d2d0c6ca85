"""Explains why the scores of two recorded runs differ: reopens both, compares every stage, attributes the difference.

In: two runs of a store. Out: an explanation per pair of tasks. A model is opened for its tokenizer at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.core.errors import Fault, UnknownName, did_you_mean
from assay.core.plural import plural
from assay.core.protocols import Task
from assay.core.scores import Estimate
from assay.run.events import Listener
from assay.store.run_records import RunRecord
from assay.store.store import Store
from assay.studies.explain import explain_values as kinds
from assay.studies.explain.causes import TaskPair, find_causes
from assay.studies.explain.explain_values import Cause, Explanation, TaskExplanation, points_text
from assay.studies.explain.token_diff import ModelAccess, token_cause
from assay.studies.paired.paired_values import Score
from assay.studies.paired.recorded_tasks import ReopenedTask, main_requests, reopen_tasks, values_of
from assay.studies.paired.row_pairs import paired_rows, paired_tasks

_FAMILIES = {
    kinds.MODEL: "the model",
    kinds.NUMERICS: "the model",
    kinds.DATASET: "the documents",
    kinds.DEFINITION: "the prompts",
    kinds.EXAMPLES: "the prompts",
    kinds.PROMPTS: "the prompts",
    kinds.TOKENS: "the prompts",
    kinds.TRUNCATION: "the prompts",
    kinds.NOTES: "the prompts",
    kinds.EXTRACTION: "the extraction",
    kinds.NORMALISATION: "the normalisation",
    kinds.RECORD: "the record",
}
_WORDS = {
    kinds.MODEL: "the model",
    kinds.NUMERICS: "the arithmetic",
    kinds.DATASET: "the documents",
    kinds.EXAMPLES: "the few-shot examples",
    kinds.PROMPTS: "the prompts",
    kinds.TOKENS: "the tokens",
    kinds.TRUNCATION: "the truncation",
    kinds.NOTES: "the model's notes",
    kinds.EXTRACTION: "the extraction of answers",
    kinds.NORMALISATION: "the metric",
    kinds.RECORD: "the scoring version",
}
_SMALL = 1e-12
_NO_ESTIMATE = Estimate(None, None, None, None, 0, "none")


def explain(
    store: Store,
    runs: tuple[str, str],
    listener: Listener,
    tasks: tuple[str, str] | None = None,
    metrics: tuple[str, str] | None = None,
    shows_tokens: bool = False,
    given: Sequence[Task] = (),
) -> Explanation:
    """Compares two runs.

    Args:
        store: holds both.
        runs: their names.
        listener: receives the events.
        tasks: a task of the first and one of the second; None for every task that both have.
        metrics: the metric of each to compare; None for the first that each reports.
        shows_tokens: whether to open the models' tokenizers and compare tokens.
        given: task objects, for runs of task objects.
    """
    first, second = (store.runs.get(run) for run in runs)
    pairs = _pairs(first, second, tasks)
    sides = [reopen_tasks(store, first, [one for one, _ in pairs], listener, given)]
    # A run compared with itself, or with another task of itself, is reopened twice: a rare case.
    sides.append(reopen_tasks(store, second, [two for _, two in pairs], listener, given))
    access = ModelAccess(store, listener) if shows_tokens else None
    found = [_explained(_pair(sides[0][one], sides[1][two], metrics), access) for one, two in pairs]
    return Explanation((first.id, second.id), (_model(first), _model(second)), tuple(found))


def _model(record: RunRecord) -> str:
    """The user's name for the model."""
    arguments = record.spec.get("model_args", {})
    return " ".join(filter(None, (record.spec.get("model", record.model), arguments.get("pretrained"))))


def _pairs(first: RunRecord, second: RunRecord, tasks: tuple[str, str] | None) -> list[tuple[str, str]]:
    names = [list(record.tasks) for record in (first, second)]
    if tasks is not None:
        faults = [
            Fault(f"--tasks {name}", f"run {record.id} has no such task{did_you_mean(name, own)}", ", ".join(own))
            for record, name, own in zip((first, second), tasks, names, strict=True)
            if name not in own
        ]
        if faults:
            raise UnknownName(*faults)
        return [tasks]
    if len(names[0]) == len(names[1]) == 1:
        return [(names[0][0], names[1][0])]
    common = paired_tasks(names[0], names[1])
    if not common:
        found = f"runs {first.id} and {second.id} have no task in common"
        advice = "Name a task of each: --tasks A B"
        raise UnknownName(
            Fault("--tasks", found, f"one of {', '.join(names[0])} and one of {', '.join(names[1])}", advice)
        )
    return common


def _pair(first: ReopenedTask, second: ReopenedTask, metrics: tuple[str, str] | None) -> TaskPair:
    wanted = metrics or (None, None)
    scores = _score(first, wanted[0]), _score(second, wanted[1])
    rows, different = paired_rows(first, second), []
    if first.built is not None and second.built is not None:
        one, two = first.built.instances, second.built.instances
        different = [places for places in rows.places if main_requests(one[places[0]]) != main_requests(two[places[1]])]
    return TaskPair(first, second, scores, rows.places, different, rows.how)


def _score(reopened: ReopenedTask, metric: str | None) -> Score:
    """The number to compare: as recorded, or computed from the answers if it was not recorded."""
    scores = reopened.recorded_scores() or reopened.scores()
    if metric is None:
        return scores[0] if scores else Score(reopened.name, "", "", _NO_ESTIMATE)
    found = [score for score in scores if score.metric == metric]
    if not found:
        known = [score.metric for score in scores]
        where = f"run {reopened.record.id}, task {reopened.name}"
        advice = f"See: assay rescore {reopened.record.id} --metrics +{metric}"
        expected = ", ".join(dict.fromkeys(known))
        raise UnknownName(Fault(where, f'reports no metric "{metric}"{did_you_mean(metric, known)}', expected, advice))
    return found[0]


def _explained(pair: TaskPair, access: ModelAccess | None) -> TaskExplanation:
    causes = find_causes(pair)
    caveats = _caveats(pair)
    if access is not None:
        token, caveat = token_cause(pair, access)
        causes = _inserted(causes, token)
        caveats += [caveat] if caveat else []
    causes, without = _relevant_causes(pair, causes)
    first, second = pair.scores
    values = first.estimate.value, second.estimate.value
    difference = None if values[0] is None or values[1] is None else values[1] - values[0]
    causes, joint = _with_remainder(causes, difference)
    common, better, worse = _flips(pair)
    ending = _conclusion(pair, causes, difference, joint)
    return TaskExplanation(
        first=first,
        second=second,
        difference=difference,
        common=common,
        better=better,
        worse=worse,
        causes=tuple(causes),
        caveats=(*caveats, *without),
        conclusion=ending,
    )


def _inserted(causes: list[Cause], cause: Cause | None) -> list[Cause]:
    """Inserts the cause about tokens, after prompts and before what the model encountered."""
    if cause is None:
        return causes
    earlier = (kinds.MODEL, kinds.DATASET, kinds.DEFINITION, kinds.EXAMPLES, kinds.PROMPTS)
    return [c for c in causes if c.kind in earlier] + [cause] + [c for c in causes if c.kind not in earlier]


def _caveats(pair: TaskPair) -> list[str]:
    known = "so its documents and prompts are known by their digests only"
    sides = {reopened.record.id: reopened for reopened in pair.reopened if reopened.reason}
    verbs = {
        run: "cannot be scored" if "problem" in reopened.summary else "cannot be reopened"
        for run, reopened in sides.items()
    }
    closed = [f"run {run} {verbs[run]}, {known}: {reopened.explanation}" for run, reopened in sides.items()]
    return closed + ([pair.rows] if pair.rows else [])


def _relevant_causes(pair: TaskPair, causes: list[Cause]) -> tuple[list[Cause], list[str]]:
    """The causes that can have an effect; the environment cannot if both runs share their answers."""
    is_shared = pair.has_same_requests and pair.first.record.fingerprint.digest == pair.second.record.fingerprint.digest
    idle = [cause for cause in causes if cause.kind == kinds.ENVIRONMENT and is_shared]
    caveats = [f"{cause.text}, but share their answers: {'; '.join(cause.evidence)}" for cause in idle]
    if pair.has_same_questions:
        written = [cause for cause in causes if cause.kind == kinds.DEFINITION]
        counted = plural(len(pair.common), "document")
        caveats += [f"{cause.text}. They build the same requests and right answers for {counted}" for cause in written]
        idle += written
    return [cause for cause in causes if cause not in idle], caveats


def _with_remainder(causes: list[Cause], difference: float | None) -> tuple[list[Cause], float | None]:
    """The causes, with the remaining difference assigned to the only kind of unknown share; else the remainder."""
    if difference is None:
        return causes, None
    open_ones = [cause for cause in causes if cause.points is None and cause.kind in _FAMILIES]
    rest = difference - sum(cause.points for cause in causes if cause.points is not None)
    families = {_FAMILIES[cause.kind] for cause in open_ones}
    if not families:
        return causes, None
    if len(families) > 1:
        return causes, rest
    return [replace(cause, points=rest) if cause is open_ones[0] else cause for cause in causes], None


def _flips(pair: TaskPair) -> tuple[int | None, int | None, int | None]:
    """Documents that both scored, and how many are better and worse in the second run."""
    if pair.first.result is None or pair.second.result is None:
        return None, None, None
    one, two = (values_of(s.result, score) for s, score in zip(pair.reopened, pair.scores, strict=True) if s.result)
    ids = [tuple(item.document.id for item in pair.answered(places)) for places in pair.common]
    both = [(one[a], two[b]) for a, b in ids if a in one and b in two]
    if not both:
        return None, None, None
    return len(both), sum(b > a for a, b in both), sum(b < a for a, b in both)


def _conclusion(pair: TaskPair, causes: Sequence[Cause], difference: float | None, joint: float | None) -> str:
    acting = [cause for cause in causes if cause.kind in _FAMILIES]
    named = _listed(list(map(_name, acting)))
    if not acting:
        return _no_cause_text(causes, difference)
    if difference is None:
        return f"One of the two scores is missing; the runs differ in {named}."
    if abs(difference) <= _SMALL:
        return f"The scores are equal, but these differ: {named}."
    total = points_text(difference, *pair.scores)
    largest = max(acting, key=lambda cause: abs(cause.points or 0.0))
    if joint is not None and abs(joint) > abs(largest.points or 0.0):
        unknown = [_name(cause) for cause in acting if cause.points is None]
        share = points_text(joint, *pair.scores)
        return f"The largest share, {share} of {total}, comes from {_listed(unknown)} together."
    if len(acting) == 1:
        return f"The only cause found is {named}: {total}."
    share = points_text(largest.points or 0.0, *pair.scores)
    return f"The largest cause is {_name(largest)}: {share} of {total}."


def _name(cause: Cause) -> str:
    return cause.name or _WORDS[cause.kind]


def _no_cause_text(causes: Sequence[Cause], difference: float | None) -> str:
    if not causes and (difference is None or abs(difference) <= _SMALL):
        return "Nothing differs: the same model, documents, requests and scoring."
    if causes:
        return "Only the environments of the runs differ."
    return "The scores differ, but no cause was found: please report this."


def _listed(words: Sequence[str]) -> str:
    once = list(dict.fromkeys(words))
    return " and ".join([", ".join(once[:-1]), once[-1]]) if len(once) > 1 else "".join(once)
