"""The error for tasks whose data cannot be opened: one message for all that are missing, and how to fetch them.

In: the error of every task. Out: the error to raise before the model is opened.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.core.errors import DataError, Fault, UserError
from assay.core.plural import plural
from assay.core.protocols import Task
from assay.core.specs import RunSpec
from assay.data.load_faults import UnreachableDataset, offline_variable
from assay.data.needs import NeedsDatasets, title_of

_MOST_NAMED = 8


def missing_data_error(errors: Mapping[str, tuple[Task, UserError]], spec: RunSpec) -> UserError:
    """One error for all tasks whose data cannot be opened.

    Args:
        errors: task name → task and its error.
        spec: the run.
    """
    missing: dict[str, str] = {}
    faults: dict[Fault, None] = {}
    for task, error in errors.values():
        if isinstance(error, UnreachableDataset):
            needs = task.dataset_needs() if isinstance(task, NeedsDatasets) else ()
            missing.setdefault(task.card.family, ", ".join(map(title_of, needs)))
        else:
            faults.update(dict.fromkeys(error.faults))
    if len(errors) == 1 and not missing:
        return next(iter(errors.values()))[1]
    return DataError(*([_missing_fault(missing, spec)] if missing else []), *faults)


def _missing_fault(missing: Mapping[str, str], spec: RunSpec) -> Fault:
    shown = [f"{task}: {data}" for task, data in list(missing.items())[:_MOST_NAMED]]
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    place = f"in {spec.options.data} or the Hub's cache" if spec.options.data else "in the Hub's cache"
    why = f"{offline_variable()} forbids the network"
    found = f"the data of {plural(len(missing), 'task')} is not {place}, and {why}: {', '.join(shown)}{more}"
    folder = spec.options.data or "DIR"
    command = f"assay data get --tasks {' '.join(missing)} --to {folder}"
    advice = f"On a machine with network, run: {command}; then copy {folder} here and add --data {folder}"
    return Fault("--tasks", found, "a folder of datasets, --data or ASSAY_DATA", advice)
