"""Everything needed to repeat a run: versions, revisions, hashes, seeds, the command. Never a secret."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.fingerprints import Fingerprint
from assay.core.identity import digest_all
from assay.core.requests import Instance
from assay.core.specs import MetricSpec, RunSpec, Scoring
from assay.core.version import __version__
from assay.run.posing import PosedTask

# Names end in one of these words; `add_bos_token` and its like are settings.
_SECRET_WORDS = (
    r"(?:api[_-]?keys?|(?:secret|private|access|auth|account)[_-]?keys?|auth|authorization|bearer|credentials?"
    r"|cookie|passphrase|password|passwd|pwd|secret|(?<!bos_)(?<!eos_)(?<!pad_)(?<!unk_)(?<!sep_)(?<!cls_)(?<!mask_)token)"
)
_SECRET_NAME = re.compile(rf"(?i)(?:.*[_-])?(?:[a-z]*apikey|{_SECRET_WORDS})")
# name=value, name value, "name": "value"; a quoted value ends at its quote, another one at a comma or blank.
_SECRET_IN_TEXT = re.compile(
    rf"(?i)(?<![\w-])((?:[\w-]*[_-])?(?:[a-z]*apikey|{_SECRET_WORDS})[\"']?(?:\s*[=:]\s*|\s+))"
    r"(\"[^\"]*\"|'[^']*'|(?:bearer\s+)?[^,\s\"'}\]]+)"
)
_LOGIN_IN_URL = re.compile(r"(?<=://)[^/\s@,]+(?=@)")
HIDDEN = "***"


def redacted(value: Any, name: str = "") -> Any:
    """The same data with secret values hidden, by their names; logins in addresses too."""
    if _SECRET_NAME.fullmatch(name) and value is not None and not isinstance(value, bool):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    return _LOGIN_IN_URL.sub(HIDDEN, value) if isinstance(value, str) else value


def redacted_command(arguments: Sequence[str], spec: RunSpec) -> str:
    """A command line with secret values hidden: those of the specification, and what looks like one."""
    text = " ".join(arguments)
    for secret in sorted(_secrets(spec.to_json()), key=len, reverse=True):
        if len(secret) > 3:  # a shorter one is part of too many words; it is found by its name below
            text = text.replace(secret, HIDDEN)
    text = _SECRET_IN_TEXT.sub(lambda match: match.group(1) + HIDDEN, text)
    return _LOGIN_IN_URL.sub(HIDDEN, text)


def _secrets(value: Any, name: str = "") -> set[str]:
    """The values that `redacted` hides because of their names."""
    if isinstance(value, Mapping):
        return {secret for key, item in value.items() for secret in _secrets(item, name or _secret_name(key))}
    if isinstance(value, (list, tuple)):
        return {secret for item in value for secret in _secrets(item, name)}
    return {str(value)} if name and str(value) and value is not None and not isinstance(value, bool) else set()


def _secret_name(key: Any) -> str:
    return str(key) if _SECRET_NAME.fullmatch(str(key)) else ""


def make_manifest(spec: RunSpec, fingerprint: Fingerprint, posed: Sequence[PosedTask]) -> dict[str, Any]:
    """The manifest of a run."""
    return {
        "date": time.time(),
        "assay_version": __version__,
        "assay_git": _git(Path(__file__).parent),
        "working_folder_git": _git(Path.cwd()),
        "working_folder": str(Path.cwd()),
        "command": redacted_command(sys.argv, spec),
        "spec": redacted(spec.to_json()),
        "model": redacted(fingerprint.to_json()),
        "tasks": described_tasks(posed, spec),
        "seeds": spec.to_json()["seeds"],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "packages": _packages(),
    }


def described_tasks(posed: Sequence[PosedTask], spec: RunSpec) -> dict[str, Any]:
    """The manifest's word on every task: definition, scoring, and digests of what was asked."""
    return {item.task.card.name: _task(item, spec) for item in posed}


def _task(posed: PosedTask, spec: RunSpec) -> dict[str, Any]:
    card = posed.task.card
    is_drawn = spec.sparing.sample is not None or spec.sparing.may_stop
    return {
        **({"sample": [document.id for document in posed.documents]} if is_drawn else {}),
        "version": card.version,
        "source": card.source,
        "num_fewshot": card.num_fewshot,
        "documents": len(posed.documents),
        "documents_available": posed.available,
        "documents_fingerprint": posed.fingerprint,
        "prompts_fingerprint": posed.keys.prompts,
        "targets_fingerprint": digest_all(map(right_answer, posed.instances)),
        "config": redacted(card.config),
        "scoring": described_scoring(posed.task.scoring),
    }


def right_answer(instance: Instance) -> Any:
    """What scorers hold an answer against; what the task states where they read that."""
    return instance.target if instance.gold is None else instance.gold


def described_scoring(scoring: Scoring) -> dict[str, Any]:
    """How answers become numbers, as JSON data; code by its name."""
    return {
        "metrics": {spec.name: _plain({**spec.options, **_named(spec)}) for spec in scoring.metrics},
        "filters": {
            pipeline.name: [_plain({"function": step.name, **step.options}) for step in pipeline.steps]
            for pipeline in scoring.pipelines
        },
        "process": None if scoring.process is None else _plain(scoring.process),
    }


def _named(spec: MetricSpec) -> dict[str, Any]:
    return {} if spec.aggregation is None else {"aggregation": spec.aggregation}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return getattr(value, "__qualname__", type(value).__name__) if callable(value) else value


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
    """Installed packages, from the names of their folders; reading every METADATA file would take a while."""
    found: dict[str, str] = {}
    for folder in sys.path:
        for path in Path(folder or ".").glob("*.dist-info"):
            name, _, version = path.name.removesuffix(".dist-info").partition("-")
            found.setdefault(name, version)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))
