"""Golden files: results of lm-eval for the task files in tests/parity/dialect, small enough to keep with the code.

`record` runs lm-eval and writes them; the ordinary tests read them and need neither lm-eval nor a network. The data is
our own, so texts may be in there; long ones are hashed after the first documents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parity.job import Case, Job

TESTS = Path(__file__).resolve().parent.parent / "tests" / "parity"
DIALECT, GOLDEN = TESTS / "dialect", TESTS / "golden"
COMMAND = "python -m parity record"
SYSTEM = "You answer in one word."
# Documents whose prompts stay readable, and the longest text of a later one that is stored unchanged.
READABLE, LONGEST = 2, 60
BOOTSTRAP_ITERS = 200
REQUEST_CASES = (
    Case(0),
    Case(3),
    Case(0, chat=True),
    Case(3, chat=True, system=SYSTEM),
    Case(3, chat=True, multiturn=False, system=SYSTEM),
    Case(3, chat=True, multiturn=False),
)
OWN = (Case(),)


def jobs() -> dict[str, Job]:
    """Jobs of both sides: golden file → job."""
    tasks, groups = names_in(DIALECT, "task"), names_in(DIALECT, "group")
    folder = (str(DIALECT),)
    return {
        "requests": Job("requests", tasks, REQUEST_CASES, 1000, None, folder, bootstrap_iters=0),
        "scores": Job("scores", tasks, OWN, 1000, None, folder, bootstrap_iters=BOOTSTRAP_ITERS),
        "groups": Job("groups", groups, OWN, 1000, None, folder, bootstrap_iters=BOOTSTRAP_ITERS),
    }


def names_in(folder: Path, key: str) -> tuple[str, ...]:
    """The names that the folder's files define. Each file gives its own at the start of a line."""
    found = []
    for path in sorted(folder.glob("*.yaml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        is_group = any(line.startswith("group:") for line in lines)
        if is_group == (key == "group"):
            found += [line.partition(":")[2].strip() for line in lines if line.startswith(f"{key}:")]
    return tuple(found)


def digest_of(folder: Path) -> str:
    """A hash of every file's name and content."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return total.hexdigest()


def shortened(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record in the form of a golden file; both sides are shortened in the same way before they are compared."""
    kept = {key: value for key, value in record.items() if key not in ("seconds", "traceback", "failures")}
    if "documents" in kept:
        kept["documents"] = [_short_document(row) for row in kept["documents"]]
        if kept["case"] != REQUEST_CASES[0].name:  # the rows are the same in every case
            kept["documents"] = [{**row, "document": ""} for row in kept["documents"]]
    if "samples" in kept:
        kept["samples"] = [_short_sample(sample) for sample in kept["samples"]]
    return kept


def _short_document(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["id"] < READABLE:
        return dict(row)
    requests = [[_short_text(field) for field in request] for request in row["requests"]]
    return {**row, "document": _short_text(row["document"]), "requests": requests}


def _short_text(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= LONGEST:
        return value
    return f"{len(value)} characters, sha256 {hashlib.sha256(value.encode()).hexdigest()[:16]}"


def _short_sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Answers are left out if they are numbers, which the script reproduces."""
    has_text = any(isinstance(value, str) for value in _flat(sample["filtered"]))
    return {**sample, "responses": [], "filtered": sample["filtered"] if has_text else []}


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def golden_path(kind: str) -> Path:
    return GOLDEN / f"dialect_{kind}.json"


def write_golden(kind: str, job: Job, records: Iterable[Mapping[str, Any]], version: str) -> Path:
    """Writes a golden file, one record per line, so that a change shows as the tasks it touches."""
    settings = {
        "lm_eval_version": version,
        "dialect_sha256": digest_of(DIALECT),
        "cases": [asdict(case) for case in job.cases],
        "bootstrap_iters": job.bootstrap_iters,
    }
    lines = [json.dumps(shortened(record), ensure_ascii=False, separators=(",", ":")) for record in records]
    head = json.dumps(settings, indent=1, ensure_ascii=False)
    path = golden_path(kind)
    path.write_text(f'{{"settings": {head},\n"records": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
    return path


def read_golden(kind: str) -> dict[str, Any]:
    """The content of a golden file."""
    data: dict[str, Any] = json.loads(golden_path(kind).read_text(encoding="utf-8"))
    return data
