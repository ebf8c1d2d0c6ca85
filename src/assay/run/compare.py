"""Compares recorded runs document by document: finds what they share, refuses what is not comparable, tests, judges.

Takes runs of a store, gives a `RunComparison`. A run is reopened only where its record does not hold what is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from assay.core.comparisons import (
    ALL,
    BYPASS,
    CUSTOM,
    STYLE,
    Agreement,
    CompareWish,
    DocumentValues,
    OverallScore,
    PairedScore,
    RunComparison,
    System,
    Table,
    Uncompared,
)
from assay.core.errors import DataError, Fault, UnknownName, did_you_mean
from assay.core.protocols import Task
from assay.core.scores import Estimate
from assay.core.variance_axes import task_family
from assay.run.comparability import Overlap, RecordedTask, differences, differing_clusters
from assay.run.events import Listener
from assay.run.manifest import right_answer
from assay.run.questions import picks_agreement, with_questions
from assay.run.remarks import bounds_of, remarks_on
from assay.run.reopen import as_argument, python_call
from assay.run.sides import Side, asked, load_sides, paired_documents
from assay.run.systems import AT, check_wish, find_systems, points_as_sizes, wanted_pairs
from assay.scoring.comparing import Compared, are_alike, at_tested_levels, compare_all, is_comparable
from assay.scoring.keeping import kept_values
from assay.scoring.matching import Entry, Matched, matched
from assay.scoring.overall import overall_scores
from assay.scoring.redrawing import replicates_for
from assay.scoring.verdicts import conclusion, judged, ranked, table
from assay.stats.bootstrap import smallest_p
from assay.stats.pooled import group_estimate
from assay.store.runs import FINISHED, RunRecord
from assay.store.store import Store

_MOST_FAULTS = 8


@dataclass(slots=True)
class _Desk:
    """What the steps share: the store, the wish, task objects, reopened runs, and what is to be told."""

    store: Store
    wish: CompareWish
    listener: Listener
    given: Sequence[Task] = ()
    notices: list[str] = field(default_factory=list)
    uncompared: list[Uncompared] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    opened: dict[str, dict[str, Side]] = field(default_factory=dict)

    def side(self, task: RecordedTask) -> Side:
        """The task, reopened; its `reason` says why where that fails."""
        if task.record.id not in self.opened:
            names = list(task.record.tasks)
            self.opened[task.record.id] = load_sides(self.store, task.record, names, self.listener, self.given)
        return self.opened[task.record.id][task.name]

    def notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)

    def leave_out(self, task: str, metric: str | None, reason: str, text: str = "") -> None:
        """Keeps what cannot be compared, and tells it: as the text says, where the reason alone does not say enough."""
        self.notice(text or f"{task}: {reason}")
        found = Uncompared(task, metric, reason)
        self.uncompared += [found] if found not in self.uncompared else []

    def refuse(self, fault: Fault) -> None:
        if fault not in self.faults:  # most are the same for all metrics of a task
            self.faults.append(fault)


@dataclass(frozen=True, slots=True)
class _Column:
    """A task of several systems: what to call it, and each system's own."""

    title: str
    tasks: Mapping[str, RecordedTask]


@dataclass(frozen=True, slots=True)
class _Group:
    """One metric of a column: every system's documents, and the pairs."""

    title: str
    metric: str
    filter: str
    entries: Mapping[str, Entry]
    pairs: Sequence[tuple[str, str]]
    is_first: bool


def compare(
    store: Store, runs: Sequence[str], wish: CompareWish, listener: Listener, given: Sequence[Task] = ()
) -> RunComparison:
    """Two or more runs.

    Args:
        store: holds them.
        runs: names, each with `@task` behind it where one task is meant.
        wish: what to compare, and how.
        listener: is told what happens.
        given: task objects, for runs of such.
    """
    check_wish(wish)
    desk = _Desk(store, wish, listener, given)
    systems, records = find_systems(store, runs, wish.baseline)
    for record in {record.id: record for record in records.values()}.values():
        if record.status != FINISHED:
            desk.notice(f"run {record.id} is {record.status}: documents that it did not score are left out")
    pairs = wanted_pairs(systems, wish.baseline is not None)
    groups = [group for column in _columns(desk, systems, records) for group in _groups(desk, column, pairs)]
    found = [_compared(desk, columns) for columns in groups]
    if desk.faults:
        raise DataError(*_few(desk.faults))
    if not any(found):
        raise DataError(Fault("compare", "nothing could be compared", next="; ".join(desk.notices)))
    return _concluded(desk, systems, [group for _, group in groups], found)


# Which systems, which tasks, which metrics


def _columns(desk: _Desk, systems: Sequence[System], records: Mapping[str, RunRecord]) -> list[_Column]:
    """The tasks that two systems or more have."""
    own = {system.label: _tasks(system, records[system.label]) for system in systems}
    if all(len(names) == 1 for names in own.values()):
        titles = list(dict.fromkeys(names[0] for names in own.values()))
        _check_patterns(desk.wish.tasks, titles)
        tasks = {label: RecordedTask(records[label], names[0]) for label, names in own.items()}
        return [_Column(" / ".join(titles), tasks)]
    keyed = {label: _keyed(names, STYLE in desk.wish.across) for label, names in own.items()}
    titles = list(dict.fromkeys(key for names in keyed.values() for key in names))
    _check_patterns(desk.wish.tasks, titles)
    found = []
    for title in titles:
        having = {label: RecordedTask(records[label], names[title]) for label, names in keyed.items() if title in names}
        if not _is_wanted(desk.wish, [title]):
            continue
        if len(having) < len(own):
            lacking = ", ".join(label for label in own if label not in having)
            desk.leave_out(title, None, f"{lacking} did not run it")
        if len(having) > 1:
            found.append(_Column(title, having))
    return found or _no_task(desk, titles)


def _tasks(system: System, record: RunRecord) -> list[str]:
    return [system.task] if system.task is not None else list(record.tasks)


def _keyed(names: Sequence[str], is_across_styles: bool) -> dict[str, str]:
    """Title → task. Across styles, a task in whatever style has the name of the task."""
    bare = [name.partition(AT)[0] for name in names]
    return {
        base if is_across_styles and bare.count(base) == 1 else name: name
        for base, name in zip(bare, names, strict=True)
    }


def _is_wanted(wish: CompareWish, names: Sequence[str]) -> bool:
    return not wish.tasks or any(fnmatchcase(name, pattern) for name in names for pattern in wish.tasks)


def _check_patterns(patterns: Sequence[str], titles: Sequence[str]) -> None:
    """A name that is misspelt must not leave its task out unseen."""
    faults = [
        Fault("--tasks", f'no run has a task "{pattern}"{did_you_mean(pattern, titles)}', ", ".join(titles))
        for pattern in patterns
        if not any(fnmatchcase(title, pattern) for title in titles)
    ]
    if faults:
        raise UnknownName(*faults)


def _no_task(desk: _Desk, titles: Sequence[str]) -> list[_Column]:
    if desk.wish.tasks:
        wanted = desk.wish.tasks[0]
        found = f'no two runs have a task "{wanted}"{did_you_mean(wanted, titles)}'
        raise UnknownName(Fault("--tasks", found, ", ".join(titles)))
    advice = "Name one of each: assay compare RUN@TASK RUN@TASK"
    raise UnknownName(Fault("compare", f"the runs have no task in common: {', '.join(titles)}", "", advice))


def _groups(desk: _Desk, column: _Column, pairs: Sequence[tuple[str, str]]) -> list[tuple[_Column, _Group]]:
    """The column's metrics, with the documents of every system that reports them."""
    own = [pair for pair in pairs if pair[0] in column.tasks and pair[1] in column.tasks]
    reported = {label: _reported(desk, task) for label, task in column.tasks.items()}
    if sum(map(bool, reported.values())) < 2 and any("problem" in task.summary for task in column.tasks.values()):
        return []  # left out already, with the reason
    kept = {label: desk.store.values.of_run(item.record.id, item.name) for label, item in column.tasks.items()}
    found = []
    for place, (metric, filter) in enumerate(_metrics(desk, column.title, list(reported.values()))):
        entries = {}
        lacking = [label for label, names in reported.items() if (metric, filter) not in names]
        if lacking:
            desk.leave_out(
                column.title, metric, f"{_names([(metric, filter)])} is not reported by {', '.join(lacking)}"
            )
        for label, task in column.tasks.items():
            values = None if label in lacking else _values(desk, column, task, kept[label], (metric, filter))
            if values is not None:
                entries[label] = Entry(label, replace(values, task=column.title))
        usable = [(one, two) for one, two in own if one in entries and two in entries]
        if usable:
            found.append((column, _Group(column.title, metric, filter, entries, usable, place == 0)))
    return found


def _metrics(desk: _Desk, title: str, reported: Sequence[Sequence[tuple[str, str]]]) -> list[tuple[str, str]]:
    """The metrics to compare, each with its pipeline: those wanted, or the first that two systems report."""
    every = list(dict.fromkeys(pair for own in reported for pair in own))
    shared = [pair for pair in every if sum(pair in own for own in reported) > 1]
    if not shared:
        desk.leave_out(title, None, f"no metric and filter in common: {_names(every)}")
        return []
    if not desk.wish.metrics:
        if every[0] != shared[0]:
            desk.notice(f"{title}: only one run reports {_names(every[:1])}; {_names(shared[:1])} is compared")
        return shared[:1]
    found: list[tuple[str, str]] = []
    for name in desk.wish.metrics:
        wanted, _, filter = name.partition(",")
        fitting = [pair for pair in shared if pair[0] == wanted and filter in ("", pair[1])]
        if name == ALL:
            found += shared
            for pair in every:
                if pair not in shared:
                    desk.leave_out(title, pair[0], f"only one run reports {_names([pair])}")
        elif fitting:
            found.append(fitting[0])
            if len(fitting) > 1:
                desk.notice(f"{title}: {_names(fitting[:1])} is compared; there is {_names(fitting[1:])}, too")
        else:
            desk.leave_out(title, wanted, f'no two runs report the metric "{name}"; they have {_names(every)}')
    return list(dict.fromkeys(found))


def _names(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(metric if filter == "none" else f"{metric},{filter}" for metric, filter in pairs) or "none"


def _reported(desk: _Desk, task: RecordedTask) -> list[tuple[str, str]]:
    listed = task.summary.get("metrics")
    if listed or (listed is not None and "problem" not in task.summary):
        return [(item["metric"], item["filter"]) for item in listed]
    side = desk.side(task)
    if side.result is None and listed is not None:
        told = task.summary["problem"]["text"]
        desk.leave_out(task.name, None, f"run {task.record.id} could not score it: {told}")
    return [] if side.result is None else [(item.metric, item.filter) for item in side.result.metrics]


def _values(
    desk: _Desk, column: _Column, task: RecordedTask, kept: Sequence[DocumentValues], name: tuple[str, str]
) -> DocumentValues | None:
    """A reported metric's documents: as kept, or from the reopened run for records and metrics that keep none."""
    metric, _ = name
    own = [item for item in kept if (item.metric, item.filter) == name]
    if not own:
        side = desk.side(task)
        if side.result is None or side.scoring is None:
            reason = f"its documents' values were not kept, and it cannot be reopened: {side.told}"
            desk.leave_out(column.title, metric, reason, f"run {task.record.id}, {task.name}, {metric}: {reason}")
            return None
        again = kept_values(side.scoring, side.result, with_texts=True)
        own = [item for item in again if (item.metric, item.filter) == name]
    if not own or not is_comparable(own[0].aggregation):
        reason = f"cannot be compared: {_reason(own[0].aggregation if own else CUSTOM)}"
        desk.leave_out(column.title, metric, reason, f"{task.name}, {metric}: {reason}")
        return None
    return own[0]


def _reason(aggregation: str) -> str:
    if aggregation == BYPASS:
        return "answers were recorded without being scored"
    return "a function of the task's own makes it of all documents, and no paired test is known for that"


# One metric of one task


@dataclass(frozen=True, slots=True)
class _Pairing:
    """Two systems' documents, what differs between their runs, and what is to be remarked."""

    match: Matched
    differing: tuple[str, ...]
    remarks: tuple[str, ...]
    undefined: tuple[int, int]


def _compared(desk: _Desk, group: tuple[_Column, _Group]) -> list[Compared]:
    """The group's pairs. What is not comparable is a fault, unless it was allowed."""
    column, own = group
    found = [_paired(desk, column, own, first, second) for first, second in own.pairs]
    pairings = [pairing for pairing in found if pairing is not None]
    if desk.faults:
        return []
    done = []
    compared = compare_all([pairing.match for pairing in pairings], _direction(desk, column, own), desk.wish)
    for item, pairing in zip(compared, pairings, strict=True):
        for fault in points_as_sizes(desk.wish, item.score, pairing.match):
            desk.refuse(fault)
        tasks = column.tasks[item.score.first], column.tasks[item.score.second]
        score = _with_counts(desk, column, replace(item.score, differing=pairing.differing), pairing)
        score = replace(score, remarks=(*pairing.remarks, *remarks_on(score, pairing.match, tasks)))
        if desk.wish.picks:
            score = _with_picks(desk, column, score, pairing.match)
        if desk.wish.flips:
            score = _with_flips(desk, column, score)
        done.append(replace(item, score=score, is_style=not all(task.has_prompt for task in tasks)))
    return done


def _with_counts(desk: _Desk, column: _Column, score: PairedScore, pairing: _Pairing) -> PairedScore:
    first, second = (_missing(desk, column.tasks[label]) for label in (score.first, score.second))
    counted = replace(
        score, failed=(first[0], second[0]), unanswered=(first[1], second[1]), undefined=pairing.undefined
    )
    tasks = column.tasks[score.first], column.tasks[score.second]
    return replace(counted, bounds=bounds_of(counted, pairing.match, tasks))


def _missing(desk: _Desk, task: RecordedTask) -> tuple[int, int]:
    """How many documents failed, as recorded; of a run that did not get to its end, how many have no answer."""
    counts = task.summary.get("denominators")
    if counts is not None:
        return int(counts["failed"]), 0
    side = desk.opened.get(task.record.id, {}).get(task.name)
    return 0, 0 if side is None or side.result is None else side.result.denominators.failed


def _with_flips(desk: _Desk, column: _Column, score: PairedScore) -> PairedScore:
    """The pair with the questions of its listed documents, or a remark that says why none are listed."""
    if score.flips:
        return with_questions(score, desk.side(column.tasks[score.first]))
    if not score.n or score.wins == score.losses == 0:
        return score
    told = f"no documents are listed: {score.metric} is made of all together, none has a value of its own"
    return replace(score, remarks=(*score.remarks, told))


def _with_picks(desk: _Desk, column: _Column, score: PairedScore, match: Matched) -> PairedScore:
    """The pair with the agreement of its picks, or a remark that says why there is none."""
    sides = desk.side(column.tasks[score.first]), desk.side(column.tasks[score.second])
    documents = [
        (match.first.kept.documents[mine], match.second.kept.documents[theirs])
        for mine, theirs in zip(match.mine, match.theirs, strict=True)
    ]
    found = picks_agreement(sides, documents, match.clusters, score, desk.wish.seed)
    if isinstance(found, Agreement):
        return replace(score, picks=found)
    return replace(score, remarks=(*score.remarks, f"picks cannot be compared: {found}"))


def _paired(desk: _Desk, column: _Column, group: _Group, first: str, second: str) -> _Pairing | None:
    """Two systems' documents in common; None, and a fault, where they are not comparable."""
    one, other = column.tasks[first], column.tasks[second]
    common: dict[int, int] | None = None
    overlap: Overlap | None = None
    remarks: tuple[str, ...] = ()
    if one.entry["documents_fingerprint"] != other.entry["documents_fingerprint"]:
        common, overlap, remarks = _common(desk, one, other)
        if common is None and not desk.wish.force:
            return None
    own, theirs = group.entries[first], group.entries[second]
    where = f"{first} and {second}, {column.title}"
    if not are_alike(own.kept.aggregation, theirs.kept.aggregation):  # no test knows both, whatever is forced
        told = f"one run makes {group.metric} by {own.kept.aggregation}, the other by {theirs.kept.aggregation}"
        desk.refuse(Fault(where, told, "the same aggregation"))
        return None
    match = matched(own, theirs, common)
    found = differences(one, other, group.metric, group.filter, overlap) + differing_clusters(one, other, match)
    refused = [item for item in found if item.axis not in desk.wish.across]
    if refused and not desk.wish.force:
        texts = "; ".join(f"{item.text} ({item.axis})" for item in refused)
        axes = ",".join(dict.fromkeys((*desk.wish.across, *(item.axis for item in refused))))
        advice = f"If that is the point, add --across {axes}; --force compares whatever differs"
        desk.refuse(Fault(where, f"not comparable: {texts}", "runs that differ in " + _axes(desk.wish), advice))
        return None
    return _Pairing(match, tuple(item.text for item in found), remarks, _undefined(own, theirs, common))


def _undefined(first: Entry, second: Entry, common: Mapping[int, int] | None) -> tuple[int, int]:
    """Documents in common that have a value in one of the two only: how many lack it in the first, in the second."""
    if first.is_known and second.is_known:
        return 0, 0
    links = {document: document for document in first.kept.documents} if common is None else common
    theirs = {document: place for document, other in links.items() if (place := second.places.get(other)) is not None}
    known = [
        (bool(first.has_value[place]), bool(second.has_value[theirs[document]]))
        for place, document in enumerate(first.kept.documents)
        if document in theirs
    ]
    return known.count((False, True)), known.count((True, False))


def _axes(wish: CompareWish) -> str:
    return " and ".join(wish.across) + " only" if wish.across else "nothing"


def _common(
    desk: _Desk, one: RecordedTask, other: RecordedTask
) -> tuple[dict[int, int] | None, Overlap | None, tuple[str, ...]]:
    """The documents in common by their content, and whether they ask and expect the same."""
    sides = desk.side(one), desk.side(other)
    counts = f"{one.entry['documents']:,} and {other.entry['documents']:,} asked"
    where = f"runs {one.record.id} and {other.record.id}, {one.name}"
    first, second = sides[0].posed, sides[1].posed
    if first is None or second is None:
        reasons = "; ".join(dict.fromkeys(side.reason for side in sides if side.reason))
        found = f"their documents are not the same ({counts}), and which are cannot be found: {reasons}"
        advice = f"{_back(desk, sides)}; or --force pairs documents by their place in the split"
        if not desk.wish.force:
            desk.refuse(Fault(where, found, "the same documents", advice))
        return None, None, ("the documents are not the same; they were paired by their place in the split",)
    places = paired_documents(*sides)
    if not places:
        advice = "Runs on other data say nothing about each other document by document"
        desk.refuse(Fault(where, f"they have no document in common ({counts})", "the same documents", advice))
        return None, None, ()
    common = {first.documents[mine].id: second.documents[theirs].id for mine, theirs in places}
    posed = [(first.instances[mine], second.instances[theirs]) for mine, theirs in places]
    same = Overlap(
        all(asked(mine) == asked(theirs) for mine, theirs in posed),
        all(right_answer(mine) == right_answer(theirs) for mine, theirs in posed),
    )
    return common, same, (f"other documents were asked ({counts}): the {len(places):,} in common are compared",)


def _back(desk: _Desk, sides: tuple[Side, Side]) -> str:
    """What brings back the documents of two runs."""
    if not any(side.needs_object for side in sides):
        return "Put the data back"
    lacking = [side for own in sides for side in desk.opened[own.record.id].values() if side.needs_object]
    names = [*(item.card.name for item in desk.given), *(task_family(side.name) for side in lacking)]
    runs = [side.record for side in sides]
    return f"From Python: {python_call('compare', desk.store, runs, as_argument(names))}"


def _direction(desk: _Desk, column: _Column, group: _Group) -> bool | None:
    """Whether higher is better. None where systems that are compared all the same do not agree on it."""
    tasks = [column.tasks[label] for label in group.entries]
    found = set().union(*(task.directions(group.metric, group.filter) for task in tasks))
    if found:
        return found.pop() if len(found) == 1 else None
    result = desk.side(tasks[0]).result
    return None if result is None else result.metric(group.metric, group.filter).higher_is_better


def _few(faults: Sequence[Fault]) -> list[Fault]:
    more = len(faults) - _MOST_FAULTS
    return [
        *faults[:_MOST_FAULTS],
        *([Fault("compare", f"{more:,} pairs more are not comparable")] if more > 0 else []),
    ]


# All together


def _concluded(
    desk: _Desk, systems: Sequence[System], groups: Sequence[_Group], found: Sequence[Sequence[Compared]]
) -> RunComparison:
    pairs = judged(at_tested_levels([item for own in found for item in own], desk.wish), desk.wish)
    tests = sum(pair.p is not None for pair in pairs)
    names = {(own.title, own.metric, own.filter): own for own in groups}
    stuck = sum(_is_stuck(pair, names[pair.task, pair.metric, pair.filter], desk.wish.alpha) for pair in pairs)
    if stuck:
        told = f"in {stuck:,} comparisons no redrawn set is on the other side of 0, and even that is not enough"
        desk.notice(f"{told} after correction over {tests:,} tests: compare fewer runs or metrics, or to a --baseline")
    firsts = [own for group, own in zip(groups, found, strict=True) if group.is_first]
    overall = overall_scores(desk.wish, firsts)
    tables = [*_tables(systems, groups, pairs), *_overall_table(systems, groups, overall)]
    return RunComparison(
        wish=desk.wish,
        systems=tuple(systems),
        pairs=tuple(pairs),
        overall=tuple(overall),
        tables=tuple(tables),
        tests=tests,
        notices=tuple(desk.notices),
        verdict=conclusion(pairs, overall),
        uncompared=tuple(desk.uncompared),
    )


def _is_stuck(pair: PairedScore, group: _Group, alpha: float) -> bool:
    """Whether a difference is as sure as redrawn sets can make it, and still not found."""
    if pair.p is None or pair.adjusted is None or not pair.p < alpha <= pair.adjusted:
        return False
    replicates = replicates_for(group.entries[pair.first].kept.aggregation)
    return pair.test.endswith("bootstrap") and pair.p <= smallest_p(replicates, pair.clusters or pair.n)


def _tables(systems: Sequence[System], groups: Sequence[_Group], pairs: Sequence[PairedScore]) -> list[Table]:
    found = []
    for group in groups:
        own = [p for p in pairs if (p.task, p.metric, p.filter) == (group.title, group.metric, group.filter)]
        labels = [system.label for system in systems if system.label in group.entries]
        scores: dict[str, Estimate] = {label: group.entries[label].estimate for label in labels}
        made = table(labels, scores, own)
        found += [made] if made is not None else []
    return found


def _overall_table(systems: Sequence[System], groups: Sequence[_Group], overall: Sequence[OverallScore]) -> list[Table]:
    """Ranks over all tasks, where three systems or more were compared on the same ones."""
    labels = [system.label for system in systems]
    tasks = {score.tasks for score in overall}
    if len(labels) < 3 or len(tasks) != 1 or len(overall) != len(labels) * (len(labels) - 1) // 2:
        return []
    (names,) = tasks
    own = [group for group in groups if group.is_first and group.title in names]
    scores = {label: _mean(own, label) for label in labels}
    return [Table(None, "mean", "none", ranked(labels, scores, overall, better=True))]


def _mean(groups: Sequence[_Group], label: str) -> Estimate:
    """Every task counted once; ways of asking one have the same documents."""
    estimates = [group.entries[label].estimate for group in groups]
    families = [task_family(group.title) for group in groups]
    return group_estimate(estimates, [estimate.n for estimate in estimates], False, families)
