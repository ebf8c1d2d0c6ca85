"""What a task file may say: every key, its type, and the names it may use.

Takes a merged task file, gives all its faults at once, each with file, line and key path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, did_you_mean
from assay.tasks.harness.read import FunctionReference, TaskFile
from assay.tasks.templates import check_syntax, undefined_names

OUTPUT_TYPES = ("generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling")


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names that the scoring room offers; handed in, because rooms on one floor do not know each other.

    Attributes:
        metrics: metric → output types that it scores.
        aggregations: names of aggregations.
        filters: names of filters.
    """

    metrics: Mapping[str, frozenset[str]]
    aggregations: frozenset[str]
    filters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Key:
    """A key's rule: what it should be, in words and as a test."""

    expected: str
    accepts: Callable[[Any], bool]


def _is(*types: type) -> Callable[[Any], bool]:
    """Type test that does not take True for a number."""
    return lambda value: isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _texts(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_TEXT = Key("text", _is(str))
_FLAG = Key("true or false", _is(bool))
_MAPPING = Key("a mapping", _is(dict))
_LIST = Key("a list", _is(list))
_COUNT = Key("a whole number, 0 or more", _count)
_DOC_TEXT = Key("a column, a template or a whole number", _is(str, int))
_DOC_TARGET = Key("a column, a template, a whole number or a list", _is(str, int, list))
_DOC_CHOICE = Key("a column, a template, a list or a mapping", _is(str, list, dict))

TASK_KEYS: dict[str, Key] = {
    "task": _TEXT,
    "task_alias": _TEXT,
    "tag": Key("text or a list of texts", _texts),
    "dataset_path": _TEXT,
    "dataset_name": _TEXT,
    "dataset_kwargs": _MAPPING,
    "training_split": _TEXT,
    "validation_split": _TEXT,
    "test_split": _TEXT,
    "fewshot_split": _TEXT,
    "doc_to_text": _DOC_TEXT,
    "doc_to_target": _DOC_TARGET,
    "doc_to_choice": _DOC_CHOICE,
    "description": _TEXT,
    "target_delimiter": _TEXT,
    "fewshot_delimiter": _TEXT,
    "fewshot_config": _MAPPING,
    "num_fewshot": _COUNT,
    "output_type": Key("one of " + ", ".join(OUTPUT_TYPES), lambda value: value in OUTPUT_TYPES),
    "generation_kwargs": _MAPPING,
    "repeats": Key("a whole number, 1 or more", lambda value: _count(value) and value >= 1),
    "filter_list": _LIST,
    "metric_list": _LIST,
    "gen_prefix": _TEXT,
    "should_decontaminate": _FLAG,
    "doc_to_decontamination_query": _TEXT,
    "unsafe_code": _FLAG,
    "metadata": Key("a mapping", lambda value: True),
    "task_list": Key("anything (it is ignored)", lambda value: True),
}

FEWSHOT_KEYS: dict[str, Key] = {
    "sampler": Key("default or first_n", lambda value: value in ("default", "first_n")),
    "split": _TEXT,
    "samples": Key("a list of documents", lambda v: isinstance(v, list) and all(isinstance(row, dict) for row in v)),
    "fewshot_indices": _LIST,
    "doc_to_text": _DOC_TEXT,
    "doc_to_target": _DOC_TARGET,
    "doc_to_choice": _DOC_CHOICE,
    "gen_prefix": _TEXT,
    "target_delimiter": _TEXT,
    "fewshot_delimiter": _TEXT,
}

GROUP_KEYS: dict[str, Key] = {
    "group": _TEXT,
    "group_alias": _TEXT,
    "task": Key("a list of members", _is(list)),
    "aggregate_metric_list": Key("a mapping or a list of mappings", _is(dict, list)),
    "metadata": Key("a mapping", lambda value: True),
    "tag": Key("text or a list of texts", _texts),
}

# Keys of the dialect whose value is always Python code.
CODE_KEYS = frozenset({"class", "custom_dataset", "process_docs", "process_results"})
# Keys of the dialect that this version does not serve.
UNSERVED_KEYS = frozenset({"doc_to_image", "doc_to_audio", "use_prompt"})
_TEMPLATES = ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix")


def task_faults(file: TaskFile, names: KnownNames) -> list[Fault]:
    """Every fault of a task file."""
    faults = [*_code_faults(file, file.data, ()), *_key_faults(file, TASK_KEYS, file.data, ())]
    faults += _template_faults(file, file.data, ())
    if not isinstance(file.data.get("task"), str):
        faults.append(Fault(file.where("task"), "has no name", "task: some_name"))
    faults += _data_faults(file)
    if isinstance(file.data.get("fewshot_config"), dict):
        inner = file.data["fewshot_config"]
        faults += _key_faults(file, FEWSHOT_KEYS, inner, ("fewshot_config",))
        faults += _template_faults(file, inner, ("fewshot_config",))
    faults += _metric_faults(file, names)
    faults += _filter_faults(file, names)
    return faults


def base_faults(file: TaskFile, names: KnownNames) -> list[Fault]:
    """Faults of a file that only serves as an include: what it says must be right, but it need not be whole."""
    faults = [*_code_faults(file, file.data, ()), *_key_faults(file, TASK_KEYS, file.data, ())]
    return [*faults, *_template_faults(file, file.data, ()), *_metric_faults(file, names), *_filter_faults(file, names)]


def column_faults(file: TaskFile, columns: Collection[str]) -> list[Fault]:
    """Names in templates that a document with these columns does not have."""
    faults = []
    for key in _TEMPLATES:
        text = file.data.get(key)
        if not isinstance(text, str) or text in columns or check_syntax(text) is not None:
            continue
        for name in undefined_names(text, columns):
            found = f"'{name}' is no column of the sample document{did_you_mean(name, columns)}"
            faults.append(Fault(file.where(key), found, "one of: " + ", ".join(columns)))
    return faults


def group_faults(file: TaskFile) -> list[Fault]:
    """Every fault of a group file. Further keys are overrides for the members, so task keys are legal too."""
    return _key_faults(file, {**TASK_KEYS, **GROUP_KEYS}, file.data, ())


def _code_faults(file: TaskFile, value: Any, path: tuple[Any, ...]) -> Iterator[Fault]:
    if isinstance(value, FunctionReference):
        yield Fault(
            file.where(*path),
            f"asks to run Python code ({value})",
            "plain YAML",
            "This version runs no code from task files; write a Python task with @assay.task instead",
        )
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _code_faults(file, item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _code_faults(file, item, (*path, number))


def _key_faults(
    file: TaskFile, keys: Mapping[str, Key], data: Mapping[Any, Any], above: tuple[Any, ...]
) -> list[Fault]:
    faults = []
    for key, value in data.items():
        where = file.where(*above, key)
        if isinstance(value, FunctionReference) or value is None:
            continue
        if key in CODE_KEYS:
            faults.append(Fault(where, f"is {_show(value)}", next="Remove the key: it can only name Python code"))
        elif key in UNSERVED_KEYS and not above:
            faults.append(Fault(where, "is not served by this version of Assay", next="Remove the key"))
        elif key not in keys:
            faults.append(Fault(where, f'unknown key "{key}"{did_you_mean(str(key), keys)}'))
        elif not keys[key].accepts(value):
            faults.append(Fault(where, f"is {_show(value)}", keys[key].expected))
    return faults


def _show(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"


def _template_faults(file: TaskFile, data: Mapping[str, Any], above: tuple[Any, ...]) -> list[Fault]:
    faults = []
    for key in _TEMPLATES:
        if isinstance(data.get(key), str):
            problem = check_syntax(data[key])
            if problem:
                faults.append(Fault(file.where(*above, key), problem))
    return faults


def _data_faults(file: TaskFile) -> list[Fault]:
    data, faults = file.data, []
    if "custom_dataset" not in data and not data.get("dataset_path"):
        faults.append(Fault(file.where("dataset_path"), "is missing", "a hub id, a folder, or json/csv/parquet"))
    if not data.get("test_split") and not data.get("validation_split"):
        faults.append(Fault(file.where("test_split"), "no split to evaluate", "test_split or validation_split"))
    if data.get("output_type") == "multiple_choice" and data.get("doc_to_choice") is None:
        faults.append(Fault(file.where("doc_to_choice"), "is missing", "the choices of a multiple_choice task"))
    if data.get("doc_to_target") is None and "process_results" not in data:
        faults.append(Fault(file.where("doc_to_target"), "is missing", "the right answer: a column or a template"))
    if data.get("doc_to_text") is None and data.get("output_type") != "loglikelihood_rolling":
        faults.append(Fault(file.where("doc_to_text"), "is missing", "the prompt: a column or a template"))
    return faults


def _metric_faults(file: TaskFile, names: KnownNames) -> list[Fault]:
    faults = []
    kind = file.data.get("output_type", "generate_until")
    for number, entry in enumerate(_as_list(file.data.get("metric_list"))):
        where = ("metric_list", number)
        if not isinstance(entry, dict) or "metric" not in entry:
            faults.append(Fault(file.where(*where), f"is {_show(entry)}", "a mapping such as {metric: acc}"))
            continue
        metric, aggregation = entry["metric"], entry.get("aggregation")
        if isinstance(metric, str):
            faults += _metric_name_faults(file.where(*where, "metric"), metric, kind, names)
        elif not isinstance(metric, FunctionReference):
            faults.append(Fault(file.where(*where, "metric"), f"is {_show(metric)}", "a metric's name"))
        if aggregation is None or isinstance(aggregation, FunctionReference):
            continue
        if not isinstance(aggregation, str):
            faults.append(Fault(file.where(*where, "aggregation"), f"is {_show(aggregation)}", "an aggregation's name"))
        elif aggregation not in names.aggregations:
            hint = did_you_mean(aggregation, names.aggregations)
            faults.append(
                Fault(
                    file.where(*where, "aggregation"),
                    f'unknown aggregation "{aggregation}"{hint}',
                    "one of " + ", ".join(sorted(names.aggregations)),
                )
            )
    return faults


def _metric_name_faults(where: str, metric: str, kind: Any, names: KnownNames) -> list[Fault]:
    if metric not in names.metrics:
        hint = did_you_mean(metric, names.metrics)
        return [Fault(where, f'unknown metric "{metric}"{hint}', next="See: assay ls metrics")]
    if kind in OUTPUT_TYPES and kind not in names.metrics[metric]:
        fitting = sorted(name for name, kinds in names.metrics.items() if kind in kinds)
        return [Fault(where, f'"{metric}" is not defined for {kind}', "one of " + ", ".join(fitting))]
    return []


def _filter_faults(file: TaskFile, names: KnownNames) -> list[Fault]:
    faults = []
    seen: set[str] = set()
    for number, entry in enumerate(_as_list(file.data.get("filter_list"))):
        where = ("filter_list", number)
        if not isinstance(entry, dict) or not isinstance(entry.get("filter"), list) or "name" not in entry:
            faults.append(Fault(file.where(*where), f"is {_show(entry)}", "{name: …, filter: [{function: …}, …]}"))
            continue
        if str(entry["name"]) in seen:
            faults.append(
                Fault(file.where(*where, "name"), f'"{entry["name"]}" is the name of two pipelines', "two names")
            )
        seen.add(str(entry["name"]))
        for step, item in enumerate(entry["filter"]):
            place = file.where(*where, "filter", step, "function")
            function = item.get("function") if isinstance(item, dict) else None
            if isinstance(function, FunctionReference):
                continue
            if not isinstance(function, str):
                faults.append(Fault(place, f"is {_show(item)}", "{function: NAME, …}"))
            elif function not in names.filters:
                hint = did_you_mean(function, names.filters)
                faults.append(Fault(place, f'unknown filter "{function}"{hint}', next="See: assay ls filters"))
    return faults


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
