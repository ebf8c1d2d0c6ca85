"""Opens the store's SQLite file: WAL, one writer at a time, migrations, errors in plain words.

SQLite before 3.51.3 can damage a WAL database when two connections write or checkpoint at the same moment.
So every write transaction and checkpoint here runs under a lock file, and SQLite never checkpoints by itself.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from assay.core.errors import Fault, StoreError
from assay.store.schema import APPLICATION_ID, MIGRATIONS

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks must do
    fcntl = None  # type: ignore[assignment]

MEMORY = ":memory:"
_BUSY_SECONDS = 60.0
_ROWS_PER_CHECKPOINT = 200_000
_NETWORK_SYSTEMS = ("nfs", "cifs", "smb", "afs", "fuse.sshfs", "9p")


class Database:
    """One connection, used by one thread at a time."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.notices: list[str] = []
        self._lock = threading.RLock()
        self._lock_file: IO[bytes] | None = None
        self._rows_since_checkpoint = 0
        self._connection: sqlite3.Connection | None = None

    def open(self) -> Database:
        """Opens or creates the file and brings its tables up to date."""
        try:
            with self._explained("opened"):
                self._make_folder()
                self._connection = sqlite3.connect(
                    self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
                )
                with self._writing():
                    self._configure()
                    self._migrate()
        except BaseException:
            self._release()
            raise
        return self

    def close(self) -> None:
        """Folds the log into the file and closes both."""
        with self._lock:
            if self._connection is not None:
                with suppress(sqlite3.Error, OSError), self._writing():
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._release()

    def _release(self) -> None:
        """Closes what is open, without a word about errors: everything worth keeping is committed."""
        if self._connection is not None:
            # Under the lock, because the last connection to close folds the log into the file once more.
            with suppress(sqlite3.Error, OSError), self._writing():
                self._connection.close()
            self._connection = None
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def read(self, query: str, parameters: Any = ()) -> list[Any]:
        """All rows of a query."""
        with self._lock, self._explained("read"):
            return self._open_connection().execute(query, parameters).fetchall()

    @contextmanager
    def write(self, rows: int = 1) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is kept, or nothing.

        Args:
            rows: roughly how many rows it writes, to know when to fold the log into the file.
        """
        with self._lock, self._explained("written"), self._writing():
            connection = self._open_connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            self._rows_since_checkpoint += rows
            if self._rows_since_checkpoint >= _ROWS_PER_CHECKPOINT:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                self._rows_since_checkpoint = 0

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(Fault(self.path, "the store is closed"))
        return self._connection

    def _make_folder(self) -> None:
        if self.path == MEMORY:
            return
        folder = Path(self.path).expanduser().parent
        folder.mkdir(parents=True, exist_ok=True)
        self.path = str(folder / Path(self.path).name)
        if Path(self.path).is_dir():
            raise StoreError(Fault(self.path, "is a folder", "a file", "Give --store a file name such as store.db"))
        self._lock_file = open(self.path + ".lock", "ab")  # noqa: SIM115 - held as long as the database

    def _configure(self) -> None:
        connection = self._open_connection()
        found = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if found != APPLICATION_ID and tables:
            raise StoreError(
                Fault(
                    self.path, "is another program's SQLite file", "an Assay store or no file", "Choose another --store"
                )
            )
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if self.path != MEMORY and _is_network_path(Path(self.path)):
            connection.execute("PRAGMA journal_mode = DELETE")
            self.notices.append(f"the store {self.path} is on a network file system: writing is safe there, but slower")
        else:
            connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL in WAL mode: a commit survives the death of the process, though not always a power cut.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        # Keys are hashes, so rows land all over the tree: 64 MB of it in memory spare many re-reads.
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA foreign_keys = ON")

    def _migrate(self) -> None:
        connection = self._open_connection()
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise StoreError(
                Fault(
                    self.path,
                    f"was written by a newer Assay (schema {version})",
                    f"schema {len(MIGRATIONS)} or older",
                    "Update Assay, or choose another --store",
                )
            )
        for number in range(version, len(MIGRATIONS)):
            connection.execute("BEGIN IMMEDIATE")
            try:
                MIGRATIONS[number](connection)
                connection.execute(f"PRAGMA user_version = {number + 1}")
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Holds the lock file, so that no other process writes or checkpoints meanwhile."""
        if fcntl is None or self._lock_file is None:
            yield
            return
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(_fault(self.path, verb, str(error))) from error
        except OSError as error:
            raise StoreError(_fault(self.path, verb, error.strerror or str(error))) from error


def _fault(path: str, verb: str, reason: str) -> Fault:
    lowered = reason.lower()
    advice = "Choose another place with --store"
    if "full" in lowered or "no space" in lowered or "too large" in lowered:
        advice = "Free some space and run the same command again: what was answered so far is kept"
    elif "i/o error" in lowered:  # what SQLite says of a quota, too
        advice = "Is the disk full or failing? Mend that and run the same command again: what was answered is kept"
    elif "malformed" in lowered or "not a database" in lowered:
        advice = "Move the file away, or choose another place with --store"
    return Fault(f"store {path}", f"could not be {verb}: {reason}", next=advice)


def _is_network_path(path: Path) -> bool:
    """Whether the file lies on a network file system, where WAL does not work. Known on Linux only."""
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    mounts = [line.split()[1:3] for line in lines if len(line.split()) > 2]
    resolved = str(path.resolve())
    under = [(point, kind) for point, kind in mounts if resolved.startswith(point.rstrip("/") + "/")]
    kind = max(under, key=lambda mount: len(mount[0]))[1] if under else ""
    return kind.startswith(_NETWORK_SYSTEMS)
