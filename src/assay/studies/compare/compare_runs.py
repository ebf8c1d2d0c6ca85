"""Compares recorded runs document by document: checks comparability, runs paired tests, states verdicts.

In: runs of a store. Out: a `RunComparison`. A run is reopened only if its record lacks what is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from assay.core.errors import DataError, Fault, UnknownName, did_you_mean
from assay.core.plural import plural
from assay.core.scores import BYPASS, CUSTOM, DocumentValues, Estimate
from assay.core.task_variants import task_family
from assay.store.run_records import FINISHED, RunRecord
from assay.studies.compare.comparability import (
    Overlap,
    RecordedTask,
    bounds_of,
    cluster_differences,
    differences,
    pair_caveats,
)
from assay.studies.compare.compare_values import RunComparison, System, Uncompared
from assay.studies.compare.systems import (
    check_options,
    find_systems,
    lm_eval_titles,
    points_as_sizes,
    tasks_by_title,
    wanted_pairs,
)
from assay.studies.paired.differences import (
    PairedComparison,
    are_compatible,
    compare_pairs,
    is_comparable,
    with_adjusted_intervals,
)
from assay.studies.paired.matching import MatchedPair, SystemEntry, match_documents
from assay.studies.paired.paired_values import (
    ALL,
    STYLE,
    Agreement,
    CompareOptions,
    OverallScore,
    PairedScore,
    RankTable,
)
from assay.studies.paired.verdicts import conclusion, rank_systems, ranking_table, replicates_for, with_verdicts

if TYPE_CHECKING:
    from assay.core.protocols import Task
    from assay.run.events import Listener
    from assay.store.store import Store
    from assay.studies.paired.recorded_tasks import ReopenedTask

_MOST_FAULTS = 8


@dataclass(slots=True)
class _ComparisonContext:
    """State shared by the steps: store, options, task objects, reopened runs, notices and faults."""

    store: Store
    options: CompareOptions
    listener: Listener
    given: Sequence[Task] = ()
    notices: list[str] = field(default_factory=list)
    uncompared: list[Uncompared] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    opened: dict[str, dict[str, ReopenedTask]] = field(default_factory=dict)

    def reopened(self, task: RecordedTask) -> ReopenedTask:
        """The task, reopened; its `reason` says why if that fails."""
        if task.record.id not in self.opened:
            from assay.studies.paired.recorded_tasks import reopen_tasks  # most comparisons need only the records

            names = list(task.record.tasks)
            self.opened[task.record.id] = reopen_tasks(self.store, task.record, names, self.listener, self.given)
        return self.opened[task.record.id][task.name]

    def notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)

    def leave_out(self, task: str, metric: str | None, reason: str, text: str = "") -> None:
        """Records what cannot be compared, with a notice: the text, or task and reason."""
        self.notice(text or f"{task}: {reason}")
        found = Uncompared(task, metric, reason)
        self.uncompared += [found] if found not in self.uncompared else []

    def refuse(self, fault: Fault) -> None:
        if fault not in self.faults:  # most are the same for all metrics of a task
            self.faults.append(fault)


@dataclass(frozen=True, slots=True)
class _TaskColumn:
    """A task of several systems: its title, and each system's recorded task."""

    title: str
    tasks: Mapping[str, RecordedTask]


@dataclass(frozen=True, slots=True)
class _MetricGroup:
    """One metric of a column: every system's documents, and the pairs."""

    title: str
    metric: str
    filter: str
    entries: Mapping[str, SystemEntry]
    pairs: Sequence[tuple[str, str]]
    is_first: bool


def compare(
    store: Store, runs: Sequence[str], options: CompareOptions, listener: Listener, given: Sequence[Task] = ()
) -> RunComparison:
    """Compares two or more runs.

    Args:
        store: holds them.
        runs: names, each optionally followed by `@task` to select one task.
        options: the options of the comparison.
        listener: receives the events.
        given: task objects, for runs of task objects.
    """
    check_options(options)
    context = _ComparisonContext(store, options, listener, given)
    systems, records = find_systems(store, runs, options.baseline)
    for record in {record.id: record for record in records.values()}.values():
        if record.status != FINISHED:
            context.notice(f"run {record.id} is {record.status}: documents that it did not score are left out")
    pairs = wanted_pairs(systems, options.baseline is not None)
    groups = [group for column in _columns(context, systems, records) for group in _groups(context, column, pairs)]
    found = [_compared(context, columns) for columns in groups]
    if context.faults:
        raise DataError(*_first_faults(context.faults))
    if not any(found):
        raise DataError(Fault("compare", "nothing could be compared", next="; ".join(context.notices)))
    return _concluded(context, systems, [group for _, group in groups], found)


# Which systems, which tasks, which metrics


def _columns(
    context: _ComparisonContext, systems: Sequence[System], records: Mapping[str, RunRecord]
) -> list[_TaskColumn]:
    """The tasks that at least two systems have."""
    own = {system.label: _tasks(system, records[system.label]) for system in systems}
    if all(len(names) == 1 for names in own.values()):
        titles = list(dict.fromkeys(names[0] for names in own.values()))
        _check_patterns(context.options.tasks, titles)
        tasks = {label: RecordedTask(records[label], names[0]) for label, names in own.items()}
        return [_TaskColumn(" / ".join(titles), tasks)]
    titles_of = lm_eval_titles(list(own.values()))
    if titles_of:
        context.notice(f"paired with lm-eval's own tasks of these names: {', '.join(titles_of.values())}")
    keyed = {label: tasks_by_title(names, titles_of, STYLE in context.options.across) for label, names in own.items()}
    titles = list(dict.fromkeys(key for names in keyed.values() for key in names))
    _check_patterns(context.options.tasks, titles)
    found = []
    for title in titles:
        having = {label: RecordedTask(records[label], names[title]) for label, names in keyed.items() if title in names}
        if not _is_wanted(context.options, [title]):
            continue
        if len(having) < len(own):
            lacking = ", ".join(label for label in own if label not in having)
            context.leave_out(title, None, f"{lacking} did not run it")
        if len(having) > 1:
            found.append(_TaskColumn(title, having))
    return found or _no_task(context, titles)


def _tasks(system: System, record: RunRecord) -> list[str]:
    return [system.task] if system.task is not None else list(record.tasks)


def _is_wanted(options: CompareOptions, names: Sequence[str]) -> bool:
    return not options.tasks or any(fnmatchcase(name, pattern) for name in names for pattern in options.tasks)


def _check_patterns(patterns: Sequence[str], titles: Sequence[str]) -> None:
    """Raises for a pattern that matches no task: a typo must not leave a task out silently."""
    faults = [
        Fault("--tasks", f'no run has a task "{pattern}"{did_you_mean(pattern, titles)}', ", ".join(titles))
        for pattern in patterns
        if not any(fnmatchcase(title, pattern) for title in titles)
    ]
    if faults:
        raise UnknownName(*faults)


def _no_task(context: _ComparisonContext, titles: Sequence[str]) -> list[_TaskColumn]:
    if context.options.tasks:
        wanted = context.options.tasks[0]
        found = f'no two runs have a task "{wanted}"{did_you_mean(wanted, titles)}'
        raise UnknownName(Fault("--tasks", found, ", ".join(titles)))
    advice = "Name a task of each run: assay compare RUN@TASK RUN@TASK"
    raise UnknownName(Fault("compare", f"the runs have no task in common: {', '.join(titles)}", "", advice))


def _groups(
    context: _ComparisonContext, column: _TaskColumn, pairs: Sequence[tuple[str, str]]
) -> list[tuple[_TaskColumn, _MetricGroup]]:
    """The column's metrics, with the documents of every system that reports them."""
    own = [pair for pair in pairs if pair[0] in column.tasks and pair[1] in column.tasks]
    reported = {label: _reported(context, task) for label, task in column.tasks.items()}
    if sum(map(bool, reported.values())) < 2 and any("problem" in task.summary for task in column.tasks.values()):
        return []  # left out already, with the reason
    recorded = {label: context.store.values.of_run(item.record.id, item.name) for label, item in column.tasks.items()}
    found = []
    for index, (metric, filter) in enumerate(_metrics(context, column.title, list(reported.values()))):
        entries = {}
        lacking = [label for label, names in reported.items() if (metric, filter) not in names]
        if lacking:
            context.leave_out(
                column.title, metric, f"{_names([(metric, filter)])} is not reported by {', '.join(lacking)}"
            )
        for label, task in column.tasks.items():
            values = None if label in lacking else _values(context, column, task, recorded[label], (metric, filter))
            if values is not None:
                entries[label] = SystemEntry(label, replace(values, task=column.title))
        usable = [(one, two) for one, two in own if one in entries and two in entries]
        if usable:
            found.append((column, _MetricGroup(column.title, metric, filter, entries, usable, index == 0)))
    return found


def _metrics(
    context: _ComparisonContext, title: str, reported: Sequence[Sequence[tuple[str, str]]]
) -> list[tuple[str, str]]:
    """The metrics to compare, each with its pipeline: the requested ones, or the first that two systems report."""
    every = list(dict.fromkeys(pair for own in reported for pair in own))
    shared = [pair for pair in every if sum(pair in own for own in reported) > 1]
    if not shared:
        context.leave_out(title, None, f"no metric and filter in common: {_names(every)}")
        return []
    if not context.options.metrics:
        if every[0] != shared[0]:
            context.notice(f"{title}: only one run reports {_names(every[:1])}; {_names(shared[:1])} is compared")
        return shared[:1]
    found: list[tuple[str, str]] = []
    for name in context.options.metrics:
        wanted, _, filter = name.partition(",")
        fitting = [pair for pair in shared if pair[0] == wanted and filter in ("", pair[1])]
        if name == ALL:
            found += shared
            for pair in every:
                if pair not in shared:
                    context.leave_out(title, pair[0], f"only one run reports {_names([pair])}")
        elif fitting:
            found.append(fitting[0])
            if len(fitting) > 1:
                context.notice(f"{title}: {_names(fitting[:1])} is compared; also reported: {_names(fitting[1:])}")
        else:
            context.leave_out(title, wanted, f'no two runs report the metric "{name}"; they have {_names(every)}')
    return list(dict.fromkeys(found))


def _names(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(metric if filter == "none" else f"{metric},{filter}" for metric, filter in pairs) or "none"


def _reported(context: _ComparisonContext, task: RecordedTask) -> list[tuple[str, str]]:
    listed = task.summary.get("metrics")
    if listed or (listed is not None and "problem" not in task.summary):
        return [(item["metric"], item["filter"]) for item in listed]
    reopened = context.reopened(task)
    if reopened.result is None and listed is not None:
        explanation = task.summary["problem"]["text"]
        context.leave_out(task.name, None, f"run {task.record.id} could not score it: {explanation}")
    return [] if reopened.result is None else [(item.metric, item.filter) for item in reopened.result.metrics]


def _values(
    context: _ComparisonContext,
    column: _TaskColumn,
    task: RecordedTask,
    recorded: Sequence[DocumentValues],
    name: tuple[str, str],
) -> DocumentValues | None:
    """A metric's per-document values: as recorded, or from the reopened run if the record has none."""
    metric, _ = name
    own = [item for item in recorded if (item.metric, item.filter) == name]
    if not own:
        reopened = context.reopened(task)
        if reopened.result is None or reopened.scoring is None:
            reason = f"its per-document values are not recorded, and the run cannot be reopened: {reopened.explanation}"
            context.leave_out(column.title, metric, reason, f"run {task.record.id}, {task.name}, {metric}: {reason}")
            return None
        from assay.scoring.aggregate import document_values

        again = document_values(reopened.scoring, reopened.result, with_texts=True)
        own = [item for item in again if (item.metric, item.filter) == name]
    if not own or not is_comparable(own[0].aggregation):
        reason = f"cannot be compared: {_reason(own[0].aggregation if own else CUSTOM)}"
        context.leave_out(column.title, metric, reason, f"{task.name}, {metric}: {reason}")
        return None
    return own[0]


def _reason(aggregation: str) -> str:
    if aggregation == BYPASS:
        return "answers were recorded without being scored"
    return "the task aggregates it with its own function, for which there is no paired test"


# One metric of one task


@dataclass(frozen=True, slots=True)
class _Pairing:
    """Two systems' matched documents, the differences between their runs, and caveats."""

    match: MatchedPair
    run_differences: tuple[str, ...]
    caveats: tuple[str, ...]
    undefined: tuple[int, int]


def _compared(context: _ComparisonContext, group: tuple[_TaskColumn, _MetricGroup]) -> list[PairedComparison]:
    """The group's pairs. A difference that is not allowed is a fault."""
    column, own = group
    found = [_paired(context, column, own, first, second) for first, second in own.pairs]
    pairings = [pairing for pairing in found if pairing is not None]
    if context.faults:
        return []
    done = []
    compared = compare_pairs([pairing.match for pairing in pairings], _direction(context, column, own), context.options)
    for item, pairing in zip(compared, pairings, strict=True):
        for fault in points_as_sizes(context.options, item.score, pairing.match):
            context.refuse(fault)
        tasks = column.tasks[item.score.first], column.tasks[item.score.second]
        score = _with_counts(context, column, replace(item.score, run_differences=pairing.run_differences), pairing)
        score = replace(score, caveats=(*pairing.caveats, *pair_caveats(score, pairing.match, tasks)))
        if context.options.predictions:
            score = _with_prediction_agreement(context, column, score, pairing.match)
        if context.options.flips:
            score = _with_flips(context, column, score)
        done.append(replace(item, score=score, is_style=not all(task.has_prompt for task in tasks)))
    return done


def _with_counts(
    context: _ComparisonContext, column: _TaskColumn, score: PairedScore, pairing: _Pairing
) -> PairedScore:
    first, second = (_missing(context, column.tasks[label]) for label in (score.first, score.second))
    counted = replace(
        score, failed=(first[0], second[0]), unanswered=(first[1], second[1]), undefined=pairing.undefined
    )
    tasks = column.tasks[score.first], column.tasks[score.second]
    return replace(counted, bounds=bounds_of(counted, pairing.match, tasks))


def _missing(context: _ComparisonContext, task: RecordedTask) -> tuple[int, int]:
    """Failed documents as recorded; for a run that did not finish, documents without an answer."""
    counts = task.summary.get("denominators")
    if counts is not None:
        return int(counts["failed"]), 0
    reopened = context.opened.get(task.record.id, {}).get(task.name)
    return 0, 0 if reopened is None or reopened.result is None else reopened.result.denominators.failed


def _with_flips(context: _ComparisonContext, column: _TaskColumn, score: PairedScore) -> PairedScore:
    """The pair with the questions of its listed documents, or a caveat that says why none are listed."""
    if score.flips:
        from assay.studies.compare.reopened_runs import with_questions

        return with_questions(score, context.reopened(column.tasks[score.first]))
    if not score.n or score.wins == score.losses == 0:
        return score
    explanation = f"no documents are listed: {score.metric} is computed over all documents together, not per document"
    return replace(score, caveats=(*score.caveats, explanation))


def _with_prediction_agreement(
    context: _ComparisonContext, column: _TaskColumn, score: PairedScore, match: MatchedPair
) -> PairedScore:
    """The pair with the agreement of its predictions, or a caveat that says why there is none."""
    from assay.studies.compare.reopened_runs import prediction_agreement

    both = context.reopened(column.tasks[score.first]), context.reopened(column.tasks[score.second])
    documents = [
        (match.first.recorded.documents[mine], match.second.recorded.documents[theirs])
        for mine, theirs in zip(match.mine, match.theirs, strict=True)
    ]
    found = prediction_agreement(both, documents, match.clusters, score, context.options.seed)
    if isinstance(found, Agreement):
        return replace(score, prediction_agreement=found)
    return replace(score, caveats=(*score.caveats, f"predictions cannot be compared: {found}"))


def _paired(
    context: _ComparisonContext, column: _TaskColumn, group: _MetricGroup, first: str, second: str
) -> _Pairing | None:
    """Two systems' common documents; None, and a fault, if they are not comparable."""
    one, other = column.tasks[first], column.tasks[second]
    common: dict[int, int] | None = None
    overlap: Overlap | None = None
    caveats: tuple[str, ...] = ()
    if one.entry["documents_fingerprint"] != other.entry["documents_fingerprint"]:
        common, overlap, caveats = _common(context, one, other)
        if common is None and not context.options.force:
            return None
    own, theirs = group.entries[first], group.entries[second]
    where = f"{first} and {second}, {column.title}"
    if not are_compatible(
        own.recorded.aggregation, theirs.recorded.aggregation
    ):  # no paired test covers both, so --force does not help
        found_by = f"{own.recorded.aggregation} in one run, {theirs.recorded.aggregation} in the other"
        context.refuse(Fault(where, f"{group.metric} is aggregated by {found_by}", "the same aggregation"))
        return None
    match = match_documents(own, theirs, common)
    found = differences(one, other, group.metric, group.filter, overlap) + cluster_differences(one, other, match)
    refused = [item for item in found if item.axis not in context.options.across]
    if refused and not context.options.force:
        texts = "; ".join(f"{item.text} ({item.axis})" for item in refused)
        axes = ",".join(dict.fromkeys((*context.options.across, *(item.axis for item in refused))))
        advice = f"To compare them all the same, add --across {axes}; --force allows any difference"
        context.refuse(
            Fault(where, f"not comparable: {texts}", "runs that differ in " + _axes(context.options), advice)
        )
        return None
    return _Pairing(match, tuple(item.text for item in found), caveats, _undefined(own, theirs, common))


def _undefined(first: SystemEntry, second: SystemEntry, common: Mapping[int, int] | None) -> tuple[int, int]:
    """Common documents with a value in only one of the two: how many lack it in the first, and in the second."""
    if first.is_known and second.is_known:
        return 0, 0
    links = {document: document for document in first.recorded.documents} if common is None else common
    theirs = {document: index for document, other in links.items() if (index := second.places.get(other)) is not None}
    known = [
        (bool(first.has_value[index]), bool(second.has_value[theirs[document]]))
        for index, document in enumerate(first.recorded.documents)
        if document in theirs
    ]
    return known.count((False, True)), known.count((True, False))


def _axes(options: CompareOptions) -> str:
    return " and ".join(options.across) + " only" if options.across else "nothing"


def _common(
    context: _ComparisonContext, one: RecordedTask, other: RecordedTask
) -> tuple[dict[int, int] | None, Overlap | None, tuple[str, ...]]:
    """The common documents by their content, and whether their requests and right answers are the same."""
    from assay.studies.compare.reopened_runs import common_documents

    both = context.reopened(one), context.reopened(other)
    counts = f"{one.entry['documents']:,} and {other.entry['documents']:,}"
    where = f"runs {one.record.id} and {other.record.id}, {one.name}"
    if any(reopened.built is None for reopened in both):
        reasons = "; ".join(dict.fromkeys(reopened.reason for reopened in both if reopened.reason))
        found = f"they evaluated different documents ({counts}), and the common ones cannot be found: {reasons}"
        advice = f"{_recovery_advice(context, both)}; or --force pairs documents by their position in the split"
        if not context.options.force:
            context.refuse(Fault(where, found, "the same documents", advice))
        return None, None, ("the documents differ; they were paired by their position in the split",)
    common = common_documents(both[0], both[1])
    if common is None:
        advice = "Runs on different data cannot be compared document by document"
        context.refuse(Fault(where, f"they have no document in common ({counts})", "the same documents", advice))
        return None, None, ()
    why = common.how or f"the runs evaluated different documents ({counts})"
    caveat = f"{why}: compared on the {len(common.places):,} in common"
    return common.places, common.overlap, (caveat,)


def _recovery_advice(context: _ComparisonContext, both: tuple[ReopenedTask, ReopenedTask]) -> str:
    """Advice on making the documents of two runs available again."""
    from assay.run.reopen import as_argument, python_call

    if not any(reopened.needs_object for reopened in both):
        return "Restore the data"
    lacking = [reopened for own in both for reopened in context.opened[own.record.id].values() if reopened.needs_object]
    names = [*(item.card.name for item in context.given), *(task_family(reopened.name) for reopened in lacking)]
    runs = [reopened.record for reopened in both]
    return f"From Python: {python_call('compare', context.store, runs, as_argument(names))}"


def _direction(context: _ComparisonContext, column: _TaskColumn, group: _MetricGroup) -> bool | None:
    """Whether higher is better; None if the systems disagree."""
    tasks = [column.tasks[label] for label in group.entries]
    found = set().union(*(task.directions(group.metric, group.filter) for task in tasks))
    if found:
        return found.pop() if len(found) == 1 else None
    result = context.reopened(tasks[0]).result
    return None if result is None else result.metric(group.metric, group.filter).higher_is_better


def _first_faults(faults: Sequence[Fault]) -> list[Fault]:
    more = len(faults) - _MOST_FAULTS
    return [
        *faults[:_MOST_FAULTS],
        *([Fault("compare", f"{plural(more, 'more pair is', 'more pairs are')} not comparable")] if more > 0 else []),
    ]


# All together


def _concluded(
    context: _ComparisonContext,
    systems: Sequence[System],
    groups: Sequence[_MetricGroup],
    found: Sequence[Sequence[PairedComparison]],
) -> RunComparison:
    pairs = with_verdicts(
        with_adjusted_intervals([item for own in found for item in own], context.options), context.options
    )
    tests = sum(pair.p is not None for pair in pairs)
    names = {(own.title, own.metric, own.filter): own for own in groups}
    stuck = sum(
        _is_beyond_resolution(pair, names[pair.task, pair.metric, pair.filter], context.options.alpha) for pair in pairs
    )
    if stuck:
        explanation = f"in {plural(stuck, 'comparison')} p is as small as the number of bootstrap resamples allows"
        context.notice(
            f"{explanation}, but not below alpha after correction over {plural(tests, 'test')}: compare fewer runs or "
            "metrics, or use --baseline"
        )
    firsts = [own for group, own in zip(groups, found, strict=True) if group.is_first]
    overall = _overall_scores(context.options, firsts)
    tables = [*_tables(systems, groups, pairs), *_overall_table(systems, groups, overall)]
    return RunComparison(
        options=context.options,
        systems=tuple(systems),
        pairs=tuple(pairs),
        overall=tuple(overall),
        tables=tuple(tables),
        tests=tests,
        notices=tuple(context.notices),
        verdict=conclusion(pairs, overall),
        uncompared=tuple(context.uncompared),
    )


def _overall_scores(options: CompareOptions, columns: Sequence[Sequence[PairedComparison]]) -> list[OverallScore]:
    """All pairs over all tasks; empty for a single task."""
    if len(columns) < 2:
        return []
    from assay.studies.paired.over_tasks import overall_scores

    return overall_scores(options, columns)


def _is_beyond_resolution(pair: PairedScore, group: _MetricGroup, alpha: float) -> bool:
    """Whether p is as small as the bootstrap allows, and still not significant after correction."""
    if pair.p is None or pair.adjusted is None or not pair.p < alpha <= pair.adjusted:
        return False
    if not pair.test.endswith("bootstrap"):
        return False
    from assay.stats.bootstrap import smallest_p

    replicates = replicates_for(group.entries[pair.first].recorded.aggregation)
    return pair.p <= smallest_p(replicates, pair.clusters or pair.n)


def _tables(systems: Sequence[System], groups: Sequence[_MetricGroup], pairs: Sequence[PairedScore]) -> list[RankTable]:
    found = []
    for group in groups:
        own = [p for p in pairs if (p.task, p.metric, p.filter) == (group.title, group.metric, group.filter)]
        labels = [system.label for system in systems if system.label in group.entries]
        scores: dict[str, Estimate] = {label: group.entries[label].estimate for label in labels}
        made = ranking_table(labels, scores, own)
        found += [made] if made is not None else []
    return found


def _overall_table(
    systems: Sequence[System], groups: Sequence[_MetricGroup], overall: Sequence[OverallScore]
) -> list[RankTable]:
    """Ranks over all tasks, if three or more systems were compared on the same tasks."""
    labels = [system.label for system in systems]
    tasks = {score.tasks for score in overall}
    if len(labels) < 3 or len(tasks) != 1 or len(overall) != len(labels) * (len(labels) - 1) // 2:
        return []
    (names,) = tasks
    own = [group for group in groups if group.is_first and group.title in names]
    scores = {label: _mean(own, label) for label in labels}
    return [RankTable(None, "mean", "none", rank_systems(labels, scores, overall, better=True))]


def _mean(groups: Sequence[_MetricGroup], label: str) -> Estimate:
    """Mean with every task counted once; variants of one task share their documents."""
    from assay.stats.pooled import group_estimate

    estimates = [group.entries[label].estimate for group in groups]
    families = [task_family(group.title) for group in groups]
    return group_estimate(estimates, [estimate.n for estimate in estimates], False, families)
