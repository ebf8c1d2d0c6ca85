"""Where a call finds its store: a path, an open store, the user's own, or the store of the results it is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

from assay.core.errors import ArgumentError, Fault
from assay.core.results import RunResult
from assay.store.database import MEMORY
from assay.store.store import Store, default_path

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
