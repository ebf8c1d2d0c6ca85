"""The reference side's scores: lm-eval's `simple_evaluate` with a scripted or a real model.

Its generated texts are kept in the record under `answers`, by prompt, so that the other side answers alike. A record
with an error has none.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import lm_eval.evaluator
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask

from parity import script
from parity.job import Case, Job
from parity.records import plain
from parity.reference import failure, load_task, manager_of, same_randomness, seed_everything

# What a result file says about the tasks and groups of a run, their texts and settings left out.
GROUP_FIELDS = ("results", "groups", "group_subtasks", "versions", "n-shot", "higher_is_better", "n-samples")


class ScriptedLM(LM):
    """Answers from `parity.script`; knows the right answers of the tasks it is asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: dict[str, Any] = {}
        self.answers: dict[str, str] = {}

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        return [script.loglikelihood(*request.args[:2]) for request in requests]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        return [script.rolling_loglikelihood(request.args[0]) for request in requests]

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        texts, asked = [], Counter[int]()
        for request in requests:
            context, settings = request.args[:2]
            # Repeats of one request come as the same object. Greedy ones are all the same answer.
            draw = asked[id(request)] if script.is_sampled(settings) else 0
            asked[id(request)] += 1
            until = settings.get("until") or []
            stops = [until] if isinstance(until, str) else until
            key = script.prompt_key(context, draw)
            # Two documents may have one prompt and two right answers; a model says the same to both.
            if key not in self.answers:
                self.answers[key] = script.generation(context, stops, draw, self._right(request))
            texts.append(self.answers[key])
        return texts

    def _right(self, request: Any) -> list[str]:
        doc = request.doc
        with same_randomness():
            try:
                task = self.tasks[request.task_name]
                target = task.doc_to_target(doc)
                choices = task.doc_to_choice(doc) if task.config.doc_to_choice else None
            except Exception:  # the right answer is a wish, not a need
                return []
        items = target if isinstance(target, (list, tuple)) else [target]
        if choices is not None:
            items = [choices[item] if isinstance(item, int) and item < len(choices) else item for item in items]
        # What a task's own code takes for right may be nowhere but in the document.
        named = [text for key, value in doc.items() if "answer" in key for text in texts_in(value)]
        return [*map(str, items), *(text for text in named if len(text) < 100)][:6]


def texts_in(value: Any) -> list[str]:
    """The texts of a document's field, however deep."""
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in texts_in(item)]
    return [value] if isinstance(value, str) and value else []


def real_model(folder: str) -> LM:
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=folder, dtype="float32", device="cpu", batch_size=1)


class Scores:
    """Records of mode `scores`."""

    def __init__(self, job: Job) -> None:
        # A minute per hundred tasks goes into describing the machine, which no score depends on.
        lm_eval.evaluator.add_env_info = lambda results: None
        self._job = job
        self._manager = manager_of(job)
        self._lm = real_model(job.model) if job.model else ScriptedLM()

    def records(self, name: str, cases: list[Case]) -> Iterator[dict[str, Any]]:
        for case in cases:
            started = time.monotonic()
            try:
                found = self._found(name, case)
            except Exception as error:  # whatever a task's code raises is a finding, not a fault of ours
                found = failure(error, started)
            yield {"task": name, "case": case.name, "seconds": time.monotonic() - started, **found}

    def _found(self, name: str, case: Case) -> dict[str, Any]:
        task = load_task(self._manager, name)
        own = task.config.generation_kwargs
        # A class writes its settings itself.
        if self._job.model and own and type(task) is ConfigurableTask:
            task.set_config(key="generation_kwargs", value=script.for_weights(own, self._job.max_tokens), update=True)
        if isinstance(self._lm, ScriptedLM):
            self._lm.tasks, self._lm.answers = {task.config.task: task}, {}
        results = self._evaluated(task, case)
        return {
            "shots": results["n-shot"].get(name),
            "version": results["versions"].get(name),
            "higher_is_better": results["higher_is_better"].get(name),
            "results": {key: value for key, value in results["results"][name].items() if key != "name"},
            "samples": [as_sample(sample) for sample in results["samples"][name]],
            "answers": getattr(self._lm, "answers", {}),
        }

    def _evaluated(self, what: Any, case: Case) -> dict[str, Any]:
        with same_randomness():
            results = lm_eval.evaluator.simple_evaluate(
                model=self._lm,
                tasks=[what],
                num_fewshot=case.shots,
                limit=self._job.documents,
                bootstrap_iters=self._job.bootstrap_iters,
                task_manager=self._manager,
                random_seed=None,
                numpy_random_seed=None,
                torch_random_seed=None,
                confirm_run_unsafe_code=True,
            )
        assert results is not None, "one process is rank 0"
        return dict(results)


class Groups(Scores):
    """Records of mode `groups`: what a result file says about a group and all that is below it."""

    def _found(self, name: str, case: Case) -> dict[str, Any]:
        seed_everything()
        loaded = self._manager.load([name])
        if isinstance(self._lm, ScriptedLM):
            self._lm.tasks, self._lm.answers = dict(loaded["tasks"]), {}
        results = self._evaluated(loaded["groups"][name], case)
        return {**{field: results.get(field) for field in GROUP_FIELDS}, "answers": getattr(self._lm, "answers", {})}


def as_sample(sample: dict[str, Any]) -> dict[str, Any]:
    """One document after one pipeline."""
    return {
        "id": sample["doc_id"],
        "filter": sample["filter"],
        "target": str(sample["target"]),
        "responses": plain(sample["resps"]),
        "filtered": plain(sample["filtered_resps"]),
        "values": {metric: plain(sample[metric]) for metric in sample["metrics"]},
    }
