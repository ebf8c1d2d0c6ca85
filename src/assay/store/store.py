"""The store as a whole: responses, runs and trained models in one file; and which file a call opens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Union

from assay.core.errors import ArgumentError, Fault
from assay.core.results import RunResult
from assay.store.database import MEMORY, Database
from assay.store.response_table import Responses
from assay.store.run_records import DocumentTable, Runs

if TYPE_CHECKING:
    from assay.store.trained_models import FittedModels


class Store:
    """An open store. Use as a context manager.

    Args:
        path: the file; `:memory:` for none.
        may_be_read_only: whether read-only access suffices if the file cannot be written: for inspecting runs, not for
            recording them.
    """

    def __init__(self, path: str | Path = MEMORY, may_be_read_only: bool = False) -> None:
        self._database = Database(path, may_be_read_only)
        self.responses = Responses(self._database)
        self.runs = Runs(self._database, self.responses)
        self.values = DocumentTable(self._database)

    @cached_property
    def fitted(self) -> FittedModels:
        """The trained models."""
        from assay.store.trained_models import FittedModels  # few commands need them

        return FittedModels(self._database)

    @property
    def path(self) -> str:
        return self._database.path

    @property
    def record_path(self) -> str:
        """The location of recorded runs: the file, or memory if the file is read-only."""
        return MEMORY if self._database.is_read_only else self.path

    @property
    def notices(self) -> list[str]:
        """Notices about the file and what was read from it."""
        return [*self._database.notices, *self.responses.notices]

    @property
    def is_open(self) -> bool:
        """Whether it can be used: inside its `with` block."""
        return self._database.is_open

    def __enter__(self) -> Store:
        self._database.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()


def default_path() -> Path:
    """The store in the user's data folder; the environment variable ASSAY_STORE overrides it."""
    named = os.environ.get("ASSAY_STORE")
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_data_dir("assay", appauthor=False)) / "store.db"


# A file, `:memory:`, an open store, or None for the user's own.
StoreLocation = Union[str, Path, Store, None]


@contextmanager
def open_store(location: StoreLocation, may_be_read_only: bool = False) -> Iterator[Store]:
    """The store of a location, open. A store that is open already stays open.

    Args:
        location: a path or a store; None for the user's own.
        may_be_read_only: whether nothing is written, so that a read-only file will do.
    """
    if isinstance(location, Store) and location.is_open:
        yield location
        return
    path = default_path() if location is None else location
    with path if isinstance(path, Store) else Store(path, may_be_read_only=may_be_read_only) as opened:
        yield opened


def run_id(run: str | RunResult) -> str:
    """The id of a run that is given by name or as a result."""
    return run if isinstance(run, str) else run.run_id


def store_of_runs(store: StoreLocation, *runs: str | RunResult) -> StoreLocation:
    """The store of recorded runs: the one that is named, or that of the results given."""
    if store is not None:
        return store
    results = [run for run in runs if not isinstance(run, str)]
    found = results[0] if results else None
    if found is not None and found.store == MEMORY:
        message = f"was stored in memory only, by evaluate(…, store={MEMORY!r})"
        raise ArgumentError(Fault(f"run {found.run_id}", message, "a run in a file", 'Say store="runs.db"'))
    for other in results[1:]:
        if Path(other.store).resolve() != Path(results[0].store).resolve():
            message = f"is in {other.store}, and run {results[0].run_id} in {results[0].store}"
            raise ArgumentError(
                Fault(f"run {other.run_id}", message, "runs of one store", "Evaluate both with one store=")
            )
    return None if found is None else found.store
