"""Our side's scores: `assay.evaluate` with the same scripted or real model.

A scripted model's log-likelihoods are computed in the same way; its texts are those of the reference side for the same
prompts. A prompt that the reference never had is a failed request, which the comparison shows. Where the
reference failed, texts are generated here, to show whether Assay completes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import assay
from assay.core.errors import DataError
from assay.core.protocols import Model
from assay.core.requests import Generation, Loglikelihood, Request
from assay.core.responses import Failure, Logprob, Output, Text
from assay.core.results import AnsweredDocument, TaskResult
from assay.core.specs import LM_EVAL, ModelSettings
from assay.models.model_registry import open_model
from assay.options.specification import make_spec
from assay.report.lm_eval_results import results_data
from assay.run.build import build_task, check_golds
from assay.run.resolve import resolve_tasks
from assay.tasks.catalog import open_catalog
from assay.tasks.fewshot_overlap import REPLACED
from assay.testing import ScriptedModel
from parity import script
from parity.job import Case, Job
from parity.ours import settings_of
from parity.records import Following, plain


def scripted_model(answers: dict[str, str] | None) -> Model:
    """The model of parity.script, with the reference side's texts by prompt, or its own when there are none."""

    def answer(request: Request) -> Output | Failure:
        if isinstance(request, Loglikelihood):
            total, is_greedy = script.loglikelihood(_text(request.prompt), request.continuation)
            return Logprob(total, 1, is_greedy)
        if isinstance(request, Generation):
            prompt = _text(request.prompt)
            if answers is None:
                return Text(script.generation(prompt, request.stop, request.draw, ()))
            text = answers.get(script.prompt_key(prompt, request.draw))
            return Text(text) if text is not None else Failure("error", "the reference did not have this prompt")
        return Logprob(script.rolling_loglikelihood(request.text), 1, is_greedy=False)

    return ScriptedModel(answer)


def _text(prompt: Any) -> str:
    if not isinstance(prompt, str):
        raise TypeError("the scripted model reads text, not conversations")
    return prompt


class Scores:
    """Records of mode `scores`."""

    def __init__(self, job: Job, reference: Path) -> None:
        self._job = job
        self._following = Following(reference, reference.with_suffix(".finished"))
        arguments = {"pretrained": job.model, "dtype": "float32", "arithmetic": "lm_eval"}
        self._model = open_model("hf", arguments, ModelSettings("1", "cpu")) if job.model else None

    def record(self, name: str, case: Case) -> dict[str, Any]:
        own = self._job.our_name(name)
        if self._model is None:
            model = scripted_model(self._following.wait_for((name, case.name), "answers"))
            return scores_of(own, case, self._job, model)
        name = own
        changes = self._changes(name, case)
        more = {"gen_kwargs": changes} if changes else {}
        return scores_of(name, case, self._job, self._model, **more)

    def _changes(self, name: str, case: Case) -> dict[str, Any]:
        """Changes of the task's generation settings."""
        spec = make_spec("none", [name], **settings_of(self._job, case))
        (task,) = resolve_tasks(spec, [name], open_catalog(self._job.folders)).tasks
        own = task.card.config.get("generation_kwargs")
        return script.for_weights(own, self._job.max_tokens) if own else {}


def scores_of(name: str, case: Case, job: Job, model: Model, **more: Any) -> dict[str, Any]:
    """Scores of a model in one task."""
    result = assay.evaluate(model, name, store=":memory:", **parity_settings(name, case, job), **more)
    data = results_data(result, {})
    return {
        "shots": data["n-shot"][name],
        "version": data["versions"][name],
        "higher_is_better": data["higher_is_better"][name],
        "results": {key: value for key, value in data["results"][name].items() if key != "name"},
        "samples": samples_of(result.task(name)),
        "failures": {kind: list(found) for kind, found in result.failures.items()},
    }


def parity_settings(name: str, case: Case, job: Job) -> dict[str, Any]:
    """Settings for `evaluate`: like lm-eval if Assay fixes a defect of lm-eval by default, else the default."""
    settings = settings_of(job, case)
    return {**settings, "like": LM_EVAL} if is_fixed_by_default(name, settings) else settings


def is_fixed_by_default(name: str, settings: dict[str, Any]) -> bool:
    """Whether Assay fixes a defect of lm-eval in a task or group by default.

    These are documents among their own examples, and tasks in which no document has a right answer.
    """
    spec = make_spec("none", [name], **settings)
    tasks = resolve_tasks(spec, [name], open_catalog(spec.include_path)).tasks
    built = [build_task(task, spec, "parity") for task in tasks]
    try:
        check_golds(built, spec)
    except DataError:
        return True
    return any(REPLACED in instance.notes for item in built for instance in item.instances)


def group_of(name: str, case: Case, job: Job, model: Model) -> dict[str, Any]:
    """Values of a group and everything below it in a result file."""
    return results_data(assay.evaluate(model, name, store=":memory:", **parity_settings(name, case, job)), {})


def samples_of(task: TaskResult) -> list[dict[str, Any]]:
    """Documents after each pipeline, as parity.reference_scores writes them."""
    answered = {item.document.id: item for item in task.answered}
    is_rolling = task.card.kind == "loglikelihood_rolling"
    return [
        {
            "id": sample.document_id,
            "filter": sample.filter,
            "target": str(answered[sample.document_id].instance.target),
            "responses": responses_of(answered[sample.document_id], is_rolling),
            "filtered": [shown(value, is_rolling) for value in sample.filtered],
            "values": {name: shown(value, is_rolling) for name, value in sample.values.items()},
        }
        for sample in task.samples
    ]


def responses_of(item: AnsweredDocument, is_rolling: bool) -> list[list[Any]]:
    """One list per question, with an entry per draw."""
    draws = item.instance.draws
    outputs = [shown(output, is_rolling) for output in item.outputs]
    return [outputs[start : start + draws] for start in range(0, len(outputs), draws)]


def shown(value: Any, is_rolling: bool) -> Any:
    """A value as JSON data, with outputs in lm-eval's shapes."""
    if isinstance(value, Logprob):
        return value.total if is_rolling else [value.total, value.is_greedy]
    if isinstance(value, Text):
        return value.text
    if isinstance(value, (list, tuple)):
        return [shown(item, is_rolling) for item in value]
    return plain(value)
