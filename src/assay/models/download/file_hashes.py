"""Cached file hashes, so that large weight files are hashed only once.

In: paths. Out: sha256 digests. The cache is one JSON file in the user's cache folder, keyed by path, size and
modification time. It only saves time, so a corrupt or read-only cache is not an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from assay.core.atomic_files import atomic_write, cache_folder, private_folder
from assay.core.identity import digest, file_sha256

FILE_NAME = "file_hashes.json"


def hash_files(paths: Iterable[tuple[str, Path]], cache: Path | None = None) -> str:
    """One digest over (name, content) of files, independent of their folder.

    Args:
        paths: names relative to the model's folder, and file paths.
        cache: folder of the cache file; None for the user's cache folder.
    """
    memory_file = (cache or cache_folder()) / FILE_NAME
    memory = _read_memory(memory_file)
    fresh: dict[str, str] = {}
    parts: list[tuple[str, str]] = []
    for name, path in sorted(paths):
        real = path.resolve()
        state = real.stat()
        key = f"{real}|{state.st_size}|{state.st_mtime_ns}"
        if key not in memory:
            memory[key] = fresh[key] = file_sha256(real)
        parts.append((name, memory[key]))
    if fresh:
        # Read again: another process may have written in the meantime.
        _write_memory(memory_file, {**_read_memory(memory_file), **fresh})
    return digest(parts)


def _read_memory(file: Path) -> dict[str, str]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {key: value for key, value in data.items() if isinstance(value, str) and len(value) == 64}


def _write_memory(file: Path, memory: dict[str, str]) -> None:
    """Saves the hashes; if that fails, they are computed again next time."""
    with suppress(OSError):
        private_folder(file.parent)
        with atomic_write(file) as stream:
            json.dump(memory, stream, indent=0, sort_keys=True)
