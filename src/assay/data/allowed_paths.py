"""Checks of the local files that a task file names as its data: rejects files that are never benchmark data.

A task file may come from anyone, and its data ends up in prompts, in the samples and perhaps at a model provider.
Absolute paths are common in people's own files, so they are allowed; keys, settings and system files are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import DataError, Fault

# Folders of the operating system; on macOS they are below /private.
_SYSTEM = ("etc", "proc", "sys", "dev", "boot")
# Hidden folders that may contain data: caches, and environments with installed tasks.
_USUAL = frozenset({".cache", ".local", ".venv", ".huggingface"})
_WILD = "*?["
_COPY = "If it is meant, copy it to the task file's folder"


def check_data_path(path: Path, folder: Path | None, where: str) -> None:
    """Raises for a file or folder that is hidden or belongs to the operating system.

    Args:
        path: the file or folder.
        folder: folder of the task file.
        where: key or file that names the path, for errors.
    """
    real = path.resolve()
    parts = _parts_below(real, folder)
    hidden = next((part for part in parts if part.startswith(".") and part not in _USUAL), None)
    if hidden is not None and not _is_in_cache(real):
        raise DataError(Fault(where, f'"{path}" lies in or is "{hidden}", which is hidden', "a data file", _COPY))
    if _is_of_system(real) and not is_near(path, folder):
        raise DataError(Fault(where, f'"{path}" belongs to the operating system', "a data file", _COPY))


def is_near(path: Path, folder: Path | None) -> bool:
    """Whether a file is below the task file's folder or the current one."""
    real = path.resolve()
    return any(real.is_relative_to(base) for base in _bases(folder))


def check_pattern(pattern: Path, folder: Path | None, where: str) -> None:
    """Raises for a pattern that would search a whole disk or home folder, or a place that never holds data."""
    base = _fixed_part(pattern)
    if "**" in pattern.parts:
        check_folder(base, where)
    check_data_path(base, folder, where)


def check_folder(folder: Path, where: str) -> None:
    """Raises for a folder that contains a home folder or a whole disk."""
    real = folder.resolve()
    if _holds_home(real):
        raise DataError(Fault(where, f'would search all of "{real}"', "a folder of data", "Name the folder it lies in"))


def check_options(path: str, options: Mapping[str, Any], folder: Path | None, where: str) -> None:
    """Raises for local files that the settings of a dataset name, also those that the `datasets` package would read."""
    named = [("data_files", text) for text in _texts(options.get("data_files"))]
    for key, text in [*named, ("data_dir", str(options.get("data_dir") or "")), ("dataset_path", path)]:
        place = f"{where}, {key}"
        if "://" in text or "::" in text:
            _check_address(text, place)
        elif Path(text).expanduser().is_absolute() or ".." in Path(text).parts:
            full = (folder or Path()) / Path(text).expanduser()
            if key != "data_files":
                check_folder(full, place)
            check_pattern(full, folder, place)


def _check_address(text: str, where: str) -> None:
    """Raises for an address that refers to a local file, such as file:///etc/passwd or zip://a.csv::/etc/x.zip."""
    *outer, last = text.split("::")
    if "://" not in last or any(part.lower().startswith(("file:", "local:")) for part in (*outer, last)):
        raise DataError(Fault(where, f'"{text}" means a local file', "a path, or an address such as https://…"))


def _parts_below(real: Path, folder: Path | None) -> tuple[str, ...]:
    for base in _bases(folder):
        if real.is_relative_to(base):
            return real.relative_to(base).parts
    return real.parts


def _bases(folder: Path | None) -> list[Path]:
    """The task file's folder and the current one, except those that contain a home folder or a whole disk."""
    both = [base.resolve() for base in ([folder] if folder is not None else []) + [Path()]]
    return [base for base in both if not _holds_home(base)]


def _holds_home(real: Path) -> bool:
    try:
        home = Path.home().resolve()
    except RuntimeError:  # a user without a home, as in some containers
        home = Path("/")
    return home.is_relative_to(real)


def _is_in_cache(real: Path) -> bool:
    homes = [os.environ[name] for name in ("HF_HOME", "HF_DATASETS_CACHE", "XDG_CACHE_HOME") if os.environ.get(name)]
    return any(real.is_relative_to(Path(home).resolve()) for home in homes)


def _is_of_system(real: Path) -> bool:
    parts = real.parts[2:] if real.parts[1:2] == ("private",) else real.parts[1:]
    return os.name == "posix" and ((parts[:1] != () and parts[0] in _SYSTEM) or parts[:2] == ("run", "secrets"))


def _fixed_part(pattern: Path) -> Path:
    """The part of a pattern before its first wildcard."""
    parts = pattern.parts
    wild = [place for place, part in enumerate(parts) if any(mark in part for mark in _WILD)]
    return Path(*parts[: wild[0]]) if wild else pattern


def _texts(value: Any) -> Iterator[str]:
    """Every string in a value such as {test: [a.json, b.json]}."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
