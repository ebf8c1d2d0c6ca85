"""Assay's side: the requests that Assay builds, through the functions that `assay run` and `assay show` use.

    python -m parity.ours JOB.json OUT.jsonl REFERENCE.jsonl

In: a job. Out: one record per task and case, in the form that parity.reference writes.

Assay runs with its defaults. Only a document that lm-eval shows among its own examples is built with
`--like lm-eval`, which repeats that; how many they are is in the record.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from assay.core.protocols import ExposesTokens, Task
from assay.core.requests import Demonstrated, Generation, Loglikelihood, Request
from assay.core.specs import LM_EVAL, ModelSettings, RunSpec
from assay.models.model_registry import open_model
from assay.options.specification import make_spec
from assay.report.lm_eval_results import plain as plain_document
from assay.run.build import selected_documents
from assay.run.resolve import resolve_tasks
from assay.tasks.catalog import open_catalog
from assay.tasks.fewshot_overlap import REPLACED
from parity import conversation
from parity.compare import OF_CLASS
from parity.job import Case, Job, read_job
from parity.records import RecordWriter, pack, plain

# lm-eval's model default, and the default of Assay's models.
DEFAULT_MAX_TOKENS = 256


def settings_of(job: Job, case: Case) -> dict[str, Any]:
    """Settings for `make_spec` and `evaluate`."""
    found: dict[str, Any] = {
        "num_fewshot": case.shots,
        "limit": job.documents,
        "include_path": job.folders,
        "data": job.data,
        "bootstrap_iters": job.bootstrap_iters,
        "system_instruction": case.system,
        "allow_code": True,
        "confirm_run_unsafe_code": True,
    }
    if case.chat:
        found |= {"apply_chat_template": True, "fewshot_as_multiturn": case.multiturn}
    return found


class Renderer:
    """Prompts as the model's text; a conversation goes through the job's model, or a plain template without one."""

    def __init__(self, folder: str | None) -> None:
        model = open_model("hf", {"pretrained": folder}, ModelSettings(device="cpu")) if folder else None
        self._model = model if isinstance(model, ExposesTokens) else None
        self._last: tuple[Any, str] = ("", "")

    def text(self, request: Loglikelihood | Generation) -> str:
        if isinstance(request.prompt, str):
            return request.prompt
        if self._model is None:
            assert not isinstance(request.prompt, Demonstrated)  # only a model cuts examples
            messages = [{"role": message.role, "content": message.text} for message in request.prompt]
            return conversation.render(messages, messages[-1]["role"] != "assistant")
        if self._last[0] != request.prompt:
            self._last = (request.prompt, self._model.view(request).prompt_text or "")
        return self._last[1]


def as_request(request: Request, task: Task, renderer: Renderer) -> list[Any]:
    """A request as parity.reference writes it."""
    if isinstance(request, Generation):
        config = task.card.config
        given = OF_CLASS if "class" in config else plain(config.get("generation_kwargs") or {})
        return ["generate_until", renderer.text(request), "", given, effective_settings(request)]
    if isinstance(request, Loglikelihood):
        return ["loglikelihood", renderer.text(request), request.continuation, {}, {}]
    return ["loglikelihood_rolling", request.text, "", {}, {}]


def effective_settings(request: Generation) -> dict[str, Any]:
    """A request's own settings in lm-eval's names."""
    sampling = request.sampling
    return {
        **{name: plain(value) for name, value in sampling.options},
        "until": list(request.stop),
        "max_gen_toks": DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens,
        "temperature": sampling.temperature,
        "do_sample": not sampling.is_greedy,
    }


def like_lm_eval(spec: RunSpec) -> RunSpec:
    """The same run with lm-eval's defects."""
    return replace(spec, options=replace(spec.options, like=LM_EVAL))


def documents_of(task: Task, like: Callable[[], Task], spec: RunSpec, renderer: Renderer) -> list[dict[str, Any]]:
    """The built documents.

    Args:
        task: the task with default options.
        like: returns the same with lm-eval's defects, for documents that are fixed by default.
        spec: the run.
        renderer: writes prompts as text.
    """
    found: list[dict[str, Any]] = []
    before: list[Any] = []
    for document in selected_documents(task, spec):
        instance = task.build(document)
        is_mended = REPLACED in instance.notes
        if is_mended:
            instance = like().build(document)
        text = json.dumps(dict(document.fields), indent=2, ensure_ascii=False, default=plain_document)
        questions = instance.requests[:: instance.draws]
        requests = pack([as_request(request, task, renderer) for request in questions], before)
        row = {"id": document.id, "document": text, "target": str(instance.target)}
        found.append({**row, "repeats": instance.draws, "requests": requests, "is_mended": is_mended})
    return found


class Requests:
    """Records of mode `requests`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._catalog = open_catalog(job.folders)
        self._renderer = Renderer(job.model)

    def record(self, name: str, case: Case) -> dict[str, Any]:
        name = self._job.our_name(name)
        spec = make_spec("none", [name], **settings_of(self._job, case))
        task = self._task(name, spec)
        # Made only if needed: task code may keep state of earlier calls.
        like = cache(lambda: self._task(name, like_lm_eval(spec)))
        documents = documents_of(task, like, spec, self._renderer)
        mended = sum(document.pop("is_mended") for document in documents)
        return {"shots": task.card.num_fewshot, "mended": mended, "documents": documents}

    def _task(self, name: str, spec: RunSpec) -> Task:
        tasks = resolve_tasks(spec, [name], self._catalog).tasks
        if len(tasks) != 1:
            raise ValueError(f"{name} matches {len(tasks)} tasks; name them one by one")
        return tasks[0]


def run(job: Job, writer: RecordWriter, maker: Any) -> Iterator[str]:
    """Writes every missing record of a job; yields the names of the tasks as they begin."""
    for name in job.tasks:
        cases = [case for case in job.cases if (name, case.name) not in writer.done]
        if cases:
            yield name
        for case in cases:
            started = time.monotonic()
            try:
                found = maker.record(name, case)
            except Exception as error:  # any failure of a task is a finding; the others go on
                found = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
            writer.write({"task": name, "case": case.name, "seconds": time.monotonic() - started, **found})
        gc.collect()


def main() -> None:
    job_path, out, reference = sys.argv[1:]
    job = read_job(job_path)
    if job.mode == "scores":
        from parity.ours_scores import Scores

        maker: Any = Scores(job, Path(reference))
    else:
        maker = Requests(job)
    writer = RecordWriter(Path(out), job.settings())
    for number, name in enumerate(run(job, writer, maker), 1):
        print(f"{number} {name}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
