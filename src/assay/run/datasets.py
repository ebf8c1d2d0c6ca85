"""Fetches the datasets of tasks into a folder of copies.

In: tasks. Out: one outcome per dataset. A dataset that cannot be fetched does not stop the others.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from assay.core.errors import Fault, UserError
from assay.core.protocols import Task
from assay.core.specs import RunSpec
from assay.data.download import fetch, is_remote, scratch_folder, space_fault
from assay.data.fetched import DataReport, DatasetOutcome
from assay.data.needs import DatasetNeed, NeedsDatasets, title_of
from assay.run.events import Listener, Noticed, Progressed, StageStarted
from assay.run.resolve import select_for_run
from assay.tasks.selection import Wanted


def get_datasets(spec: RunSpec, given: Sequence[Wanted], root: Path, listener: Listener) -> DataReport:
    """Fetches the datasets of tasks, with every split that a task names.

    Args:
        spec: the specification, for the folders of task files.
        given: names of tasks, or task objects.
        root: the folder of copies; created if it is missing.
        listener: receives a stage per dataset.
    """
    tasks = select_for_run(spec, given).tasks
    needs, without = merged_needs(tasks, root)
    found = []
    try:
        with scratch_folder(root) as scratch:
            for number, (need, names) in enumerate(needs, 1):
                title = title_of(need)
                listener(StageStarted("get", f"{number} of {len(needs)}: {title}"))
                found.append(_outcome(need, names, root, scratch / str(number), listener))
                _report(found[-1], listener)
    except OSError as error:
        raise UserError(_folder_fault(root, error)) from error
    return DataReport(root, tuple(found), without)


def merged_needs(
    tasks: Sequence[Task], root: Path
) -> tuple[list[tuple[DatasetNeed, tuple[str, ...]]], tuple[str, ...]]:
    """The datasets of tasks, each once with all splits that any of them names, and the tasks that need none."""
    found: dict[str, tuple[DatasetNeed, tuple[str, ...]]] = {}
    without = []
    for task in tasks:
        needs = task.dataset_needs() if isinstance(task, NeedsDatasets) else ()
        needs = [need for need in needs if is_remote(need.source, root)]
        if not needs:
            without.append(task.card.base)
        for need in needs:
            key = repr((need.source.path, need.source.name, sorted(need.source.options.items(), key=str)))
            earlier, names = found.get(key, (need, ()))
            whole = not need.splits or not earlier.splits
            splits = () if whole else tuple(dict.fromkeys((*earlier.splits, *need.splits)))
            rows: Mapping[str, int] = {**earlier.rows, **need.rows}
            found[key] = (replace(earlier, splits=splits, rows=rows), tuple(dict.fromkeys((*names, task.card.base))))
    return list(found.values()), tuple(dict.fromkeys(without))


def _outcome(
    need: DatasetNeed, names: tuple[str, ...], root: Path, scratch: Path, listener: Listener
) -> DatasetOutcome:
    def report(what: str, done: int, total: int) -> None:
        if total:  # in MB; smaller datasets are fetched at once
            listener(Progressed(f"{what}, MB", done, total))

    scratch.mkdir(parents=True, exist_ok=True)
    try:
        return DatasetOutcome(title_of(need), names, fetch(need, root, scratch, report))
    except UserError as error:
        if _is_full(error):
            raise UserError(space_fault(root, title_of(need))) from error
        return DatasetOutcome(title_of(need), names, faults=error.faults)
    except OSError as error:
        if _is_full(error):
            raise UserError(space_fault(root, title_of(need))) from error
        fault = Fault(title_of(need), f"could not be written: {error.strerror or error}")
        return DatasetOutcome(title_of(need), names, faults=(fault,))


def _is_full(error: BaseException | None) -> bool:
    """Whether a full disk is among the causes of an error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return True
        error = error.__cause__ or error.__context__
    return False


def _folder_fault(root: Path, error: OSError) -> Fault:
    if _is_full(error):
        return space_fault(root, "datasets")
    return Fault(str(root), f"cannot be written: {error.strerror or error}", "a folder for datasets")


def _report(outcome: DatasetOutcome, listener: Listener) -> None:
    fetched = outcome.fetched
    if fetched is not None and fetched.moved_to:
        text = (
            f"{fetched.dataset} was renamed to {fetched.moved_to}; name that in the files of {', '.join(outcome.tasks)}"
        )
        listener(Noticed(text))
