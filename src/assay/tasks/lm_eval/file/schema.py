"""Schema of task files: every key, its type, and the names it may use.

Takes a merged task file, gives all its faults at once, each with file, line and key path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, did_you_mean
from assay.core.metric_names import family_of, name_faults, similar_metrics
from assay.tasks.fewshot import SAMPLERS
from assay.tasks.lm_eval.build.kept_rows import accepted_values
from assay.tasks.lm_eval.file.card import card_faults
from assay.tasks.lm_eval.file.configurations import CONFIGURATIONS, KEYS, stray_faults
from assay.tasks.lm_eval.file.definition import output_type_of
from assay.tasks.lm_eval.file.format_key import (
    format_faults,
    stated_column_faults,
    stated_format,
)
from assay.tasks.lm_eval.file.prompt_list import list_faults, listed_prompts
from assay.tasks.lm_eval.file.score_key import SCORE, score_faults
from assay.tasks.lm_eval.file.value_checks import (
    CODE_KEYS,
    COLUMN,
    COUNT,
    DOC_CHOICE,
    DOC_TARGET,
    DOC_TEXT,
    FLAG,
    LIST,
    MAPPING,
    SAMPLE_SIZE,
    TEXT,
    KeySchema,
    choice_faults,
    entry_fault,
    generation_faults,
    group_part_faults,
    is_count,
    is_texts,
    is_type,
    key_faults,
    key_text_faults,
    metric_value_faults,
    pattern_faults,
    plain_text_faults,
    show,
)
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, TaskFile, references
from assay.tasks.templates import check_syntax, undefined_names

# Metrics of the `evaluate` package that task files name without `hf_evaluate`.
# fmt: off
EVALUATE_METRICS = frozenset((
    "accuracy", "bertscore", "bleurt", "cer", "character", "charcut", "chrf", "code_eval", "comet",
    "competition_math", "coval", "cuad", "exact_match", "frugalscore", "glue", "google_bleu", "indic_glue",
    "mae", "mahalanobis", "mape", "mase", "mauve", "mean_iou", "meteor", "mse", "nist_mt", "pearsonr",
    "poseval", "precision", "r_squared", "recall", "rl_reliability", "roc_auc", "rouge", "sacrebleu", "sari",
    "seqeval", "smape", "spearmanr", "squad", "squad_v2", "super_glue", "ter", "trec_eval", "wer",
    "wiki_split", "xnli", "xtreme_s",
))
# fmt: on
# Metrics that messages give as examples.
_USUAL_METRICS = ("acc", "acc_norm", "f1", "mcc", "exact_match", "squad_f1", "bleu", "perplexity", "word_perplexity")
OUTPUT_TYPES = ("generate_until", "multiple_choice", "loglikelihood", "loglikelihood_rolling")


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Names that the scoring package provides; passed in, because tasks and scoring do not import each other.

    Attributes:
        metrics: metric → output types that it scores.
        aggregations: names of aggregations.
        filters: names of filters.
    """

    metrics: Mapping[str, frozenset[str]]
    aggregations: frozenset[str]
    filters: frozenset[str]


def _are_conditions(value: Any) -> bool:
    """Columns, each with an accepted value or a list of them."""
    scalars = (str, int, float, bool)
    return (
        isinstance(value, dict)
        and bool(value)
        and all(isinstance(column, str) for column in value)
        and all(isinstance(item, scalars) for given in value.values() for item in accepted_values(given))
        and all(accepted_values(given) for given in value.values())
    )


_KEPT = KeySchema("a mapping from column to the accepted value, or a list of them", _are_conditions)


TASK_KEYS: dict[str, KeySchema] = {
    "task": TEXT,
    "task_alias": TEXT,
    "tag": KeySchema("text or a list of texts", is_texts),
    "dataset_path": TEXT,
    "dataset_name": TEXT,
    "dataset_kwargs": MAPPING,
    "training_split": TEXT,
    "validation_split": TEXT,
    "test_split": TEXT,
    "fewshot_split": TEXT,
    "keep_docs": _KEPT,
    "doc_to_text": DOC_TEXT,
    "doc_to_target": DOC_TARGET,
    "doc_to_choice": DOC_CHOICE,
    "description": TEXT,
    "target_delimiter": TEXT,
    "fewshot_delimiter": TEXT,
    "fewshot_config": MAPPING,
    "num_fewshot": COUNT,
    "sample": SAMPLE_SIZE,
    "output_type": KeySchema("one of " + ", ".join(OUTPUT_TYPES), lambda value: value in OUTPUT_TYPES),
    "generation_kwargs": MAPPING,
    "repeats": KeySchema("a whole number from 1 to 100,000", lambda value: is_count(value) and 1 <= value <= 100_000),
    "filter_list": LIST,
    "metric_list": LIST,
    "gen_prefix": TEXT,
    "should_decontaminate": FLAG,
    "doc_to_decontamination_query": TEXT,
    "doc_to_image": KeySchema("a column, a template or a list of them", is_type(str, list)),
    "doc_to_audio": KeySchema("a column, a template or a list of them", is_type(str, list)),
    "unsafe_code": FLAG,
    "metadata": KeySchema("a mapping", lambda value: True),
    "task_list": KeySchema("anything (it is ignored)", lambda value: True),
    "format": MAPPING,
    "prompts": KeySchema("a list of prompts, or the path of PromptSource's templates", is_type(str, list)),
    "perplexity": MAPPING,
    "cluster": COLUMN,
    "card": MAPPING,
}

_TOKENS = KeySchema("a whole number of tokens, 1 or more", lambda value: is_count(value) and value >= 1)
# How the texts of a loglikelihood_rolling task are split into windows.
PERPLEXITY_KEYS: dict[str, KeySchema] = {"window": _TOKENS, "stride": _TOKENS}

FEWSHOT_KEYS: dict[str, KeySchema] = {
    "sampler": KeySchema("one of " + ", ".join(SAMPLERS), lambda value: value in SAMPLERS),
    "split": TEXT,
    "samples": KeySchema(
        "a list of documents", lambda v: isinstance(v, list) and all(isinstance(row, dict) for row in v)
    ),
    "fewshot_indices": LIST,
    "doc_to_text": DOC_TEXT,
    "doc_to_target": DOC_TARGET,
    "doc_to_choice": DOC_CHOICE,
    "gen_prefix": TEXT,
    "target_delimiter": TEXT,
    "fewshot_delimiter": TEXT,
}

GROUP_KEYS: dict[str, KeySchema] = {
    "group": TEXT,
    "group_alias": TEXT,
    "task": KeySchema("a list of members", is_type(list)),
    "aggregate_metric_list": KeySchema("a mapping or a list of mappings", is_type(dict, list)),
    SCORE: KeySchema("a mapping or a list of mappings", is_type(dict, list)),
    "metadata": KeySchema("a mapping", lambda value: True),
    "tag": KeySchema("text or a list of texts", is_texts),
    "card": MAPPING,
}

# Keys whose value may be Python code.
_MAYBE_CODE_KEYS = frozenset(
    {
        *CODE_KEYS,
        "doc_to_text",
        "doc_to_target",
        "doc_to_choice",
        "doc_to_image",
        "doc_to_audio",
        "doc_to_decontamination_query",
        "fewshot_config",
        "metric_list",
        "filter_list",
        "metadata",
        "dataset_kwargs",
        "task_list",
    }
)
_TEMPLATES = ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix", "cluster")


def task_faults(file: TaskFile, names: KnownNames) -> list[Fault]:
    """Every fault of a task file."""
    if file.data.get("class") is not None:
        return _class_faults(file)
    if isinstance(file.data.get("prompts"), list):
        wrong = list_faults(file)
        if wrong:
            return wrong
        found = [fault for prompt in listed_prompts(file) for fault in task_faults(prompt.file, names)]
        return list(dict.fromkeys(found))
    faults = [*_field_faults(file), *stray_faults(file)]
    if not isinstance(file.data.get("task"), str):
        faults.append(Fault(file.where("task"), "has no name", "task: some_name"))
    return [*faults, *_data_faults(file), *_scoring_faults(file, names)]


def _class_faults(file: TaskFile) -> list[Fault]:
    """Faults of a file that names a Python class; the class decides about all other keys."""
    faults = list(_code_faults(file))
    if not isinstance(file.data["class"], FunctionReference):
        faults.append(Fault(file.where("class"), f"is {show(file.data['class'])}", "!function module.ClassName"))
    if not isinstance(file.data.get("task"), str):
        faults.append(Fault(file.where("task"), "has no name", "task: some_name"))
    return faults


def base_faults(file: TaskFile, names: KnownNames) -> list[Fault]:
    """Faults of a file that only serves as an include: its keys must be valid, but it need not be complete."""
    return [*_field_faults(file), *_scoring_faults(file, names)]


def _field_faults(file: TaskFile) -> list[Fault]:
    own = {key: value for key, value in file.data.items() if key not in KEYS}
    faults = [*_code_faults(file), *key_faults(file, TASK_KEYS, own, ()), *card_faults(file)]
    faults += [*_template_faults(file, file.data, ()), *choice_faults(file, file.data, ())]
    faults += [*generation_faults(file), *key_text_faults(file, "dataset_kwargs")]
    inner = file.data.get("fewshot_config")
    if isinstance(inner, dict):
        above = ("fewshot_config",)
        faults += key_faults(file, FEWSHOT_KEYS, inner, above)
        faults += [*_template_faults(file, inner, above), *choice_faults(file, inner, above)]
    windows = file.data.get("perplexity")
    if isinstance(windows, dict):
        faults += _window_faults(file, windows)
    stated = file.data.get("format")
    return [*faults, *format_faults(file, stated)] if isinstance(stated, dict) else faults


def _window_faults(file: TaskFile, given: Mapping[Any, Any]) -> list[Fault]:
    """Faults of the windows in which texts are scored."""
    faults = key_faults(file, PERPLEXITY_KEYS, given, ("perplexity",))
    kind = file.data.get("output_type")
    if kind != "loglikelihood_rolling" and "task" in file.data:
        found = f"applies to tasks that score whole texts, but output_type is {show(kind)}"
        faults.append(Fault(file.where("perplexity"), found, "output_type: loglikelihood_rolling"))
    window, stride = given.get("window"), given.get("stride")
    if not faults and window is not None and stride is not None and stride > window:
        found = f"is {stride}, more than the {window} tokens of a window: some would not be scored"
        faults.append(Fault(file.where("perplexity", "stride"), found, f"1 to {window}"))
    return faults


def _scoring_faults(file: TaskFile, names: KnownNames) -> list[Fault]:
    faults = [*_metric_faults(file, names), *metric_value_faults(file), *_filter_faults(file, names)]
    return [*faults, *pattern_faults(file)]


def column_faults(file: TaskFile, columns: Collection[str]) -> list[Fault]:
    """Names in templates that a document with these columns lacks; not checked if code changes the documents."""
    inner = file.data.get("fewshot_config")
    faults = [] if "process_docs" in file.data else _data_column_faults(file, file.data, (), columns)
    if isinstance(inner, dict) and not {"process_docs", "samples"} & {*inner, *file.data}:
        faults += _data_column_faults(file, inner, ("fewshot_config",), columns)
    stated = file.data.get("format")
    if isinstance(stated, dict) and "process_docs" not in file.data:
        faults += stated_column_faults(file, stated, columns)
    return faults


def _data_column_faults(
    file: TaskFile, data: Mapping[Any, Any], above: tuple[Any, ...], columns: Collection[str]
) -> list[Fault]:
    faults = []
    for key in _TEMPLATES:
        text = data.get(key)
        if not isinstance(text, str) or text in columns or check_syntax(text) is not None:
            continue
        for name in undefined_names(text, columns):
            found = f"'{name}' is not a column of the sample document{did_you_mean(name, columns)}"
            faults.append(Fault(file.where(*above, key), found, "one of: " + ", ".join(columns)))
        faults += plain_text_faults(file.where(*above, key), key, text, columns)
    return faults


def group_faults(file: TaskFile) -> list[Fault]:
    """Every fault of a group file. Other keys are overrides for the members, so task keys are valid too."""
    rest = {key: value for key, value in file.data.items() if key not in ("group", "task", CONFIGURATIONS)}
    faults = [*key_faults(file, {**TASK_KEYS, **GROUP_KEYS}, rest, ()), *group_part_faults(file), *card_faults(file)]
    faults += score_faults(file)
    if CONFIGURATIONS in file.data:
        found = "a file with configurations names its group by the key task"
        faults.append(Fault(file.where(CONFIGURATIONS), found, next="Write task: in place of group:"))
    return [*faults, *_template_faults(file, file.data, ()), *generation_faults(file)]


def _code_faults(file: TaskFile) -> Iterator[Fault]:
    """Faults of references to code that name no module, or are used where only plain data is allowed."""
    for path, reference in references(file.data):
        if path[0] not in _MAYBE_CODE_KEYS and "class" not in file.data:
            found = f"names Python code ({reference})"
            yield Fault(file.where(*path), found, "plain data: only some keys may name code")
        elif not reference.text.rpartition(".")[0]:
            yield Fault(file.where(*path), f'"{reference}" names no module', "!function module.name")


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
        faults.append(Fault(file.where("test_split"), "names no split to evaluate", "test_split or validation_split"))
    if "format" in data and stated_format(data) is not None and data.get("doc_to_text") is None:
        return faults  # everything else follows from the question's parts
    if isinstance(data.get("prompts"), str):
        return faults  # everything else is in the templates
    if data.get("output_type") == "multiple_choice" and data.get("doc_to_choice") is None:
        faults.append(Fault(file.where("doc_to_choice"), "is missing", "the choices of a multiple_choice task"))
    if data.get("doc_to_target") is None and "process_results" not in data:
        faults.append(Fault(file.where("doc_to_target"), "is missing", "the right answer: a column or a template"))
    if data.get("doc_to_text") is None and data.get("output_type") != "loglikelihood_rolling":
        faults.append(Fault(file.where("doc_to_text"), "is missing", "the prompt: a column or a template"))
    return faults


def _metric_faults(file: TaskFile, names: KnownNames) -> list[Fault]:
    faults = []
    # A file that only serves as an include need not have an output type.
    kind = output_type_of(file.data) if "task" in file.data else file.data.get("output_type")
    is_free = file.data.get("process_results") is not None  # then metrics have the names that this function returns
    for number, entry in enumerate(_as_list(file.data.get("metric_list"))):
        where = ("metric_list", number)
        if not isinstance(entry, dict) or "metric" not in entry:
            faults.append(entry_fault(file.where(*where), entry, ("metric",), "a mapping such as {metric: acc}"))
            continue
        metric, aggregation = entry["metric"], entry.get("aggregation")
        # lm-eval passes right answer and text of any metric to the task's own aggregation.
        is_own = (
            isinstance(aggregation, FunctionReference)
            and kind == "generate_until"
            and isinstance(metric, str)
            and metric in names.metrics
        )
        is_external = entry.get("hf_evaluate") is True and kind in ("generate_until", None)
        if isinstance(metric, str) and not is_free and not is_external and not is_own:
            faults += _metric_name_faults(file.where(*where, "metric"), metric, kind, names)
            faults += name_faults(entry, file.where(*where))
        elif not isinstance(metric, (FunctionReference, str)):
            faults.append(Fault(file.where(*where, "metric"), f"is {show(metric)}", "a metric's name"))
        if aggregation is None or isinstance(aggregation, FunctionReference):
            continue
        if not isinstance(aggregation, str):
            faults.append(Fault(file.where(*where, "aggregation"), f"is {show(aggregation)}", "an aggregation's name"))
        elif aggregation not in names.aggregations:
            hint = did_you_mean(aggregation, names.aggregations)
            expected = "an aggregation's name, such as mean, f1, perplexity, bleu"
            faults.append(
                Fault(file.where(*where, "aggregation"), f'unknown aggregation "{aggregation}"{hint}', expected)
            )
    return faults


def _metric_name_faults(where: str, metric: str, kind: Any, names: KnownNames) -> list[Fault]:
    metric = family_of(metric)
    if metric not in names.metrics:
        if kind in ("generate_until", None) and metric in EVALUATE_METRICS:
            return []
        hint = similar_metrics(metric, names.metrics)
        external = ". For a metric of the evaluate package add hf_evaluate: true" if kind == "generate_until" else ""
        return [Fault(where, f'unknown metric "{metric}"{hint}', next=f"See: assay ls metrics{external}")]
    if kind in OUTPUT_TYPES and kind not in names.metrics[metric]:
        usual = ", ".join(name for name in _USUAL_METRICS if kind in names.metrics.get(name, ()))
        found = f'"{metric}" is not defined for {kind}'
        return [Fault(where, found, f"a metric that is, such as {usual}", "See: assay ls metrics")]
    return []


def _filter_faults(file: TaskFile, names: KnownNames) -> list[Fault]:
    faults = []
    seen: set[str] = set()
    for number, entry in enumerate(_as_list(file.data.get("filter_list"))):
        where = ("filter_list", number)
        if not isinstance(entry, dict) or not isinstance(entry.get("filter"), list) or entry.get("name") is None:
            expected = "{name: …, filter: [{function: …}, …]}"
            faults.append(entry_fault(file.where(*where), entry, ("name", "filter"), expected))
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
                faults.append(entry_fault(place, item, ("function",), "{function: NAME, …}"))
            elif function not in names.filters:
                hint = did_you_mean(function, names.filters)
                faults.append(Fault(place, f'unknown filter "{function}"{hint}', next="See: assay ls filters"))
    return faults


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
