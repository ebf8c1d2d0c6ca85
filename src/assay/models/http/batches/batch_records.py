"""Records of batches that were sent to a provider, as small files beside the store: a killed run collects them later.

In: the ids of requests. Out: a file per batch, written before the batch is created, again with its id, and again when
its replies were handed over. Records stay for as long as providers keep the replies, since answers may have been on
their way to the store when a run was killed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from assay.core.atomic_files import atomic_write, cache_folder

# OpenAI and Anthropic delete replies after about a month.
_SECONDS_TO_KEEP = 29 * 86_400.0


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch.

    Attributes:
        mark: our name for it.
        base_url: address of the provider's API.
        path: endpoint of its requests.
        names: ids of its requests, in order.
        batch: the provider's id; empty until it is known.
        is_collected: whether its replies were handed over.
        created: seconds since the epoch.
    """

    base_url: str
    path: str
    names: tuple[str, ...]
    mark: str = field(default_factory=lambda: uuid4().hex)
    batch: str = ""
    is_collected: bool = False
    created: float = field(default_factory=time.time)


class BatchRecords:
    """The records of one folder.

    Args:
        folder: the folder; None for one in the user's cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = cache_folder() / "batches" if folder is None else folder

    def of(self, base_url: str) -> list[BatchRecord]:
        """The records of a provider, the latest first. Records of replies that are gone are deleted."""
        found = sorted(self._read(), key=lambda record: record.created, reverse=True)
        for record in found:
            if record.created < time.time() - _SECONDS_TO_KEEP:
                self._path(record.mark).unlink(missing_ok=True)
        return [r for r in found if r.base_url == base_url and r.created >= time.time() - _SECONDS_TO_KEEP]

    def keep(self, record: BatchRecord) -> BatchRecord:
        """Writes a record; it is on disk afterwards."""
        with atomic_write(self._path(record.mark)) as stream:
            json.dump(asdict(record), stream)
        return record

    def named(self, record: BatchRecord, batch: str) -> BatchRecord:
        """Adds the provider's id."""
        return self.keep(replace(record, batch=batch))

    def collected(self, record: BatchRecord) -> BatchRecord:
        """Marks that all replies were handed over."""
        return self.keep(replace(record, is_collected=True))

    def drop(self, record: BatchRecord) -> None:
        """Deletes the record of a batch that the provider does not have."""
        self._path(record.mark).unlink(missing_ok=True)

    def _path(self, mark: str) -> Path:
        return self._folder / f"{mark}.json"

    def _read(self) -> Iterator[BatchRecord]:
        for path in self._folder.glob("*.json") if self._folder.is_dir() else ():
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
                yield BatchRecord(**{**data, "names": tuple(data["names"])})
            except (OSError, ValueError, TypeError, KeyError):
                continue  # not a record of this version


def last_places(names: Sequence[str], wanted: int) -> Sequence[str]:
    """Of the ids of equal requests, those that can still be missing: answers are handed over in order."""
    return names[len(names) - wanted :]
