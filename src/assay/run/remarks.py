"""What the reader of a compared pair ought to know besides its numbers.

Takes a pair with its documents and records, gives sentences.
"""

from __future__ import annotations

from assay.core.comparisons import PairedScore
from assay.run.comparability import RecordedTask
from assay.scoring.matching import Matched
from assay.stats.clustered import FEW


def remarks_on(score: PairedScore, match: Matched, tasks: tuple[RecordedTask, RecordedTask]) -> tuple[str, ...]:
    """Documents that have no say, runs that stopped early, clusters that are few."""
    found = []
    if any(score.left_out):
        mine, theirs = score.left_out
        found.append(f"left out, without a value in both: {mine:,} of {score.first}, {theirs:,} of {score.second}")
    found += _lacking(score)
    for entry in (match.first, match.second):
        if entry.infinite:
            found.append(f"{entry.infinite:,} of those of {entry.label} are infinite: with them, so is its score")
    found += [
        text for label, task in zip((score.first, score.second), tasks, strict=True) for text in _stop(label, task)
    ]
    if score.clusters == 1:
        found.append("all documents are of one cluster, so that there is no interval")
    elif score.clusters is not None and score.clusters < FEW:
        found.append(f"{score.clusters} clusters are few: the interval may be too narrow")
    return tuple(found)


def _lacking(score: PairedScore) -> list[str]:
    """Documents without a value of which a gate has too many."""
    if not score.lacks_answers:
        return []
    kinds = (
        (score.failed, "failed", "failed"),
        (score.unanswered, "has no answer", "have no answer"),
        (score.undefined, "has no finite value", "have no finite value"),
    )
    told = [
        f"1 document of {label} {one}" if count == 1 else f"{count:,} documents of {label} {many}"
        for counts, one, many in kinds
        for label, count in zip((score.first, score.second), counts, strict=True)
        if count
    ]
    return [f"{', '.join(told)}: a gate (--fail_if_worse) fails with so many"]


def _stop(label: str, task: RecordedTask) -> list[str]:
    """A run that stopped when its scores said enough: a test of a fixed number of documents does not know of that."""
    stop = (task.summary.get("spared") or {}).get("stop")
    if not stop or not stop["is_reached"]:
        return []
    told = f"{label} stopped once its scores told enough (--{stop['rule']}), which makes p and the interval too sure"
    return [f"{told}: what holds after stopping is in its own report"]
