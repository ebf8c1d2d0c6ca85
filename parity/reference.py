"""The reference side: what lm-eval 0.4.13 asks. Runs in lm-eval's Python, with nothing of Assay in it.

    python -m parity.reference JOB.json OUT.jsonl

In: a job. Out: one record per task and case, written when it is done; those already in the file are skipped.
"""

from __future__ import annotations

import gc
import json
import logging
import random
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from lm_eval.models.utils import normalize_gen_kwargs
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable, set_torch_seed

from parity import conversation
from parity.job import Case, Job, read_job
from parity.records import RecordWriter, pack, plain

SEED, OTHER_SEED = 0, 1234


def seed_everything() -> None:
    """lm-eval's seeds at the start of a run, so that no task depends on those before it."""
    random.seed(SEED)
    np.random.seed(OTHER_SEED)
    set_torch_seed(OTHER_SEED)


@contextmanager
def same_randomness() -> Iterator[None]:
    """Leaves the global generators as it found them."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def manager_of(job: Job) -> TaskManager:
    return TaskManager(include_path=list(job.include_path) or None, include_defaults=job.tasks_folder is not None)


def load_task(manager: TaskManager, name: str) -> Any:
    seed_everything()
    loaded = manager.load([name])["tasks"]
    if len(loaded) != 1:
        raise ValueError(f"{name} stands for {len(loaded)} tasks; name them one by one")
    return next(iter(loaded.values()))


def chat_renderer(folder: str) -> Callable[..., str]:
    """Renders conversations as lm-eval's transformers backend does, without loading weights."""
    from jinja2.exceptions import TemplateError
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def apply(messages: list[dict[str, str]], is_open: bool) -> str:
        return str(
            tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=is_open, continue_final_message=not is_open
            )
        )

    def render(messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        try:
            return apply(messages, add_generation_prompt)
        except TemplateError:
            rest = [message for message in messages if message["role"] != "system"]
            return apply(rest, add_generation_prompt)

    return render


def build(task: Any, own_shots: int | None, case: Case, job: Job, render: Callable[..., str]) -> None:
    """Builds the requests of a loaded task as `simple_evaluate` would for this case."""
    if case.shots is not None and own_shots != 0:
        task.set_config(key="num_fewshot", value=case.shots)
    elif own_shots is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=OTHER_SEED)
    task.build_all_requests(
        limit=job.documents,
        rank=0,
        world_size=1,
        system_instruction=case.system,
        apply_chat_template=case.chat,
        fewshot_as_multiturn=case.multiturn,
        chat_template=render if case.chat else None,
        tokenizer_name="parity" if case.chat else "",
    )


def as_request(instance: Any) -> list[Any]:
    """[kind, context, continuation, generation settings as given, and as the backend would mean them]."""
    context, *rest = instance.args
    if instance.request_type == "generate_until":
        given = plain(rest[0])
        return [instance.request_type, context, "", given, plain(dict(normalize_gen_kwargs(rest[0])))]
    return [instance.request_type, context, rest[0] if rest else "", {}, {}]


def documents_of(task: Any) -> list[dict[str, Any]]:
    """The built requests, document by document."""
    by_document = defaultdict(list)
    for instance in task.instances:
        by_document[instance.doc_id].append(instance)
    found: list[dict[str, Any]] = []
    before: list[Any] = []
    for place, instances in by_document.items():
        instances.sort(key=lambda instance: instance.idx)
        doc = instances[0].doc
        text = json.dumps(doc, indent=2, default=handle_non_serializable, ensure_ascii=False)
        row = {"id": place, "document": text, "target": str(task.doc_to_target(doc))}
        requests = pack([as_request(instance) for instance in instances], before)
        found.append({**row, "repeats": instances[0].repeats, "requests": requests})
    return found


class Requests:
    """Records of mode `requests`. A task is loaded once for all its cases."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._manager = manager_of(job)
        self._render = chat_renderer(job.model) if job.model else conversation.render

    def records(self, name: str, cases: list[Case]) -> Iterator[dict[str, Any]]:
        started = time.monotonic()
        try:
            task = load_task(self._manager, name)
            own_shots = task.get_config("num_fewshot")
        except Exception as error:  # whatever a task's code raises is a finding, not a fault of ours
            for case in cases:
                yield {"task": name, "case": case.name, **failure(error, started)}
            return
        loading = time.monotonic() - started
        for case in cases:
            started = time.monotonic() - loading
            loading = 0.0
            try:
                with same_randomness():
                    build(task, own_shots, case, self._job, self._render)
                    found = {"shots": task.config.num_fewshot, "documents": documents_of(task)}
            except Exception as error:
                found = failure(error, started)
            yield {"task": name, "case": case.name, "seconds": time.monotonic() - started, **found}


def failure(error: Exception, started: float) -> dict[str, Any]:
    message = f"{type(error).__name__}: {error}"
    return {"seconds": time.monotonic() - started, "error": message, "traceback": traceback.format_exc()}


def run(job: Job, writer: RecordWriter, maker: Any) -> None:
    """Every record of a job that is not there yet, task by task."""
    for number, name in enumerate(job.tasks, 1):
        cases = [case for case in job.cases if (name, case.name) not in writer.done]
        if not cases:
            continue
        print(f"{number}/{len(job.tasks)} {name}", file=sys.stderr, flush=True)
        for record in maker.records(name, cases):
            writer.write(record)
        gc.collect()


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    job_path, out = sys.argv[1:]
    job = read_job(job_path)
    writer = RecordWriter(Path(out), job.settings())
    if job.mode in ("scores", "groups"):
        from parity.reference_scores import Groups, Scores

        run(job, writer, Scores(job) if job.mode == "scores" else Groups(job))
    else:
        run(job, writer, Requests(job))


if __name__ == "__main__":
    main()
