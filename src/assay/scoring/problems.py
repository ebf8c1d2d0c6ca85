"""Scoring problems: an error costs one task or group its score, not the whole run.

In: an exception raised while scoring, or the counts of a task without a score. Out: a `Problem` with its faults.
"""

from __future__ import annotations

from dataclasses import replace

from assay.core.errors import Fault, UserError
from assay.core.plural import plural
from assay.core.results import Problem
from assay.core.scores import Denominators

_AGAIN = "The answers are stored and are not requested again: rerun the same command, or run assay rescore RUN"
_ASK_AGAIN = "Rerun the same command: failed requests are sent again"


def problem_of(error: Exception, where: str) -> Problem:
    """Why something has no score.

    Args:
        error: the exception. A user error keeps its faults; any other is a bug.
        where: what has no score, such as `task arc_easy`.
    """
    if not isinstance(error, UserError) or not error.faults:
        found = f"could not be scored: {type(error).__name__}: {error}"
        return Problem((Fault(where, found, next="This is a bug in Assay or in a plugin. " + _AGAIN),), error)
    faults = [with_location(fault, where) for fault in error.faults]
    last = faults[-1]
    advice = f"{last.next.rstrip('.')}. {_AGAIN}" if last.next else _AGAIN
    return Problem((*faults[:-1], replace(last, next=advice)), error)


def with_location(fault: Fault, where: str) -> Fault:
    """A fault with the name of its task before its location."""
    if where in fault.where:
        return fault
    return replace(fault, where=f"{where}, {fault.where}" if fault.where else where)


def nothing_scored(counts: Denominators, where: str) -> Problem:
    """Why a task without scored documents has no score."""
    if counts.total:
        return Problem((Fault(where, f"no score: all {plural(counts.total, 'document')} failed", next=_ASK_AGAIN),))
    if counts.left_out:
        found = f"no score: its prompt template cannot render any of its {plural(counts.left_out, 'document')}"
        return Problem((Fault(where, found, next="Inspect one: assay show TASK; fix the prompt, or choose another"),))
    return Problem((Fault(where, "no score: it has no documents", next="Check its split and process_docs"),))


def missing_members(group: str, missing: list[str]) -> Problem:
    """Why a group has no score: the mean over fewer tasks must not pass for that of the whole group."""
    noun = "its task" if len(missing) == 1 else "its tasks"
    found = f"no score: {noun} {', '.join(missing)} could not be scored"
    return Problem((Fault(f"group {group}", found, next="Fix these tasks; the group is then scored, too"),))
