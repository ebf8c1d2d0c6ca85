"""A run in the format of lm-eval's result and sample files, plus our own block.

Keys, their order and the strings in sample logs follow lm-eval 0.4.13, so that scripts that read its files
read ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from assay.core.protocols import ModelFacts, ProvidesModelFacts
from assay.core.requests import Generation, Loglikelihood, Message, Prompt, Request, untruncated_prompt
from assay.core.responses import Failure, LabelScores, Logprob, Output, Text
from assay.core.results import AnsweredDocument, GroupResult, RunResult, TaskResult
from assay.core.scores import UNKNOWN_OFFSET, Denominators, MetricResult, Sample
from assay.core.secrets import redacted, redacted_text
from assay.report.lm_eval_config import chat_block, in_lm_evals_order, model_block, sha, task_config, tokenizer_block
from assay.report.safe_names import file_name, model_name


def plain(value: Any) -> Any:
    """JSON's last resort: numpy scalars and arrays, sets, tuples; everything else as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)


def results_data(
    result: RunResult, task_hashes: Mapping[str, str], audit: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The content of a result file.

    Args:
        result: the run.
        task_hashes: digests of the sample files, by task.
        audit: the extraction audit, for our own block; None leaves it out.
    """
    spec, manifest = result.spec, result.manifest
    name = model_name(spec.model, spec.model_args)
    facts = result.model.facts() if isinstance(result.model, ProvidesModelFacts) else None
    metadata = manifest["spec"]["options"]["metadata"]
    aggregating = {group.spec.name: _group_scores(group) for group in result.groups if group.metrics}
    scores = {task.name: _task_scores(task) for task in result.tasks}
    scores.update({group.spec.name: _group_scores(group) for group in result.groups})
    return {
        "results": scores,
        **({"groups": aggregating} if aggregating else {}),
        "group_subtasks": {group.spec.name: list(group.spec.members) for group in result.groups},
        "configs": {task.name: redacted(task_config(task.card, metadata)) for task in _by_name(result.tasks)},
        "versions": _versions(result),
        "n-shot": _shots(result),
        "higher_is_better": _directions(result),
        "n-samples": {task.name: _sizes(task.denominators) for task in result.tasks},
        "config": _config(result, facts),
        "git_hash": (manifest.get("working_folder_git") or {}).get("revision"),
        "date": manifest.get("date"),
        "pretty_env_info": f"Python {manifest.get('python')} on {manifest.get('platform')}",
        "transformers_version": manifest.get("packages", {}).get("transformers"),
        "lm_eval_version": None,
        "upper_git_hash": None,
        **tokenizer_block(facts),
        "task_hashes": dict(task_hashes),
        "model_source": redacted_text(spec.model),
        "model_name": name,
        "model_name_sanitized": file_name(name),
        "system_instruction": spec.options.chat.system,
        "system_instruction_sha": sha(spec.options.chat.system),
        **chat_block(spec.options.chat, facts),
        "total_evaluation_time_seconds": str(sum(result.timings.values())),
        "assay": {**own_block(result), **({} if audit is None else {"audit": dict(audit)})},
    }


def own_block(result: RunResult) -> dict[str, Any]:
    """Assay's additions: intervals, denominators, notices and the manifest."""
    return {
        "version": result.manifest.get("assay_version"),
        "run": result.run_id,
        "store": result.store,
        **result.summary(),
        "manifest": dict(result.manifest),
    }


def _sizes(counts: Denominators) -> dict[str, int]:
    """Number of documents in the split and in the scores; lm-eval has no failed documents."""
    return {"original": counts.available + counts.left_out, "effective": counts.scored}


def _by_name(tasks: Sequence[TaskResult]) -> list[TaskResult]:
    return sorted(tasks, key=lambda task: task.name)


def _metric_entries(metrics: Sequence[MetricResult]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for metric in metrics:
        stderr = metric.harness_stderr
        entries[f"{metric.metric},{metric.filter}"] = metric.estimate.value
        entries[f"{metric.metric}_stderr,{metric.filter}"] = "N/A" if stderr is None else stderr
    return entries


def _task_scores(task: TaskResult) -> dict[str, Any]:
    head = {"name": task.name, "alias": task.card.alias, "sample_len": task.sample_len}
    return {**head, **_metric_entries(task.metrics)}


def _group_scores(group: GroupResult) -> dict[str, Any]:
    entry: dict[str, Any] = {"alias": group.spec.alias, "name": group.spec.name}
    if not group.metrics:
        return entry
    counts = {f"{metric.metric},{metric.filter}": metric.estimate.n for metric in group.metrics}
    return {**entry, "sample_len": group.sample_len, **_metric_entries(group.metrics), "sample_count": counts}


def _versions(result: RunResult) -> dict[str, Any]:
    found: dict[str, Any] = {task.name: task.card.version for task in result.tasks}
    # lm-eval has a group's version as text.
    found.update({g.spec.name: "N/A" if g.spec.version is None else str(g.spec.version) for g in result.groups})
    return dict(sorted(found.items()))


def _shots(result: RunResult) -> dict[str, int]:
    own = {task.name: task.card.num_fewshot for task in result.tasks}
    found = dict(own)
    for group in result.groups:
        counts = {own[leaf] for leaf in group.leaves}
        if len(counts) == 1:
            found[group.spec.name] = counts.pop()
    return dict(sorted(found.items()))


def _directions(result: RunResult) -> dict[str, dict[str, bool | None]]:
    """Metric directions per task and group; a group whose leaves disagree about a metric has none for it."""
    own = {task.name: dict(task.directions) for task in result.tasks}
    found = dict(own)
    for group in result.groups:
        merged: dict[str, bool | None] = {}
        for name, direction in (item for leaf in group.leaves for item in own[leaf].items()):
            merged[name] = direction if merged.get(name, direction) == direction else None
        scores = [score.name for score in group.spec.scores]
        merged.update({item.metric: item.higher_is_better for item in group.metrics if item.metric in scores})
        if merged:
            found[group.spec.name] = merged
    return dict(sorted(found.items()))


def _config(result: RunResult, facts: ModelFacts | None) -> dict[str, Any]:
    spec = result.spec
    hidden = result.manifest["spec"]["model_args"]
    return {
        "model": redacted_text(spec.model),
        "model_args": hidden,
        **model_block(facts, result.manifest["model"]),
        "batch_size": spec.settings.batch_size,
        "batch_sizes": [],
        "device": spec.settings.device,
        "use_cache": None,
        "limit": spec.limit,
        "bootstrap_iters": spec.bootstrap_iters,
        "gen_kwargs": redacted(spec.options.generation),
        "random_seed": spec.seeds.python,
        "numpy_seed": spec.seeds.numpy,
        "torch_seed": spec.seeds.sampling,
        "fewshot_seed": spec.seeds.fewshot,
    }


# Samples


# A conversation as its model reads it; None if unknown.
Render = Callable[[Prompt], str | None]


def _unrendered(prompt: Prompt) -> None:
    """The renderer of a run whose model is not available."""


def sample_lines(task: TaskResult, render: Render = _unrendered) -> tuple[Iterator[str], Callable[[], str]]:
    """The lines of a sample file, pipeline by pipeline, and a function that returns their hash once all are read.

    Args:
        task: the task's result.
        render: renders conversations as text. Those that it does not render are written as lists of messages.
    """
    total = hashlib.sha256()

    def lines() -> Iterator[str]:
        for line in _lines(task, render):
            total.update((line["doc_hash"] + line["prompt_hash"] + line["target_hash"]).encode())
            yield json.dumps(line, ensure_ascii=False, default=plain)

    return lines(), total.hexdigest


def _lines(task: TaskResult, render: Render) -> Iterator[dict[str, Any]]:
    if task.problem is not None and not task.metrics:  # the answers, to help fix the scoring
        for item in task.answered:
            if any(isinstance(output, Failure) for output in item.outputs):
                yield _failed_line(task, item, render)
            else:
                yield {**_line(task, item, Sample(item.document.id, "none", (), {}), render), "filter": None}
        return
    by_document = {item.document.id: item for item in task.answered}
    pipelines = dict.fromkeys(sample.filter for sample in task.samples)
    for pipeline in pipelines:
        for sample in task.samples:
            if sample.filter == pipeline:
                yield _line(task, by_document[sample.document_id], sample, render)
    for item in task.answered:
        if any(isinstance(output, Failure) for output in item.outputs):
            yield _failed_line(task, item, render)


def _line(task: TaskResult, item: AnsweredDocument, sample: Sample, render: Render) -> dict[str, Any]:
    is_rolling = _is_rolling(task)
    values = in_lm_evals_order(task.card, sample.values)
    return {
        **_document_fields(task, item, render, sample.document),
        "resps": _answers(task, item),
        "filtered_resps": [_shown(value, is_rolling) for value in sample.filtered],
        "filter": sample.filter,
        "metrics": list(values),
        **_hashes(item, render),
        **values,
        **({"assay": own} if (own := _own(item, sample)) else {}),
    }


def _own(item: AnsweredDocument, sample: Sample) -> dict[str, Any]:
    """Assay's additions to a sample: where answers were found, the score of each draw (null: no answer), clusters.

    Reasoning that models wrote apart from their answers is among them, per request and draw.
    """
    found: dict[str, Any] = {"extractions": _extractions(sample)} if sample.extractions else {}
    found |= {"draws": list(sample.draws)} if sample.draws else {}
    found |= {"messages": messages} if (messages := _messages(item)) else {}
    found |= {"reasoning": reasoning} if any(map(any, reasoning := _reasoning(item))) else {}
    return found if item.instance.cluster is None else {**found, "cluster": item.instance.cluster}


def _extractions(sample: Sample) -> list[list[dict[str, Any]]]:
    """Per question and draw: the answer, its extraction rule, and its position in the text; null if there is none."""
    return [
        [
            {
                "answer": found.answer,
                "extractor": found.extractor,
                "start": None if found.start == UNKNOWN_OFFSET else found.start,
                "end": None if found.end == UNKNOWN_OFFSET else found.end,
            }
            for found in question
        ]
        for question in sample.extractions
    ]


def _failed_line(task: TaskResult, item: AnsweredDocument, render: Render) -> dict[str, Any]:
    """A document that could not be scored; it counts in no metric, but is logged with its answers."""
    failures = [asdict(output) if isinstance(output, Failure) else None for output in item.outputs]
    messages = _messages(item)
    return {
        **_document_fields(task, item, render),
        "resps": _answers(task, item),
        "filtered_resps": [],
        "filter": None,
        "metrics": [],
        **_hashes(item, render),
        "failures": failures,
        **({"assay": {"messages": messages}} if messages else {}),
    }


def _is_rolling(task: TaskResult) -> bool:
    return task.card.kind == "loglikelihood_rolling"


def _answers(task: TaskResult, item: AnsweredDocument) -> list[list[Any]]:
    """The draws of each request; null for a failed draw."""
    draws, is_rolling = item.instance.draws, _is_rolling(task)
    shown = [None if isinstance(output, Failure) else _shown(output, is_rolling) for output in item.outputs]
    return [shown[start : start + draws] for start in range(0, len(shown), draws)]


def _reasoning(item: AnsweredDocument) -> list[list[str]]:
    """The reasoning of each draw of each request; empty texts where there is none."""
    draws = item.instance.draws
    texts = [output.reasoning if isinstance(output, Text) else "" for output in item.outputs]
    return [texts[start : start + draws] for start in range(0, len(texts), draws)]


def _messages(item: AnsweredDocument) -> list[list[dict[str, str]]]:
    """The conversations of a document, each once, in the order of its requests; none if the prompt is text."""
    prompts = dict.fromkeys(getattr(request, "prompt", "") for request in item.instance.requests)
    return [_as_messages(whole) for whole in map(untruncated_prompt, prompts) if not isinstance(whole, str)]


def _as_messages(conversation: tuple[Message, ...]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in conversation]


def _document_fields(
    task: TaskResult, item: AnsweredDocument, render: Render, scored: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The request of a document after scoring; task code may have changed it."""
    requests = item.instance.requests[:: item.instance.draws]
    arguments = {f"gen_args_{place}": _arguments(task, request, render) for place, request in enumerate(requests)}
    changed = item.instance.changed
    return {
        "doc_id": item.document.id,
        "doc": {**(item.document.fields if scored is None else scored), **(changed.logged if changed else {})},
        "target": str(item.instance.target),
        "arguments": arguments,
    }


def _arguments(task: TaskResult, request: Request, render: Render) -> dict[str, Any]:
    if isinstance(request, Loglikelihood):
        return {"arg_0": _prompt(request.prompt, render), "arg_1": request.continuation}
    if isinstance(request, Generation):
        settings = task.card.config.get("generation_kwargs")
        own = {
            "until": list(request.stop),
            "max_gen_toks": request.max_tokens,
            "temperature": request.sampling.temperature,
        }
        return {"arg_0": _prompt(request.prompt, render), "arg_1": redacted(settings) or own}
    return {"arg_0": request.text}


def _prompt(prompt: Prompt, render: Render) -> Any:
    """A prompt as its model reads it; a conversation that cannot be rendered, as its messages."""
    whole = untruncated_prompt(prompt)
    if isinstance(whole, str):
        return whole
    text = render(whole)
    return _as_messages(whole) if text is None else text


def _hashes(item: AnsweredDocument, render: Render) -> dict[str, str]:
    first = item.instance.requests[0]
    prompt = first.prompt if isinstance(first, (Loglikelihood, Generation)) else first.text
    plain_prompt = _prompt(prompt, render)
    text = plain_prompt if isinstance(plain_prompt, str) else json.dumps(plain_prompt, ensure_ascii=False)
    changed = item.instance.changed
    fields = item.document.fields if changed is None else changed.after_prompt
    document = json.dumps(dict(fields), indent=2, ensure_ascii=False, default=plain)
    return {
        "doc_hash": sha(document) or "",
        "prompt_hash": sha(text) or "",
        "target_hash": sha(str(item.instance.target)) or "",
    }


def _shown(value: Output | Failure | Any, is_rolling: bool) -> Any:
    """A value as lm-eval's sample logs show it: every scalar as text, a rolling result without its flag."""
    if isinstance(value, Logprob):
        return str(value.total) if is_rolling else [str(value.total), str(value.is_greedy)]
    if isinstance(value, LabelScores):
        return [str(score) for score in value.scores]
    if isinstance(value, (list, tuple)):
        return [_shown(item, is_rolling) for item in value]
    return value.text if isinstance(value, Text) else str(value)
