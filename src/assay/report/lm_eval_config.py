"""Parts of lm-eval's result files that describe the run: a task's whole configuration, the model, its tokenizer, chat.

In: cards, specifications and a model's facts. Out: JSON data in the keys and the order of lm-eval 0.4.13. A model
without such facts (a scripted one, a run rescored without its model) has none of the keys that lm-eval would leave
out for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from assay.core.protocols import ModelFacts, SpecialToken
from assay.core.specs import ChatSpec, TaskCard

# A task's keys in lm-eval's order, those that it always writes with their defaults.
_NO_DEFAULT = object()
_TASK_KEYS: dict[str, Any] = {
    **dict.fromkeys(("task", "task_alias", "custom_dataset", "dataset_path", "dataset_name"), _NO_DEFAULT),
    **dict.fromkeys(("dataset_kwargs", "training_split", "validation_split", "test_split"), _NO_DEFAULT),
    **dict.fromkeys(("fewshot_split", "process_docs", "doc_to_text", "doc_to_target"), _NO_DEFAULT),
    "unsafe_code": False,
    **dict.fromkeys(("doc_to_choice", "process_results", "use_prompt"), _NO_DEFAULT),
    "description": "",
    "target_delimiter": " ",
    "fewshot_delimiter": "\n\n",
    "fewshot_config": _NO_DEFAULT,
    **dict.fromkeys(("num_fewshot", "metric_list"), _NO_DEFAULT),
    "output_type": "generate_until",
    "generation_kwargs": _NO_DEFAULT,
    "repeats": 1,
    "filter_list": _NO_DEFAULT,
    "should_decontaminate": False,
    **dict.fromkeys(("doc_to_decontamination_query", "gen_prefix"), _NO_DEFAULT),
}
# Settings that few-shot examples inherit from the task unless `fewshot_config` sets them.
_INHERITED = ("process_docs", "doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix")
_DELIMITERS = ("fewshot_delimiter", "target_delimiter")
# The order in which lm-eval's own scoring names the metrics of a document.
_METRIC_ORDER = {
    "multiple_choice": (
        *("acc", "f1", "mcc", "acc_norm", "acc_bytes", "exact_match", "brier_score", "likelihood"),
        "acc_mutual_info",
    ),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
}


def sha(text: str | None) -> str | None:
    """lm-eval's hash of a text."""
    return None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def task_config(card: TaskCard, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A task's configuration with lm-eval's defaults and the run's metadata; that of a Python task as it is.

    Args:
        card: the task's own description.
        metadata: data that the run passes to its tasks: model arguments and `--metadata`, secrets redacted.
    """
    own = dict(card.config)
    if "output_type" not in own and "dataset_path" not in own:
        return own
    found = {key: own.get(key, default) for key, default in _TASK_KEYS.items()}
    found["fewshot_config"] = _fewshot_config(found, own.get("fewshot_config") or {})
    ours = {key: value for key, value in own.items() if key not in found and key != "metadata"}
    notes = {**(own.get("metadata") or {}), **metadata, "config_source": card.source}
    return {
        **{key: value for key, value in found.items() if value is not None and value is not _NO_DEFAULT},
        "metadata": notes,
        **ours,
    }


def _fewshot_config(task: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The few-shot settings, with every key present."""
    stated = {key: None if task[key] is _NO_DEFAULT else task[key] for key in ("fewshot_split", *_INHERITED)}
    return {
        "sampler": "default",
        "split": stated.pop("fewshot_split"),
        "process_docs": stated.pop("process_docs"),
        "fewshot_indices": None,
        "samples": None,
        **stated,
        **{key: task[key] for key in _DELIMITERS},
        **given,
    }


def model_block(facts: ModelFacts | None, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The model's part of `config`.

    Args:
        facts: the facts that the model reports.
        recorded: its recorded fingerprint, for what is known without the model.
    """
    if facts is None:
        precision, commit = recorded.get("precision"), recorded.get("revision") or ""
        return {} if precision is None else {"model_dtype": f"torch.{precision}", "model_sha": commit}
    return {
        "model_num_parameters": facts.parameters,
        "model_dtype": facts.dtype,
        "model_revision": facts.revision,
        "model_sha": facts.commit,
    }


def tokenizer_block(facts: ModelFacts | None) -> dict[str, Any]:
    """Special tokens, as text and id, and the model's length."""
    if facts is None:
        return {}
    return {
        "tokenizer_pad_token": _token(facts.pad),
        "tokenizer_eos_token": _token(facts.eos),
        "tokenizer_bos_token": _token(facts.bos),
        "eot_token_id": facts.eos[1],
        "max_length": facts.max_length,
    }


def _token(token: SpecialToken) -> list[str | None]:
    """lm-eval writes the id as text, even if there is none."""
    return [token[0], str(token[1])]


def chat_block(chat: ChatSpec, facts: ModelFacts | None) -> dict[str, Any]:
    """The chat template that was applied; empty if none was."""
    template = facts.template if facts is not None and chat.apply else None
    return {
        "fewshot_as_multiturn": chat.multiturn if chat.apply else None,
        "chat_template": template,
        "chat_template_sha": sha(template),
    }


def in_lm_evals_order(card: TaskCard, values: Mapping[str, Any]) -> dict[str, Any]:
    """A document's values in the order of lm-eval's scoring; those of the task's own scoring in their own order."""
    order: Sequence[str] = () if "process_results" in card.config else _METRIC_ORDER.get(card.kind, ())
    first = {name: values[name] for name in order if name in values}
    return {**first, **{name: value for name, value in values.items() if name not in first}}
