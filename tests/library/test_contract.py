"""Every task of the library meets the contract of a benchmark on miniature rows; its styles and heads, too."""

from __future__ import annotations

import pytest

from assay.core.protocols import Task
from assay.testing import check_benchmarks
from tests.library.conftest import MiniatureRows, family_names, tasks_of


@pytest.mark.parametrize("family", family_names())
def test_a_family_meets_the_contract(family: str, rows: MiniatureRows) -> None:
    tasks = tasks_of(family)
    rows.prepare(tasks)
    whole, own = _by_file(tasks)
    checked = [
        *check_benchmarks(whole, data=rows.folder, limit=8),
        *(check_benchmarks(own, variants=False, data=rows.folder, limit=8) if own else ()),
    ]
    faults = [str(finding) for task in checked for finding in task.findings if finding.is_fault]
    assert not faults, "\n".join(faults)
    assert all(task.documents for task in checked if not task.skipped)


def _by_file(tasks: list[Task]) -> tuple[list[str], list[str]]:
    """The first task of every file, which is checked in all styles and for all heads, and the others."""
    first = {task.card.source: task.card.name for task in reversed(tasks)}
    return list(first.values()), [task.card.name for task in tasks if task.card.name not in first.values()]
