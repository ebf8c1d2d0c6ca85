"""Public functions of data: fetching datasets, and which tasks a folder of them is enough for.

The command line calls the same ones.

import assay
report = assay.get_data(["hellaswag", "arc_easy"], to="data")
assert not report.failed
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.errors import DataError, UserError
from assay.core.plural import plural
from assay.core.protocols import ReadsDataset, Task
from assay.core.specs import RunSpec
from assay.data.copy_source import open_with_copies
from assay.data.fetched import DataReport
from assay.data.needs import NeedsDatasets
from assay.data.sources import HubSource, Source
from assay.options.specification import Tasks, make_spec, split_tasks, with_settings
from assay.options.table import Settings
from assay.run.datasets import get_datasets
from assay.run.events import Listener, ignore
from assay.run.resolve import check_tasks, checked_scorers, code_loader, known_names
from assay.tasks.catalog import open_catalog
from assay.tasks.selection import select_one_by_one

if TYPE_CHECKING:
    from typing_extensions import Unpack


@with_settings
def get_data(tasks: Tasks, to: str | Path, *, listener: Listener = ignore, **settings: Unpack[Settings]) -> DataReport:
    """Fetches the datasets of tasks into a folder, from which `data=FOLDER` reads them without network.

    Datasets that the folder holds complete and unchanged are skipped. One that cannot be fetched does not stop the
    others: its outcome has the reason.

    Args:
        tasks: as in `evaluate`.
        to: the folder; created if it is missing.
        listener: function that is called with every event.
        **settings: as in `evaluate`; those that find and change tasks matter.
    """
    wanted = split_tasks(tasks)
    spec = make_spec("none", [item if isinstance(item, str) else item.card.name for item in wanted], **settings)
    return get_datasets(spec, wanted, Path(to).expanduser().absolute(), listener)


@dataclass(frozen=True, slots=True)
class RunnableTasks:
    """The tasks that can be run.

    Attributes:
        names: their names, in the order that was asked for.
        left_out: name → error, of tasks that something else than data keeps from running.
    """

    names: tuple[str, ...]
    left_out: dict[str, UserError]

    def notices(self) -> Iterator[str]:
        """One line for each kind of error: how many tasks it concerns, and its first case."""
        kinds: dict[type, list[str]] = {}
        for name, error in self.left_out.items():
            kinds.setdefault(type(error), []).append(name)
        for names in kinds.values():
            first = self.left_out[names[0]].faults[0]
            yield f"{plural(len(names), 'task')} left out, such as {names[0]}: {first}"


def runnable_tasks(spec: RunSpec, names: Sequence[str]) -> RunnableTasks:
    """The tasks whose data is in the folder of a specification, with every split that a run reads.

    Args:
        spec: the specification; its `options.data` is the folder.
        names: names of tasks.
    """
    found: list[str] = []
    left_out: dict[str, UserError] = {}
    catalog, code = open_catalog(spec.include_path), code_loader(spec, names)
    for name, made in select_one_by_one(names, catalog, spec.options, known_names(), code):
        if isinstance(made, UserError):
            left_out[name] = made
            continue
        try:
            if not all(_has_data(task, spec) for task in made):
                continue
            check_tasks(made, spec.options)
            checked_scorers(made)
        except UserError as error:
            left_out[name] = error
        else:
            found.append(name)
    return RunnableTasks(tuple(found), left_out)


def _has_data(task: Task, spec: RunSpec) -> bool:
    """Whether the rows of a task are in the folder, beside its file, or made by code."""
    try:
        if isinstance(task, NeedsDatasets) and any(_is_fetched(source) for source in _sources(task, spec)):
            return False
        if isinstance(task, ReadsDataset):
            task.open_data()
    except DataError:
        return False
    return True


def _sources(task: NeedsDatasets, spec: RunSpec) -> Iterator[Source]:
    for need in task.dataset_needs():
        yield open_with_copies(need.source, Path(str(spec.options.data)))


def _is_fetched(source: Source) -> bool:
    return isinstance(source, HubSource) and source.is_fetched
