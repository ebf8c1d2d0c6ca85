"""The workloads: lm-eval's own tasks on real data, built once by Assay and written as plain requests for both workers.

In: a name of the table, lm-eval's task folder, a scratch folder. Out: a file with one request a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.requests import Generation, Loglikelihood, Request
from assay.options.specification import make_spec
from assay.run.build import selected_documents
from assay.run.resolve import resolve_tasks
from assay.tasks.catalog import open_catalog


@dataclass(frozen=True, slots=True)
class Workload:
    """Task and documents, and how much faster than lm-eval it must be.

    Attributes:
        name: what the user calls it.
        task: lm-eval's name of the task.
        documents: how many of the first documents; None for all.
        shots: examples per prompt; None keeps the task's own number.
        is_fixed: whether every prompt has the same, first, examples.
        at_least: the ratio that must be reached.
        aim: the ratio that is aimed at.
    """

    name: str
    task: str
    documents: int | None
    at_least: float
    aim: float
    shots: int | None = None
    is_fixed: bool = False


_TABLE = (
    Workload("hellaswag", "hellaswag", 100, 2.5, 3.5),
    Workload("piqa", "piqa", 200, 2.2, 3.0),
    Workload("lambada", "lambada_openai", 200, 1.3, 1.6),
    Workload("wikitext", "wikitext", 4, 1.05, 1.3),
    Workload("arc_random", "arc_challenge", 20, 4.5, 6.0, shots=25),
    Workload("arc_fixed", "arc_challenge", 100, 40.0, 90.0, shots=25, is_fixed=True),
    Workload("mmlu_biology", "mmlu_high_school_biology", None, 6.0, 9.0, shots=5),
    Workload("mmlu_us_history", "mmlu_high_school_us_history", None, 10.0, 15.0, shots=5),
    Workload("gsm8k", "gsm8k", 30, 3.0, 6.0, shots=5, is_fixed=True),
)
WORKLOADS = {workload.name: workload for workload in _TABLE}


@dataclass(frozen=True, slots=True)
class BuiltWorkload:
    """A workload on disk.

    Attributes:
        file: one request a line.
        documents: number of documents.
        requests: how many requests.
        kind: their kind.
        is_full: whether it has the number of documents that the bar is set for.
    """

    workload: Workload
    file: Path
    documents: int
    requests: int
    kind: str
    is_full: bool


def build(workload: Workload, tasks_folder: str, scratch: Path, documents: int | None) -> BuiltWorkload:
    """Poses a workload as `assay run` would and writes its requests.

    Args:
        documents: how many, in place of the workload's own number.
    """
    name = _fixed(workload, tasks_folder, scratch) if workload.is_fixed else workload.task
    folders = [tasks_folder, str(scratch)]
    wanted = documents if documents is not None else workload.documents
    spec = make_spec("none", [name], num_fewshot=workload.shots, limit=wanted, include_path=folders, allow_code=True)
    (task,) = resolve_tasks(spec, [name], open_catalog(folders)).tasks
    everything = task.documents()
    chosen = selected_documents(task, spec)
    rows = [row for document in chosen for row in _rows(task.build(document).requests, document.id)]
    file = scratch / f"{workload.name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    is_full = len(chosen) >= (workload.documents or len(everything))
    return BuiltWorkload(workload, file, len(chosen), len(rows), rows[0]["kind"], is_full)


def _fixed(workload: Workload, tasks_folder: str, scratch: Path) -> str:
    """The name of a task like the workload's, with the first examples for every document."""
    (original,) = Path(tasks_folder).glob(f"*/{workload.task}.yaml")
    name = f"bench_{workload.name}"
    text = f"include: {original}\ntask: {name}\nfewshot_config:\n  sampler: first_n\n"
    (scratch / f"{name}.yaml").write_text(text, encoding="utf-8")
    return name


def _rows(requests: tuple[Request, ...], document: int) -> Iterator[dict[str, Any]]:
    for request in requests:
        row = {"document": document, "kind": request.kind}
        if isinstance(request, Loglikelihood):
            yield {**row, "context": request.prompt, "continuation": request.continuation}
        elif isinstance(request, Generation):
            if not request.sampling.is_greedy or request.sampling.options:
                raise ValueError("the bench compares greedy texts only")
            yield {**row, "prompt": request.prompt, "stop": list(request.stop), "max_tokens": request.max_tokens}
        else:
            yield {**row, "text": request.text}
