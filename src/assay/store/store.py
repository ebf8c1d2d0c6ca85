"""The store as a whole: responses, runs with their document values, and trained models in one file."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from assay.store.database import MEMORY, Database
from assay.store.response_table import Responses
from assay.store.run_records import Runs
from assay.store.trained_models import FittedModels
from assay.store.value_table import DocumentTable


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
        self.fitted = FittedModels(self._database)
        self.values = DocumentTable(self._database)

    @property
    def path(self) -> str:
        return self._database.path

    @property
    def record_path(self) -> str:
        """Where runs are recorded: the file, or memory if the file is read-only."""
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
