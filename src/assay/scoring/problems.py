"""What cannot be scored: turns an error into a `Problem`, which costs one task or group and not the whole run.

In: what was raised while scoring, or the counts of a task without a score. Out: where, what was found, what to do next.
"""

from __future__ import annotations

from dataclasses import replace

from assay.core.errors import Fault, UserError
from assay.core.results import Problem
from assay.core.scores import Denominators

_AGAIN = "The answers are in the store and nothing is asked twice: run the same command again, or assay rescore RUN"
_ASK_AGAIN = "Run the same command again: what failed is asked again"


def problem_of(error: Exception, where: str) -> Problem:
    """Why something has no score.

    Args:
        error: what was raised. One for users keeps its faults; any other is a bug.
        where: what has no score, such as `task arc_easy`.
    """
    if not isinstance(error, UserError) or not error.faults:
        found = f"could not be scored: {type(error).__name__}: {error}"
        return Problem((Fault(where, found, next="This is a fault of Assay or of a plugin. " + _AGAIN),), error)
    faults = [with_location(fault, where) for fault in error.faults]
    last = faults[-1]
    advice = f"{last.next.rstrip('.')}. {_AGAIN}" if last.next else _AGAIN
    return Problem((*faults[:-1], replace(last, next=advice)), error)


def with_location(fault: Fault, where: str) -> Fault:
    """A fault with the name of its task before its place."""
    if where in fault.where:
        return fault
    return replace(fault, where=f"{where}, {fault.where}" if fault.where else where)


def nothing_scored(counts: Denominators, where: str) -> Problem | None:
    """Why a task of which no document counts has no score; None where one does."""
    if counts.scored:
        return None
    if counts.total:
        return Problem((Fault(where, f"no score: all {counts.total:,} documents failed", next=_ASK_AGAIN),))
    if counts.left_out:
        found = f"no score: all {counts.left_out:,} documents are left out, its prompt can put none of them"
        return Problem((Fault(where, found, next="Look at one: assay show TASK; mend the prompt, or choose another"),))
    return Problem((Fault(where, "no score: it has no documents", next="Check its split and process_docs"),))


def missing_members(group: str, missing: list[str]) -> Problem:
    """Why a group has no score: one over fewer tasks must not pass as that of the whole."""
    noun = "its task" if len(missing) == 1 else "its tasks"
    found = f"no score: {noun} {', '.join(missing)} could not be scored"
    return Problem((Fault(f"group {group}", found, next="Mend these; the group is then scored, too"),))
