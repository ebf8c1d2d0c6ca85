"""Everything needed to repeat a run: versions, revisions, hashes, seeds, the command. Never a secret."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from assay.core.identity import Fingerprint, digest_all
from assay.core.requests import Instance
from assay.core.secrets import redacted, redacted_command
from assay.core.specs import FilterSpec, MetricSpec, RunSpec, Scoring
from assay.core.version import __version__
from assay.run.build import BuiltTask
from assay.scoring.registry import FILTERS, METRICS

_RECORDED_FACTS = ("primary", "chance", "majority", "rows", "references")


def make_manifest(spec: RunSpec, fingerprint: Fingerprint, built: Sequence[BuiltTask]) -> dict[str, Any]:
    """The manifest of a run."""
    return {
        "date": time.time(),
        "assay_version": __version__,
        "assay_git": _git(Path(__file__).parent),
        "working_folder_git": _git(Path.cwd()),
        "working_folder": str(Path.cwd()),
        "command": redacted_command(sys.argv),
        "spec": redacted(spec.to_json()),
        "model": fingerprint.to_json(),
        "tasks": described_tasks(built, spec),
        "seeds": spec.to_json()["seeds"],
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "packages": _packages(),
    }


def described_tasks(built: Sequence[BuiltTask], spec: RunSpec) -> dict[str, Any]:
    """The manifest entry of every task: definition, scoring, and digests of documents and requests."""
    return {item.task.card.name: _task(item, spec) for item in built}


def _task(built: BuiltTask, spec: RunSpec) -> dict[str, Any]:
    card = built.task.card
    is_drawn = spec.sparing.sample is not None or spec.sparing.may_stop_early
    return {
        **({"sample": [document.id for document in built.documents]} if is_drawn else {}),
        "version": card.version,
        "source": card.source,
        "num_fewshot": card.num_fewshot,
        "documents": len(built.documents),
        "documents_available": built.available,
        "documents_fingerprint": built.fingerprint,
        "prompts_fingerprint": built.keys.prompts,
        "targets_fingerprint": digest_all(map(right_answer, built.instances)),
        "config": redacted(card.config),
        **_recorded_facts(card.facts),
        "scoring": redacted(described_scoring(built.task.scoring)),
    }


def _recorded_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a task's card that reports of the run need, as it was then; empty for a task without a card."""
    kept = {key: facts[key] for key in _RECORDED_FACTS if key in facts}
    return {"card": redacted(kept)} if kept else {}


def right_answer(instance: Instance) -> Any:
    """The reference that scorers compare an answer with: the gold index, or the target as the task states it."""
    return instance.target if instance.gold is None else instance.gold


def described_scoring(scoring: Scoring) -> dict[str, Any]:
    """The scoring of a task as JSON data; code by its name."""
    return {
        "metrics": {spec.name: _plain({**spec.options, **_named(spec)}) for spec in scoring.metrics},
        "filters": {
            pipeline.name: [_plain({"function": step.name, **step.options, **_code(step)}) for step in pipeline.steps]
            for pipeline in scoring.pipelines
        },
        "process": None if scoring.process is None else _plain(scoring.process),
    }


def _named(spec: MetricSpec) -> dict[str, Any]:
    return {**({} if spec.aggregation is None else {"aggregation": spec.aggregation}), **_code(spec)}


def _code(spec: MetricSpec | FilterSpec) -> dict[str, str]:
    """The hash of a metric's or filter's code, if a decorator made it: the name alone does not identify it."""
    is_metric = isinstance(spec, MetricSpec)
    own = (spec.function or spec.is_external) if isinstance(spec, MetricSpec) else spec.factory
    registry = METRICS if is_metric else FILTERS
    code = getattr(registry.get(spec.name), "code", None) if not own and spec.name in registry else None
    return {} if code is None else {"code": code}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return getattr(value, "__qualname__", type(value).__name__) if callable(value) else value


def _git(folder: Path) -> dict[str, Any] | None:
    """Revision of the checkout that contains a folder, and whether it has uncommitted changes."""
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
        with suppress(OSError):  # a folder that this user may not read
            for path in Path(folder or ".").glob("*.dist-info"):
                name, _, version = path.name.removesuffix(".dist-info").partition("-")
                found.setdefault(name, version)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))
