"""The outcome of a comparison: per task what was compared and what differs, for people and as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from parity.compare import Difference, RecordComparison, Tolerance, with_their_names
from parity.job import Job
from parity.records import RecordFile
from parity.workers import Output

SAME, DIFFERENT = "same", "different"
ONLY_OURS_FAILS, ONLY_REFERENCE_FAILS, BOTH_FAIL = "only Assay fails", "only lm-eval fails", "both fail"
MISSING = "not finished"
# Task → our name of a metric → lm-eval's.
Renamed = Mapping[str, Mapping[str, str]]
NONE_RENAMED: Renamed = {}


@dataclass(slots=True)
class Outcome:
    """Outcome of one task in one case."""

    task: str
    case: str
    status: str
    documents: int = 0
    requests: int = 0
    differing_documents: int = 0
    mended_documents: int = 0
    differences: list[Difference] = field(default_factory=list)
    reference_error: str | None = None
    our_error: str | None = None
    reference_seconds: float = 0.0
    our_seconds: float = 0.0


def outcomes(job: Job, output: Output, tolerance: Tolerance, renamed: Renamed = NONE_RENAMED) -> Iterable[Outcome]:
    """Compares the records of every task and case, one pair at a time.

    Args:
        renamed: task → the metrics with another name in lm-eval.
    """
    reference, ours = RecordFile(output.records("reference")), RecordFile(output.records("assay"))
    for name in job.tasks:
        for case in job.cases:
            key = (name, case.name)
            own = with_their_names(ours.get(key), renamed.get(name, {}))
            yield _outcome(key, reference.get(key), own, tolerance)


def _outcome(
    key: tuple[str, str], reference: dict[str, Any] | None, ours: dict[str, Any] | None, tolerance: Tolerance
) -> Outcome:
    if reference is None or ours is None:
        return Outcome(*key, MISSING)
    found = Outcome(*key, SAME, reference_seconds=reference["seconds"], our_seconds=ours["seconds"])
    found.reference_error, found.our_error = reference.get("error"), ours.get("error")
    if found.reference_error is not None or found.our_error is not None:
        found.status = BOTH_FAIL if None not in (found.reference_error, found.our_error) else ONLY_OURS_FAILS
        found.status = found.status if found.our_error is not None else ONLY_REFERENCE_FAILS
        return found
    comparison = RecordComparison(reference, ours, tolerance)
    found.differences = comparison.differences()
    found.documents, found.requests = comparison.counts.documents, comparison.counts.requests
    found.differing_documents = len({item.document for item in found.differences if item.document is not None})
    found.mended_documents = ours.get("mended", 0)
    found.status = DIFFERENT if found.differences else SAME
    return found


def is_proven(found: Sequence[Outcome]) -> bool:
    """Whether something was compared, and nothing differs where lm-eval itself has a result."""
    seen = {item.status for item in found}
    return SAME in seen and not seen & {DIFFERENT, ONLY_OURS_FAILS, MISSING}


def write_files(found: Sequence[Outcome], output: Output) -> None:
    """Every difference, and a line per task and case."""
    with output.differences.open("w", encoding="utf-8") as file:
        for difference in (difference for item in found for difference in item.differences):
            file.write(json.dumps(asdict(difference)) + "\n")
    rows = [{**asdict(item), "differences": len(item.differences)} for item in found]
    output.summary.write_text(json.dumps(rows, indent=1), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """How much of an outcome is printed."""

    most_differences: int = 40
    most_per_task: int = 3
    every_task: bool = False


def print_outcomes(found: Sequence[Outcome], folder: Path, shown: ReportLimits, console: Console) -> None:
    """Tasks that differ or fail, their differences, and the totals."""
    listed = [item for item in found if shown.every_task or item.status == DIFFERENT]
    if listed:
        console.print(_task_table(listed))
    _print_differences(found, shown, console)
    for status in (ONLY_OURS_FAILS, ONLY_REFERENCE_FAILS, BOTH_FAIL, MISSING):
        _print_failures([item for item in found if item.status == status], status, console)
    console.print(_totals(found))
    mended = sum(item.mended_documents for item in found)
    if mended:
        tasks = len({item.task for item in found if item.mended_documents})
        shown_as = "are shown among their own examples by lm-eval and were compared with --like lm-eval"
        console.print(f"{mended} documents of {tasks} tasks {shown_as}")
    console.print(f"{_verdict(found)}; everything is in {escape(str(folder))}")


def _verdict(found: Sequence[Outcome]) -> str:
    if not any(item.documents for item in found):
        return "[red]nothing was compared[/]"
    if not is_proven(found):
        return "[red]not the same[/]"
    failing = len({item.task for item in found if item.status != SAME})
    return "[green]nothing differs[/]" + (f"; {failing} tasks fail in lm-eval in some case" if failing else "")


def _task_table(listed: Sequence[Outcome]) -> Table:
    table = Table("task", "case", "status", title="Tasks")
    for name in ("documents", "requests", "differing documents", "differences", "lm-eval s", "Assay s"):
        table.add_column(name, justify="right")
    for item in listed:
        counts = (item.documents, item.requests, item.differing_documents, len(item.differences))
        times = (f"{item.reference_seconds:.1f}", f"{item.our_seconds:.1f}")
        table.add_row(item.task, item.case, item.status, *map(str, counts), *times)
    return table


def _print_differences(found: Sequence[Outcome], shown: ReportLimits, console: Console) -> None:
    chosen = [difference for item in found for difference in item.differences[: shown.most_per_task]]
    for item in chosen[: shown.most_differences]:
        place = "" if item.document is None else f", document {item.document}"
        theirs, ours = item.texts
        console.print(f"[bold]{escape(item.task)}[/] ({escape(item.case)}){place}, {escape(item.field)}")
        console.print(f"  lm-eval {escape(theirs)}\n  Assay   {escape(ours)}", highlight=False)
    total = sum(len(item.differences) for item in found)
    left = total - min(len(chosen), shown.most_differences)
    if left:
        console.print(f"… and {left} more differences in differences.jsonl")


def _print_failures(failed: Sequence[Outcome], status: str, console: Console) -> None:
    if not failed:
        return
    by_errors: dict[tuple[str | None, str | None], list[Outcome]] = {}
    for item in failed:
        by_errors.setdefault((_short(item.reference_error), _short(item.our_error)), []).append(item)
    console.print(f"[bold]{status}[/]: {len({item.task for item in failed})} tasks")
    for (theirs, ours), items in by_errors.items():
        names = list(dict.fromkeys(f"{item.task} ({item.case})" for item in items))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        console.print(f"  {escape(', '.join(names[:3]))}{more}", highlight=False)
        for side, error in (("lm-eval", theirs), ("Assay", ours)):
            if error is not None:
                console.print(f"    {side}: {escape(error)}", highlight=False)


def _short(error: str | None) -> str | None:
    return None if error is None else " ".join(error.split())[:300]


def _totals(found: Sequence[Outcome]) -> Table:
    table = Table("", title="Totals")
    for name in ("tasks", "documents", "requests", "lm-eval s", "Assay s"):
        table.add_column(name, justify="right")
    for status in (SAME, DIFFERENT, ONLY_OURS_FAILS, ONLY_REFERENCE_FAILS, BOTH_FAIL, MISSING):
        items = [item for item in found if item.status == status]
        if items:
            table.add_row(status, *_sums(items))
    table.add_section()
    table.add_row("all", *_sums(found))
    return table


def _sums(items: Sequence[Outcome]) -> tuple[str, ...]:
    tasks, cases = len({item.task for item in items}), len(items)
    counts = (sum(item.documents for item in items), sum(item.requests for item in items))
    times = (sum(item.reference_seconds for item in items), sum(item.our_seconds for item in items))
    return (f"{tasks} ({cases} cases)", *map(str, counts), *(f"{seconds:.0f}" for seconds in times))
