"""Caveats of a compared pair: documents left out or failed, early stopping, too few clusters.

In: a pair with its documents and records. Out: sentences.
"""

from __future__ import annotations

from assay.core.plural import plural, verb
from assay.stats.clustered import FEW_CLUSTERS
from assay.studies.compare.comparability import RecordedTask
from assay.studies.paired.matching import MatchedPair
from assay.studies.paired.paired_values import PairedScore
from assay.studies.paired.verdicts import signed_text


def pair_remarks(score: PairedScore, match: MatchedPair, tasks: tuple[RecordedTask, RecordedTask]) -> tuple[str, ...]:
    """Documents without a value, runs that stopped early, too few clusters."""
    found = []
    if any(score.left_out):
        mine, theirs = score.left_out
        found.append(
            f"left out because only one run has a value: {mine:,} of {score.first}, {theirs:,} of {score.second}"
        )
    found += _failed(score) + _missing_values(score)
    for entry in (match.first, match.second):
        if entry.infinite:
            counted = plural(entry.infinite, "value is", "values are")
            found.append(f"{counted} infinite in {entry.label} and left out: its score would be infinite, too")
    found += [
        text
        for label, task in zip((score.first, score.second), tasks, strict=True)
        for text in _early_stopping(label, task)
    ]
    if score.clusters == 1:
        found.append("all documents are in one cluster: there is no interval")
    elif score.clusters is not None and score.clusters < FEW_CLUSTERS:
        found.append(f"{score.clusters} clusters are too few for a reliable interval, which may be too narrow")
    return tuple(found)


def bounds_of(
    score: PairedScore, match: MatchedPair, tasks: tuple[RecordedTask, RecordedTask]
) -> tuple[float, float] | None:
    """The difference with all failed documents counted: None where none failed, or the metric is not a known share.

    Both runs must have evaluated the same documents, each of which has a value or failed.
    """
    asked = {task.entry["documents_fingerprint"] for task in tasks}
    if not any(score.failed) or any(score.unanswered) or len(asked) > 1:
        return None
    from assay.scoring.failure_bounds import difference_bounds, is_share_metric  # few runs have failed documents

    if not is_share_metric(score.metric):
        return None
    if not (match.first.is_share and match.second.is_share and match.first.is_known and match.second.is_known):
        return None
    first, second = (
        dict(zip(entry.recorded.documents, entry.numbers.tolist(), strict=True))
        for entry in (match.first, match.second)
    )
    return difference_bounds(first, second, score.failed)


def _failed(score: PairedScore) -> list[str]:
    """Documents that failed, and how far they could move the difference."""
    counts = [(label, count) for label, count in zip((score.first, score.second), score.failed, strict=True) if count]
    if not counts:
        return []
    reported = "failed and counted in neither score: " + ", ".join(f"{count:,} of {label}" for label, count in counts)
    if score.bounds is None:
        return [f"{reported}; the difference including them is unknown"]
    low, high = (signed_text(end, True) for end in score.bounds)
    return [f"{reported}; with them counted as wrong or right, the difference is from {low} to {high} points"]


def _missing_values(score: PairedScore) -> list[str]:
    """Documents without a value of which a gate has too many."""
    if not score.has_too_many_missing:
        return []
    kinds = (
        (score.failed, "failed", "failed"),
        (score.unanswered, "has no answer", "have no answer"),
        (score.undefined, "has no finite value", "have no finite value"),
    )
    reported = [
        f"{plural(count, 'document')} of {label} {verb(count, one, many)}"
        for counts, one, many in kinds
        for label, count in zip((score.first, score.second), counts, strict=True)
        if count
    ]
    return [f"{', '.join(reported)}: too many for --fail_if_worse"]


def _early_stopping(label: str, task: RecordedTask) -> list[str]:
    """A run that stopped when its scores said enough: a test of a fixed number of documents does not know of that."""
    stop = (task.summary.get("spared") or {}).get("stop")
    if not stop or not stop["is_reached"]:
        return []
    reported = f"{label} stopped early (--{stop['rule']}), which makes p too small and the interval too narrow"
    return [f"{reported}: its own report has the estimate that holds after early stopping"]
