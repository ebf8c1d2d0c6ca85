"""Everything needed to repeat a run: versions, revisions, hashes, seeds, the command. Never a secret."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from assay.core.fingerprints import Fingerprint
from assay.core.specs import RunSpec
from assay.core.version import __version__
from assay.run.posing import PosedTask

_SECRET_NAME = re.compile(
    r"(?i)^(.*_)?(api_?key|auth|authorization|bearer|password|passwd|secret|(hf|auth|access|api)_?token|token)$"
)
_SECRET_IN_TEXT = re.compile(
    r"(?i)\b([\w-]*(?:api_?key|authorization|password|passwd|secret|(?:hf|auth|access|api)_?token|(?<![\w])token))(=|\s+)([^,\s]+)"
)
HIDDEN = "***"


def redacted(value: Any, name: str = "") -> Any:
    """The same data with secret values hidden, by their names."""
    if _SECRET_NAME.match(name) and value is not None:
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    return value


def redacted_command(arguments: Sequence[str]) -> str:
    """A command line with secret values hidden."""
    return _SECRET_IN_TEXT.sub(lambda match: match.group(1) + match.group(2) + HIDDEN, " ".join(arguments))


def make_manifest(spec: RunSpec, fingerprint: Fingerprint, posed: Sequence[PosedTask]) -> dict[str, Any]:
    """The manifest of a run."""
    return {
        "date": time.time(),
        "assay_version": __version__,
        "assay_git": _git(Path(__file__).parent),
        "working_folder_git": _git(Path.cwd()),
        "command": redacted_command(sys.argv),
        "spec": redacted(spec.to_json()),
        "model": redacted(fingerprint.to_json()),
        "tasks": {item.task.card.name: _task(item) for item in posed},
        "seeds": spec.to_json()["seeds"],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "packages": _packages(),
    }


def _task(posed: PosedTask) -> dict[str, Any]:
    card = posed.task.card
    return {
        "version": card.version,
        "source": card.source,
        "num_fewshot": card.num_fewshot,
        "documents": len(posed.documents),
        "documents_available": posed.available,
        "documents_fingerprint": posed.fingerprint,
        "prompts_fingerprint": posed.keys.prompts,
    }


def _git(folder: Path) -> dict[str, Any] | None:
    """Revision of the checkout that a folder lies in, and whether it has uncommitted changes."""
    try:
        revision = _git_output(folder, "rev-parse", "HEAD")
        return {"revision": revision, "dirty": bool(_git_output(folder, "status", "--porcelain", "-uno"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git_output(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=True)
    return done.stdout.strip()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _packages() -> dict[str, str]:
    found = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found[name] = distribution.version
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))
