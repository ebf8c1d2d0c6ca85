"""Opens the store's SQLite file: WAL mode, one writer at a time, migrations, readable errors.

A file that cannot be written is opened read-only if the caller allows it; new records are then dropped.

SQLite before 3.51.3 can corrupt a WAL database when two connections write or checkpoint at the same moment.
So every write transaction and checkpoint here runs under a lock file, and SQLite never checkpoints by itself.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from assay.core.atomic_files import private_folder, private_opener
from assay.core.errors import Fault, StoreError
from assay.core.interrupts import defer_signals
from assay.store.migrations import APPLICATION_ID, MIGRATIONS, check_identity, migrate

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks must suffice
    fcntl = None  # type: ignore[assignment]

MEMORY = ":memory:"
_BUSY_SECONDS = 60.0
_ROWS_PER_CHECKPOINT = 200_000
# Content of the lock file once a store exists beside it: a store of 0 bytes has then lost everything.
_MARK = b"an Assay store is beside this file\n"
_SMALLEST = 100  # size of SQLite's header; SQLite treats a shorter file as empty
_EFFECTIVE = os.access in os.supports_effective_ids
_NETWORK_SYSTEMS = ("nfs", "cifs", "smb", "afs", "fuse.sshfs", "9p")


class Database:
    """One connection, used by one thread at a time.

    Args:
        path: the file; `:memory:` for none.
        may_be_read_only: whether read-only access suffices if the file cannot be written. A missing file is then not
            created.
    """

    def __init__(self, path: str | Path, may_be_read_only: bool = False) -> None:
        self.path = str(path)
        self.notices: list[str] = []
        self._may_be_read_only = may_be_read_only
        self._scratch: sqlite3.Connection | None = None
        self._unwritable = ""
        self._copy: str | None = None
        self._lock = threading.RLock()
        self._lock_file: IO[bytes] | None = None
        self._rows_since_checkpoint = 0
        self._connection: sqlite3.Connection | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> Database:
        """Opens or creates the file and migrates its tables to the current schema."""
        try:
            with self._explained("opened"):
                if self.path != MEMORY:
                    self.path = locate(self.path)
                    self._note_empty(check_not_emptied(self.path))
                if self.path != MEMORY and self._may_be_read_only and not self._is_there():
                    self._open_to_write(MEMORY)  # reading does not create a store
                elif self.path != MEMORY and (reason := unwritable_reason(self.path)):
                    self._open_to_read(reason)
                else:
                    self._make_folder()
                    self._open_to_write(self.path)
        except BaseException:
            self._release()
            raise
        return self

    def _is_there(self) -> bool:
        return Path(self.path).exists() and Path(self.path).stat().st_size > 0

    def _note_empty(self, is_empty: bool) -> None:
        if is_empty:
            message = "had 0 bytes and starts as a new store; any answers it held before are lost"
            self.notices.append(f"the store {self.path} {message}")

    def _open_to_write(self, path: str) -> None:
        self._connection = _connect(path)
        with self._writing():
            check_identity(self._connection, self.path)
            self._configure()
            migrate(self._connection, self.path)
            self._mark()

    def _open_to_read(self, reason: str) -> None:
        """Opens a file that cannot be written. An earlier schema is migrated in memory."""
        if not self._may_be_read_only:
            advice = f"Copy the store to a writable location (cp {self.path} …) and pass that with --store"
            raise StoreError(
                Fault(f"store {self.path}", f"could not be opened: {reason}", "a writable file and folder", advice)
            )
        way = read_only_access(self.path)
        self._copy = way.copy
        self._connection = _connect(way.uri, is_uri=True)
        version = check_identity(self._connection, self.path)
        if version < len(MIGRATIONS):
            copied = _connect(MEMORY)
            self._connection.backup(copied)
            self._connection.close()
            self._connection = copied
        self._scratch = _connect(MEMORY)
        migrate(self._scratch, self.path)
        migrate(self._connection, self.path)
        self._connection.execute("PRAGMA query_only = ON")
        self._unwritable = reason

    def _mark(self) -> None:
        """Marks the lock file once a store exists: if the store is found with 0 bytes later, it was truncated."""
        if self._lock_file is not None and self._lock_file.tell() == 0:
            self._lock_file.write(_MARK)
            self._lock_file.flush()

    @contextmanager
    def open_for_inspection(self) -> Iterator[sqlite3.Connection]:
        """A connection that reads the file as it is, damaged or not: without migrations, decoding text leniently."""
        self.path = locate(self.path)
        with self._explained("read"):
            check_not_emptied(self.path)
            if unwritable_reason(self.path):
                way = read_only_access(self.path)
                self._copy, self._connection = way.copy, _connect(way.uri, is_uri=True)
            else:
                self._make_folder()
                self._connection = _connect(self.path)
            try:
                self._connection.text_factory = decode_leniently
                self._connection.execute("PRAGMA query_only = ON")
                # A damaged table definition must not hide the other tables.
                self._connection.execute("PRAGMA writable_schema = ON")
                yield self._connection
            finally:
                self._release()

    def copy_to(self, path: str) -> None:
        """Writes a copy of the whole store, including its log, with the file's permissions."""
        Path(path).touch(mode=Path(self.path).stat().st_mode & 0o777)
        with self._lock, self._explained("copied"), self._writing(), closing(_connect(path)) as copy:
            self._open_connection().backup(copy)

    @property
    def is_read_only(self) -> bool:
        """Whether writes go to a scratch database."""
        return self._scratch is not None

    def close(self) -> None:
        """Checkpoints the log into the file and closes both."""
        with defer_signals(), self._lock:
            if self._connection is not None:
                with suppress(sqlite3.Error, OSError), self._writing():
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._release()

    def _release(self) -> None:
        """Closes everything and ignores errors: everything important is committed."""
        if self._connection is not None:
            # Under the lock, because the last connection to close checkpoints once more.
            with suppress(sqlite3.Error, OSError), self._writing():
                self._connection.close()
            self._connection = None
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None
        if self._copy is not None:
            import shutil

            shutil.rmtree(self._copy, ignore_errors=True)
            self._copy = None
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def read(self, query: str, parameters: Any = ()) -> list[Any]:
        """All rows of a query."""
        with self._lock, self._explained("read"):
            connection = self._open_connection()
            try:
                return connection.execute(query, parameters).fetchall()
            except sqlite3.OperationalError as error:
                if "decode" not in str(error):
                    raise
                # Damaged text is decoded leniently: one row must not hide the others.
                connection.text_factory = decode_leniently
                try:
                    return connection.execute(query, parameters).fetchall()
                finally:
                    connection.text_factory = str

    @contextmanager
    def write(self, rows: int = 1) -> Iterator[sqlite3.Connection]:
        """One transaction, all or nothing. On a read-only store it goes to a scratch database.

        Args:
            rows: approximate number of rows written, to decide when to checkpoint.
        """
        with defer_signals(), self._lock, self._explained("written"), self._writing():
            connection = self._scratch or self._open_connection()
            self._note_unrecorded()
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

    def _note_unrecorded(self) -> None:
        if self._unwritable:
            message = f"is read-only: {self._unwritable}. This run is not recorded in it"
            self.notices.append(f"the store {self.path} {message}")
            self._unwritable = ""

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(Fault(self.path, "the store is closed"))
        return self._connection

    def _make_folder(self) -> None:
        if self.path == MEMORY:
            return
        private_folder(Path(self.path).parent)
        self._lock_file = open(self.path + ".lock", "ab", opener=private_opener)  # noqa: SIM115 - stays open
        if not Path(self.path).exists():  # deleted to start over
            self._lock_file.truncate(0)
        # Created here with owner-only permissions: SQLite would let others read it. Its log files inherit them.
        os.close(private_opener(self.path, os.O_CREAT | os.O_RDWR))

    def _configure(self) -> None:
        connection = self._open_connection()
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if self._lock_file is not None and is_network_path(Path(self.path)):
            connection.execute("PRAGMA journal_mode = DELETE")
            self.notices.append(f"the store {self.path} is on a network file system: writes are safe there, but slower")
        else:
            connection.execute("PRAGMA journal_mode = WAL")
        # NORMAL in WAL mode: a commit survives a killed process, though not always a power failure.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        # Keys are hashes, so rows are spread over the whole tree: 64 MB of page cache save many reads.
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA foreign_keys = ON")

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
        except UnicodeError as error:
            raise StoreError(_fault(self.path, verb, f"a text that cannot be stored: {error}")) from error


def decode_leniently(data: bytes) -> str:
    """Text as it is in the file, even if damaged."""
    return data.decode("utf-8", "surrogateescape")


def _connect(path: str, is_uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=is_uri)


def _fault(path: str, verb: str, reason: str) -> Fault:
    lowered = reason.lower()
    advice = "Choose another location with --store"
    if "full" in lowered or "no space" in lowered or "too large" in lowered:
        advice = "Free some space and rerun the same command: answers so far are saved"
    elif "i/o error" in lowered:  # SQLite reports a full quota like this, too
        advice = "Is the disk full or failing? Fix that and rerun the same command: answers so far are saved"
    elif "not a database" in lowered:
        advice = "Move the file away, or choose another location with --store"
    elif "malformed" in lowered or "corrupt" in lowered:
        advice = f"The file is damaged. Run: assay store check --store {path} (with --repair to save what can be read)"
    return Fault(f"store {path}", f"could not be {verb}: {reason}", next=advice)


# The file before SQLite opens it


def locate(path: str) -> str:
    """The path with `~` expanded; an error if it cannot be a store."""
    try:
        os.fsencode(path)
        if "\0" in path:
            raise ValueError
        path.encode("utf-8")
    except ValueError:
        raise StoreError(Fault(f"store {path!r}", "is not a file name", next="Choose another --store")) from None
    found = Path(path).expanduser()
    if found.is_dir():
        raise StoreError(Fault(str(found), "is a folder", "a file", "Give --store a file name such as store.db"))
    if found.exists() and not stat.S_ISREG(found.stat().st_mode):
        raise StoreError(
            Fault(str(found), "is a device or pipe", "a file", "Give --store a file name such as store.db")
        )
    return str(found.parent / found.name)


def check_not_emptied(path: str) -> bool:
    """Whether the file exists with 0 bytes. A file that held a store, or has a log beside it, is an error."""
    size = _size(path)
    if 0 < size < _SMALLEST:
        found = f"has {size} bytes, too few for a store: it was truncated, or is another file"
        raise StoreError(Fault(f"store {path}", found, "a store", f"Restore a backup, or delete the file: rm {path}"))
    if size or not Path(path).exists():
        return False
    log = f"{path}-wal"
    if _size(log):
        found = f"has 0 bytes, but its log {log} does not: the file was truncated, and opening it would delete the log"
        advice = f"Restore a backup of the file. To start over, delete {path} and {log}"
        raise StoreError(Fault(f"store {path}", found, "a store", advice))
    if _was_store(path):
        found = "has 0 bytes: it held a store and was truncated, so its answers and runs are lost"
        advice = f"Restore a backup. To start over, delete the file: rm {path}"
        raise StoreError(Fault(f"store {path}", found, "a store", advice))
    return True


def _size(path: str) -> int:
    """Size of a file in bytes; 0 if it does not exist."""
    return Path(path).stat().st_size if Path(path).exists() else 0


def _was_store(path: str) -> bool:
    try:
        return Path(f"{path}.lock").read_bytes() == _MARK
    except OSError:
        return False


def unwritable_reason(path: str) -> str:
    """Why a store cannot be written: the reason and the file or folder; empty if it can."""
    existing = [name for name in (path, f"{path}.lock", f"{path}-wal", f"{path}-shm") if Path(name).exists()]
    folder = Path(path).parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    for name in [*existing, str(folder)]:
        if not os.access(name, os.W_OK, effective_ids=_EFFECTIVE):
            return f"{_reason(name)} ({name})"
    return ""


def _reason(path: str) -> str:
    read_only = getattr(os, "ST_RDONLY", 0)
    is_mounted_so = bool(read_only) and bool(os.statvfs(path).f_flag & read_only)
    return os.strerror(errno.EROFS if is_mounted_so else errno.EACCES)


@dataclass(frozen=True, slots=True)
class ReadOnlyAccess:
    """Access to a file that cannot be written.

    Attributes:
        uri: URI for SQLite.
        copy: folder with a copy, to be deleted after use.
    """

    uri: str
    copy: str | None = None


def read_only_access(path: str) -> ReadOnlyAccess:
    """Read access to a store without writing beside it.

    SQLite reads a log (`-wal`) through its index (`-shm`). If there is no index and none can be created, a log with
    answers can only be read from a copy; without a log the file does not change and is read in place.
    """
    if Path(f"{path}-shm").exists() and Path(f"{path}-wal").exists():
        return ReadOnlyAccess(_uri(path, "mode=ro"))
    if not _size(f"{path}-wal"):
        return ReadOnlyAccess(_uri(path, "immutable=1"))
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="assay-store-")
    copied = str(Path(folder) / "store.db")
    for ending in ("", "-wal"):
        shutil.copyfile(path + ending, copied + ending)
    return ReadOnlyAccess(_uri(copied, "mode=rw"), folder)


def _uri(path: str, parameters: str) -> str:
    from urllib.parse import quote

    return f"file:{quote(str(Path(path).absolute()))}?{parameters}"


def is_network_path(path: Path) -> bool:
    """Whether the file is on a network file system, where WAL does not work. Detected on Linux only."""
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    mounts = [line.split()[1:3] for line in lines if len(line.split()) > 2]
    resolved = str(path.resolve())
    under = [(point, kind) for point, kind in mounts if resolved.startswith(point.rstrip("/") + "/")]
    kind = max(under, key=lambda mount: len(mount[0]))[1] if under else ""
    return kind.startswith(_NETWORK_SYSTEMS)
