"""The error for tasks whose data is not there: one message for all that are missing, and how to fetch them.

In: the error of every task. Out: the error to raise before the model is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from assay.core.errors import DataError, Fault, UserError
from assay.core.plural import plural
from assay.core.protocols import Task
from assay.core.specs import RunSpec
from assay.data.load_faults import UnreachableDataset, why_offline
from assay.data.needs import NeedsDatasets, title_of
from assay.data.sources import IncompleteCopy

_MOST_NAMED = 8
# OWNER/NAME/CONFIGURATION
_LEVELS = 3


def missing_data_error(errors: Mapping[str, tuple[Task, UserError]], spec: RunSpec) -> UserError:
    """One error for all tasks whose data cannot be opened.

    Args:
        errors: task name → task and its error.
        spec: the run.
    """
    if len(errors) == 1 and not any(isinstance(error, UnreachableDataset) for _, error in errors.values()):
        return next(iter(errors.values()))[1]
    missing: dict[str, str] = {}
    datasets: dict[str, None] = {}
    incomplete: dict[str, str] = {}
    faults: dict[Fault, None] = {}
    for task, error in errors.values():
        if isinstance(error, UnreachableDataset):
            needs = task.dataset_needs() if isinstance(task, NeedsDatasets) else ()
            missing.setdefault(task.card.family, ", ".join(map(title_of, needs)))
            datasets.update((need.source.path, None) for need in needs)
        elif isinstance(error, IncompleteCopy):
            incomplete.setdefault(task.card.family, ", ".join(fault.found for fault in error.faults))
        else:
            faults.update(dict.fromkeys(error.faults))
    found = [_missing_fault(missing, tuple(datasets), spec)] if missing else []
    found += [_incomplete_fault(incomplete, str(spec.options.data))] if incomplete else []
    return DataError(*found, *faults)


def _missing_fault(missing: Mapping[str, str], datasets: Sequence[str], spec: RunSpec) -> Fault:
    place = f"in {spec.options.data} or the Hub's cache" if spec.options.data else "in the Hub's cache"
    found = f"the data of {plural(len(missing), 'task')} is not {place}, and {why_offline()}: {_first(missing, ', ')}"
    folder = spec.options.data or "DIR"
    other = _other_folder(Path(spec.options.data), datasets) if spec.options.data else None
    if other is not None:
        return Fault("--data", found, "the folder that holds OWNER/NAME", f"Say: --data {other}")
    advice = (
        f"On a machine with network, run: {_command(missing, folder)}; then copy {folder} here and add --data {folder}"
    )
    return Fault("--tasks", found, "a folder of datasets, --data or ASSAY_DATA", advice)


def _other_folder(folder: Path, datasets: Sequence[str]) -> Path | None:
    """The folder that was meant, if a folder above it or in it was named: it holds one of the datasets."""
    below = sorted(path for path in folder.iterdir() if path.is_dir())
    named = [dataset for dataset in datasets if dataset.count("/") == 1]
    near = (*folder.parents[:_LEVELS], *below)
    return next((place for place in near if any((place / dataset).is_dir() for dataset in named)), None)


def _incomplete_fault(incomplete: Mapping[str, str], folder: str) -> Fault:
    found = f"the copies of {plural(len(incomplete), 'task')} in {folder} are not complete: {_first(incomplete, '; ')}"
    return Fault("--data", found, "every split that a run reads", f"Run: {_command(incomplete, folder)}")


def _first(named: Mapping[str, str], separator: str) -> str:
    shown = [f"{task}: {what}" for task, what in list(named.items())[:_MOST_NAMED]]
    return separator.join(shown) + (f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else "")


def _command(tasks: Iterable[str], folder: str) -> str:
    return f"assay data get --tasks {' '.join(tasks)} --to {folder}"
