"""Job of both workers: which tasks, how many documents, with which settings.

Made by the command line, written to a JSON file, read by both workers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# The reference worker's sources: if one changes, records of an earlier run are invalid.
_SOURCES = {
    "requests": ["records.py", "reference.py", "conversation.py"],
    "scores": ["records.py", "reference.py", "reference_scores.py", "script.py"],
    "groups": ["records.py", "reference.py", "reference_scores.py", "script.py"],
}


@dataclass(frozen=True, slots=True)
class Case:
    """One variant of a task's requests.

    Attributes:
        shots: examples per prompt; None for the task's own number.
        chat: whether prompts go through the chat template.
        multiturn: whether examples are turns of the conversation, or text inside one turn.
        system: system instruction.
    """

    shots: int | None = None
    chat: bool = False
    multiturn: bool = True
    system: str | None = None

    @property
    def name(self) -> str:
        words = ["own shots" if self.shots is None else f"{self.shots} shots"]
        if self.chat:
            words += ["chat", "multiturn" if self.multiturn else "one turn"]
        return ", ".join([*words, "system"] if self.system else words)


@dataclass(frozen=True, slots=True)
class Job:
    """A whole comparison.

    Attributes:
        mode: `requests` (the requests), `scores` (the scores of the answers) or `groups` (the scores of groups).
        tasks: names of tasks.
        cases: the variants of each task.
        documents: how many documents of each task, from the first.
        tasks_folder: lm-eval's own task files; None for those of `include_path` alone.
        include_path: folders with more task files.
        model: folder of a model of transformers, whose tokenizer has the chat template; for scores the model
            that answers. None for the scripted model and a plain template.
        bootstrap_iters: resamples for standard errors.
        max_tokens: maximum number of tokens that a model with weights generates; None for the task's own.
        ours: name of a task in lm-eval → name of the task of Assay's library that is compared with it; empty to read
            lm-eval's own files on both sides.
        data: folder of datasets that Assay reads before the hub.
    """

    mode: str
    tasks: tuple[str, ...]
    cases: tuple[Case, ...]
    documents: int
    tasks_folder: str | None
    include_path: tuple[str, ...] = ()
    model: str | None = None
    bootstrap_iters: int = 1000
    max_tokens: int | None = None
    ours: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None

    @property
    def folders(self) -> list[str]:
        """All folders with task files that Assay reads besides its library."""
        return [*([] if self.ours else filter(None, [self.tasks_folder])), *self.include_path]

    def our_name(self, name: str) -> str:
        """Assay's name of a task."""
        return self.ours.get(name, name)

    def settings(self) -> str:
        """Digest of everything that determines the reference worker's records of a task, without the tasks' names."""
        here = Path(__file__).parent
        data: dict[str, Any] = {**asdict(self), "tasks": None, "cases": None, "ours": None, "data": None}
        data["sources"] = [(here / name).read_text(encoding="utf-8") for name in _SOURCES[self.mode]]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")


def read_job(path: str | Path) -> Job:
    data: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    data["cases"] = tuple(Case(**case) for case in data["cases"])
    return Job(**data | {key: tuple(data[key]) for key in ("tasks", "include_path")})
