"""Access to the store's file before SQLite opens it: validity, write access, and how to read it."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from assay.core.errors import Fault, StoreError

# Content of the lock file once a store exists beside it: a store of 0 bytes has then lost everything.
MARK = b"an Assay store is beside this file\n"
_SMALLEST = 100  # size of SQLite's header; SQLite treats a shorter file as empty
_EFFECTIVE = os.access in os.supports_effective_ids
_NETWORK_SYSTEMS = ("nfs", "cifs", "smb", "afs", "fuse.sshfs", "9p")


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
        return Path(f"{path}.lock").read_bytes() == MARK
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
