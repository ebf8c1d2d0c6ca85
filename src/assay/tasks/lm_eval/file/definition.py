"""A task file that passed the schema, as a typed value with every default filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.core.formats import Question
from assay.core.metric_names import expanded_entries
from assay.core.requests import LONGEST_WINDOWS, Windows
from assay.core.specs import PLAIN_PIPELINES, FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.core.task_variants import TaskVariant
from assay.data.sources import SourceSpec
from assay.tasks.fewshot import LM_EVAL_SAMPLERS
from assay.tasks.lm_eval.file.format_key import stated_format, usual_output_type
from assay.tasks.lm_eval.file.yaml_reader import FunctionReference, TaskFile
from assay.tasks.prompt_parts import Delimiters

DEFAULT_METRICS = {
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "multiple_choice": ("acc", "acc_norm"),
    "generate_until": ("exact_match",),
}
_METRIC_OWN_KEYS = {"metric", "aggregation", "higher_is_better", "hf_evaluate"}


@dataclass(frozen=True, slots=True)
class Rendering:
    """How a document becomes question, answer and choices; few-shot examples may have their own rendering."""

    text: Any
    target: Any
    choice: Any
    prefix: str | None
    delimiters: Delimiters


@dataclass(frozen=True, slots=True)
class FewshotDefinition:
    """The source and format of few-shot examples.

    Attributes:
        sampler: a name of `SAMPLERS` in tasks/fewshot.py, or a class of task code.
        split: the split they are taken from.
        samples: the examples themselves, or a function that returns them.
        rendering: how they are rendered.
        process: processes the split's rows; the task's own by default.
        seed: seed of their random generator; None for the run's.
        label: the text of a row's right answer, None if it has none: `balanced` uses it instead of the answer that
            an example shows.
        excludes: whether a document is never its own example. If false, lm-eval's rule decides.
        listed: the examples of a profile's tool in order, each as columns and their values; the sampler chooses if
            the split lacks one of them.
    """

    sampler: Any
    split: str | None
    samples: Sequence[Mapping[str, Any]] | Callable[[], Any] | None
    rendering: Rendering
    process: Callable[..., Any] | None
    seed: int | None = None
    label: Callable[[Mapping[str, Any]], str | None] | None = None
    excludes: bool = False
    listed: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_like_lm_eval(self) -> bool:
        """Whether a sampler of lm-eval or task code chooses the examples, by lm-eval's rules."""
        return not isinstance(self.sampler, str) or self.sampler in LM_EVAL_SAMPLERS


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """A task as its file defines it.

    Attributes:
        file: the merged file, for locations in errors.
        variant: the task's own name, and the style, prompt and axis levels of the definition.
        own_alias: the display name, without the variant's suffix.
        fewshot_count: the file's own number of examples; None if it has none.
        generation: the file's generation settings, in lm-eval's names; None if it has none.
        process: task code that processes the documents of a split.
        kept: column → values of the documents that are kept, in every split; None for all.
        custom_dataset: task code that returns the whole dataset.
        metadata: the file's free metadata, which is passed to `custom_dataset`.
        may_draw: whether its code may draw random numbers.
        format: the parts of a format that the file states; None if it has only templates.
        rotates: whether every question is evaluated in all rotations of its choices.
        questions: reads the question of a row, if the definition has a style.
        prompt: the recorded description of the variant's prompt: `task` and `name` at least.
        skip_reason: returns the reason why a row is skipped, None for one that is not; None if no row is.
        windows: how whole texts are split into windows.
        example_limit: maximum tokens of an example, or of the question with its longest choice; None for no limit.
    """

    file: TaskFile
    variant: TaskVariant
    own_alias: str
    tags: tuple[str, ...]
    version: Any
    output_type: str
    source: SourceSpec
    training_split: str | None
    validation_split: str | None
    test_split: str | None
    rendering: Rendering
    description: str | None
    fewshot: FewshotDefinition
    fewshot_count: int | None
    generation: Mapping[str, Any] | None
    repeats: int
    scoring: Scoring
    unsafe_code: bool
    process: Callable[..., Any] | None
    custom_dataset: Callable[..., Any] | None
    metadata: Mapping[str, Any]
    may_draw: bool = True
    format: Mapping[str, Any] | None = None
    rotates: bool = False
    questions: Callable[[Mapping[str, Any]], Question] | None = None
    prompt: Mapping[str, Any] | None = None
    skip_reason: Callable[[Mapping[str, Any]], str | None] | None = None
    windows: Windows = LONGEST_WINDOWS
    example_limit: int | None = None
    kept: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The name of the variant, unique in a run."""
        return str(self.variant)

    @property
    def alias(self) -> str:
        """The display name."""
        return self.own_alias + self.variant.suffix

    @property
    def style(self) -> str | None:
        """The prompt style of the definition; None for the file's own prompt."""
        return self.variant.style

    @property
    def has_prompt(self) -> bool:
        """Whether the file has its own prompt; a file that only states a format has none."""
        return self.format is None or self.rendering.text != ""

    @property
    def evaluated_split(self) -> str:
        """The evaluated split: test, else validation. The schema ensures that one exists."""
        return self.test_split or self.validation_split or ""


def define(file: TaskFile, bound: Mapping[str, Any] | None = None, may_draw: bool = True) -> TaskDefinition:
    """The definition in a task file without faults.

    Args:
        file: the file.
        bound: its mapping with the referenced code in place of the references; None for a file without any.
        may_draw: whether that code may draw random numbers.
    """
    data = {key: value for key, value in (bound or file.data).items() if value is not None}
    metadata = data.get("metadata", {})
    output_type = data.get("output_type", usual_output_type(data))
    rendering = _rendering(data, None)
    tags = data.get("tag", [])
    return TaskDefinition(
        file=file,
        variant=TaskVariant(data["task"]),
        own_alias=data.get("task_alias", data["task"]),
        tags=(tags,) if isinstance(tags, str) else tuple(tags),
        version=version_of(data),
        output_type=output_type,
        source=_source(data, file),
        training_split=data.get("training_split"),
        validation_split=data.get("validation_split"),
        test_split=data.get("test_split"),
        rendering=rendering,
        description=data.get("description"),
        fewshot=_fewshot(data, rendering),
        fewshot_count=data.get("num_fewshot"),
        generation=data.get("generation_kwargs"),
        repeats=data.get("repeats", 1),
        scoring=scoring_of(data, output_type),
        unsafe_code=data.get("unsafe_code", False),
        process=data.get("process_docs"),
        custom_dataset=data.get("custom_dataset"),
        metadata=metadata if isinstance(metadata, Mapping) else {"_metadata": metadata},
        may_draw=may_draw,
        format=stated_format(data),
        windows=_windows(data),
        kept=data.get("keep_docs"),
    )


def _windows(data: Mapping[str, Any]) -> Windows:
    given = data.get("perplexity", {})
    return Windows(given.get("window"), given.get("stride"))


def version_of(data: Mapping[str, Any]) -> Any:
    """`metadata.version`, or lm-eval's default for a file without one."""
    metadata = data.get("metadata")
    return metadata.get("version", "Yaml") if isinstance(metadata, dict) else "Yaml"


def _source(data: Mapping[str, Any], file: TaskFile) -> SourceSpec:
    # A relative path is relative to the folder of the file that contains it, which may be an included file.
    place = file.places.get(("dataset_kwargs",)) or file.places.get(("dataset_path",))
    folder = (place.file if place is not None else file.path).parent
    options = data.get("dataset_kwargs", {})
    return SourceSpec(
        data.get("dataset_path", ""), data.get("dataset_name"), options, folder, file.where("dataset_path")
    )


def _rendering(data: Mapping[str, Any], base: Rendering | None) -> Rendering:
    """A rendering; missing keys come from the base or from lm-eval's defaults."""
    delimiters = base.delimiters if base is not None else Delimiters()
    return Rendering(
        text=data.get("doc_to_text", base.text if base else ""),
        target=data.get("doc_to_target", base.target if base else None),
        choice=data.get("doc_to_choice", base.choice if base else None),
        prefix=data.get("gen_prefix", base.prefix if base else None),
        delimiters=Delimiters(
            data.get("target_delimiter", delimiters.target), data.get("fewshot_delimiter", delimiters.example)
        ),
    )


_NULLABLE = ("process_docs", "split", "gen_prefix", "doc_to_choice")


def _fewshot(data: Mapping[str, Any], rendering: Rendering) -> FewshotDefinition:
    given = data.get("fewshot_config", {}).items()
    # Most null keys mean the task's own value; for these four, null means "none" for the examples.
    inner = {key: value for key, value in given if value is not None or key in _NULLABLE}
    return FewshotDefinition(
        sampler=inner.get("sampler", "default"),
        split=inner.get("split", data.get("fewshot_split")),
        samples=inner.get("samples"),
        rendering=_rendering(inner, rendering),
        process=inner.get("process_docs", data.get("process_docs")),
    )


def scoring_of(data: Mapping[str, Any], output_type: str) -> Scoring:
    """Scoring by a file's `metric_list`, `filter_list` and `process_results`."""
    listed = data.get("metric_list")
    metrics = (
        tuple(map(_metric, expanded_entries(listed)))
        if listed
        else tuple(map(MetricSpec, DEFAULT_METRICS[output_type]))
    )
    pipelines = tuple(map(_pipeline, data.get("filter_list", ())))
    return Scoring(output_type, metrics, pipelines or PLAIN_PIPELINES, data.get("process_results"))


def _metric(entry: Mapping[str, Any]) -> MetricSpec:
    metric = entry["metric"]
    is_code = not isinstance(metric, str)
    return MetricSpec(
        name=code_name(metric) if is_code else metric,
        aggregation=entry.get("aggregation"),
        higher_is_better=entry.get("higher_is_better"),
        options={key: value for key, value in entry.items() if key not in _METRIC_OWN_KEYS},
        function=metric if is_code else None,
        is_external=entry.get("hf_evaluate") is True,
    )


def code_name(code: Any) -> str:
    """Name of a function or class of task code; a partial function has the name of the wrapped one."""
    named = getattr(code, "func", code)
    return str(getattr(named, "__name__", type(named).__name__))


def _pipeline(entry: Mapping[str, Any]) -> PipelineSpec:
    return PipelineSpec(str(entry["name"]), tuple(map(_step, entry["filter"])))


def _step(step: Mapping[str, Any]) -> FilterSpec:
    function = step["function"]
    options = {key: value for key, value in step.items() if key != "function"}
    if isinstance(function, str):
        return FilterSpec(function, options)
    return FilterSpec(code_name(function), options, function)


def plain_config(data: Mapping[str, Any]) -> dict[str, Any]:
    """A task file's mapping as JSON data, for the record."""

    def plain(value: Any) -> Any:
        if isinstance(value, FunctionReference):
            return str(value)
        if isinstance(value, Mapping):
            return {str(key): plain(item) for key, item in value.items()}
        return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value

    return {key: plain(value) for key, value in data.items() if value is not None}
