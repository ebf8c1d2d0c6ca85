"""The library's tasks against lm-eval's of the same definition: prompts and scores, document by document.

In: the cards of the library, which say which of lm-eval's tasks is the same. Out: a table with a line per task, and
whether nothing differs where the card says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from assay.core.errors import Fault, UserError
from assay.core.protocols import Task
from assay.options.specification import make_spec
from assay.run.resolve import select_for_run
from assay.tasks.catalog import LIBRARY, index_folder, open_catalog
from parity.compare import ABSENT, Difference, Tolerance
from parity.hub import Hub
from parity.installation import LmEval
from parity.job import Case, Job
from parity.table import DIFFERENT, MISSING, ONLY_OURS_FAILS, SAME, Outcome, outcomes
from parity.workers import Output, run_workers

# Fields that may differ while prompts and scores are the same: code of lm-eval's tasks adds columns to the rows, a
# right answer may be written as an index or as a text, and each project counts the versions of its own files.
_IMMATERIAL = ("document", "target", "version")
# Values that describe a task and are no scores.
_NAMES = ("results: alias", "results: sample_len", "results: sample_count")
_LONGEST_REMARK = 90
# Folders and addresses of one machine, which a record does not need.
_PLACES = re.compile(r"(?:/[\w.@-]+)+/|http://127\.[\d.:]+")


@dataclass(frozen=True, slots=True)
class Pair:
    """A task of the library and the one of lm-eval that its card names.

    Attributes:
        ours: name in the library.
        theirs: name in lm-eval.
        differs: what the card says is different; empty for the same task.
        source: the file that defines ours.
        metrics: metrics with another name in lm-eval: ours → theirs.
        apart: metrics of the same name that differ as the card says.
    """

    ours: str
    theirs: str
    differs: str = ""
    source: str = ""
    metrics: Mapping[str, str] = field(default_factory=dict)
    apart: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found for a pair: the documents compared, and what differs in prompts and in scores."""

    pair: Pair
    documents: int
    prompts: str
    scores: str
    remark: str = ""
    is_fault: bool = False


def library_pairs(wanted: Sequence[str], lm_eval: LmEval, first_only: bool = False) -> list[Pair]:
    """The library's tasks that lm-eval has, too.

    Args:
        wanted: names, groups or patterns; empty for the whole library.
        lm_eval: lm-eval, whose names decide which of its tasks a configuration means.
        first_only: take one task of every file.
    """
    known = {entry.name for entry in index_folder(Path(lm_eval.tasks_folder), None)[0] if entry.kind == "task"}
    pairs = [pair for task in library_tasks(wanted) if (pair := _pair(task, known)) is not None]
    if first_only:
        pairs = list({pair.source: pair for pair in reversed(pairs)}.values())[::-1]
    if not pairs:
        raise UserError(Fault("--tasks", "no card of these tasks names a task of lm-eval", "tasks of the library"))
    return pairs


def library_tasks(wanted: Sequence[str]) -> list[Task]:
    """Tasks of the library; no data is read."""
    entries = open_catalog(()).entries.values()
    own = [entry.name for entry in entries if entry.kind == "task" and entry.path and LIBRARY in entry.path.parents]
    names = list(wanted) or sorted(own)
    return list(select_for_run(make_spec("none", names), names).tasks)


def _pair(task: Task, known: set[str]) -> Pair | None:
    stated = task.card.facts.get("lm_eval")
    if not isinstance(stated, Mapping) or not stated.get("task"):
        return None
    ours, theirs = task.card.name, str(stated["task"])
    if theirs not in known:  # a group: its tasks are named by configuration
        config, (first, _, rest) = str(task.card.config.get("dataset_name") or ""), theirs.partition("_")
        named = (ours, f"{theirs}_{config}", f"{first}_{config}_{rest}")
        theirs = next((name for name in named if name in known), theirs)
    differs = "" if stated.get("same") else str(stated.get("differs") or "not said")
    return Pair(
        ours, theirs, differs, task.card.source, stated.get("metrics") or {}, tuple(stated.get("apart_from") or ())
    )


def compare_library(pairs: Sequence[Pair], jobs: Sequence[Job], outputs: Sequence[Output]) -> list[Comparison]:
    """What the records of both sides say about every pair."""
    renamed = {pair.theirs: pair.metrics for pair in pairs if pair.metrics}
    requests, scores = (
        _by_task(outcomes(job, output, Tolerance(), renamed)) for job, output in zip(jobs, outputs, strict=True)
    )
    return [_comparison(pair, requests.get(pair.theirs, []), scores.get(pair.theirs, [])) for pair in pairs]


def run_library(jobs: Sequence[Job], outputs: Sequence[Output], lm_eval: LmEval, hub: Hub | None) -> None:
    """Lets both sides write their records."""
    for job, output in zip(jobs, outputs, strict=True):
        output.folder.mkdir(parents=True, exist_ok=True)
        output.records("assay").unlink(missing_ok=True)
        run_workers(job, lm_eval, output, hub)


def _by_task(found: Iterator[Outcome] | Sequence[Outcome] | object) -> dict[str, list[Outcome]]:
    grouped: dict[str, list[Outcome]] = {}
    for item in found if isinstance(found, (Iterator, Sequence)) else ():
        grouped.setdefault(item.task, []).append(item)
    return grouped


def _comparison(pair: Pair, requests: Sequence[Outcome], scores: Sequence[Outcome]) -> Comparison:
    if pair.differs:
        return Comparison(pair, 0, "", "", f"differs: {pair.differs}")
    prompts, values = ([_relevant(item, pair.apart) for item in items] for items in (requests, scores))
    failures = [item for item in (*requests, *scores) if item.status not in (DIFFERENT, SAME)]
    differing = [difference for found in (*prompts, *values) for difference in found]
    remark = _failure(failures[0]) if failures else (_shown(differing[0]) if differing else "")
    ours_fails = any(item.status in (ONLY_OURS_FAILS, MISSING) for item in failures)
    return Comparison(
        pair=pair,
        documents=max((item.documents for item in requests), default=0),
        prompts=_status(requests, prompts),
        scores=_status(scores, values),
        remark=remark,
        is_fault=bool(differing) or ours_fails,
    )


def _relevant(item: Outcome, apart: Sequence[str]) -> list[Difference]:
    return [
        difference
        for difference in item.differences
        if not _is_immaterial(difference, apart) and not _is_of(difference.field.partition(": ")[2], apart)
    ]


def _is_of(name: str, metrics: Sequence[str]) -> bool:
    """Whether a score such as `acc,none` or `acc_Age,none` is of one of some metrics, or of a part of one."""
    found = name.partition(",")[0]
    return any(found == metric or found.startswith(f"{metric}_") for metric in metrics)


def _is_immaterial(difference: Difference, apart: Sequence[str]) -> bool:
    field = difference.field
    if field in _IMMATERIAL or field in _NAMES or field.endswith(": target"):
        return True
    if difference.document is not None and isinstance(difference.reference, list) and _is_value(field):
        return True  # lm-eval's code keeps parts of a document's value, of which its aggregation makes the score
    # Metrics and pipelines that the library adds change none of lm-eval's.
    is_added = difference.reference == ABSENT or (difference.reference is None and field.endswith(": sample"))
    return is_added or (field == "higher_is_better" and _holds(difference, apart))


def _is_value(field: str) -> bool:
    """Whether a field of a document is the value of a metric, not its answers."""
    return not field.endswith((": responses", ": filtered")) and not field.startswith(("request", "number of"))


def _holds(difference: Difference, apart: Sequence[str]) -> bool:
    """Whether our mapping holds every entry of lm-eval's, those of some metrics left out."""
    theirs, ours = difference.reference, difference.ours
    both = isinstance(theirs, Mapping) and isinstance(ours, Mapping)
    return both and all(ours.get(name) == value for name, value in theirs.items() if not _is_of(name, apart))


def _status(items: Sequence[Outcome], differences: Sequence[Sequence[Difference]]) -> str:
    """Whether the cases that both sides could build are equal; the remark says which could not be built."""
    if not any(item.status in (DIFFERENT, SAME) for item in items):
        return "–"
    places = {(item.case, item.document) for found in differences for item in found}
    return f"{len(places)} differ" if places else "equal"


def _failure(item: Outcome) -> str:
    error = item.our_error if item.status == ONLY_OURS_FAILS else item.reference_error or item.our_error
    text = _PLACES.sub("", " ".join((error or "").split()))
    return f"{item.case}: {item.status}: {_cut(text, _LONGEST_REMARK * 2)}"


def _shown(difference: Difference) -> str:
    theirs, ours = difference.texts
    where = "" if difference.document is None else f"document {difference.document}, "
    return f"{where}{difference.field}: lm-eval {theirs}, Assay {ours}"


def print_library(found: Sequence[Comparison], console: Console, every_task: bool) -> None:
    """A line per task, and the totals."""
    table = Table("task", "lm-eval", "documents", "prompts", "scores", "remark")
    for item in found:
        if every_task or item.is_fault or item.remark:
            cells = (item.pair.ours, item.pair.theirs, str(item.documents or ""), item.prompts, item.scores)
            table.add_row(*map(escape, cells), escape(_cut(item.remark, _LONGEST_REMARK * 3)))
    console.print(table)
    equal = sum(item.prompts == item.scores == "equal" for item in found)
    stated = sum(bool(item.pair.differs) for item in found)
    faults = [item for item in found if item.is_fault]
    others = len(found) - equal - stated - len(faults)
    console.print(
        f"{len(found)} tasks of the library are in lm-eval: {equal} equal, {stated} differ as stated, "
        f"{len(faults)} differ although the card says same, {others} could not be compared"
    )


def record_library(found: Sequence[Comparison], path: Path) -> None:
    """Writes the table as JSON, task by task; what differs as stated is in the cards."""
    compared = {
        item.pair.ours: {
            "lm_eval": item.pair.theirs,
            "documents": item.documents,
            "prompts": item.prompts,
            "scores": item.scores,
            "remark": item.remark,
        }
        for item in found
        if not item.pair.differs
    }
    path.write_text(json.dumps(compared, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + "…"


def is_equal(found: Sequence[Comparison]) -> bool:
    """Whether something was compared, and nothing differs where the card says same."""
    return any(item.prompts == "equal" for item in found) and not any(item.is_fault for item in found)


def outputs_of(folder: Path) -> tuple[Output, Output]:
    """The folders of the two comparisons: requests, then scores."""
    return Output(folder / "requests"), Output(folder / "scores")


def both_jobs(
    pairs: Sequence[Pair], cases: tuple[Case, ...], documents: int, lm_eval: LmEval, data: Path
) -> tuple[Job, Job]:
    """The comparison of requests in all cases, and that of scores with the tasks' own examples.

    Of several tasks that lm-eval has as one, the first is compared.
    """
    names = {pair.theirs: pair.ours for pair in reversed(pairs) if not pair.differs}
    requests = Job(
        mode="requests",
        tasks=tuple(names),
        cases=cases,
        documents=documents,
        tasks_folder=lm_eval.tasks_folder,
        bootstrap_iters=0,
        ours=names,
        data=str(data),
    )
    return requests, replace(requests, mode="scores", cases=(Case(),))
