"""Files: atomic writes, private folders, the cache folder.

A file appears under its name only when complete and synced, private, without known secrets.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from assay.core.secrets import without_known

PRIVATE_FOLDER = 0o700


class RedactingStream:
    """A text stream that redacts known secret values in everything written; otherwise like the wrapped stream."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(without_known(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def atomic_write(path: Path, is_private: bool = True) -> Iterator[IO[str]]:
    """Opens a text file for writing; it replaces an earlier file on success and leaves no trace after an error.

    A new file is readable by its owner only (mode 0600) from the start; a file that replaces another takes over its
    permissions. Lone surrogates are written as escapes. Missing folders are created.

    Args:
        path: the file.
        is_private: False for a file without document text that belongs with others anyone may read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".partial-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
            yield cast("IO[str]", RedactingStream(stream))
            stream.flush()
            os.fsync(stream.fileno())
        mode = _earlier_mode(path)
        if mode is not None or not is_private:
            os.chmod(temporary, 0o666 & ~_umask() if mode is None else mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def private_folder(folder: Path) -> None:
    """Creates a folder and its missing parents with owner-only permissions; existing folders are left as they are."""
    if not folder.is_dir():
        if folder.parent != folder:
            private_folder(folder.parent)
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def private_opener(path: str, flags: int) -> int:
    """An `opener` for `open`: files it creates are readable by their owner only."""
    return os.open(path, flags, 0o600)


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The cache folder: ASSAY_CACHE, or the user's cache folder."""
    chosen = environment.get("ASSAY_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("assay"))


def _earlier_mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
