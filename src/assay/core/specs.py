"""Specification of a run as plain data. Parsed once at the edge; nothing inside reads argv or YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from assay.core.call_checks import checked_dataclass
from assay.core.score_terms import GroupScore
from assay.core.task_variants import TaskVariant, base_name, task_family


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds of a run, in lm-eval's order and with its defaults. Only `fewshot` and `sampling` have an effect.

    Assay seeds no global generator; `python` and `numpy` are passed to task code and recorded.
    """

    python: int | None = 0
    numpy: int | None = 1234
    sampling: int | None = 1234
    fewshot: int | None = 1234


@dataclass(frozen=True, slots=True)
class ChatSpec:
    """Whether and how prompts are rendered as conversations."""

    apply: bool = False
    template: str | None = None
    system: str | None = None
    multiturn: bool = True


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Settings for reading whole texts (perplexity tasks).

    Attributes:
        window: tokens per window, see `Windows`; None for the task's or the model's value.
        stride: tokens scored by each later window; None for the task's value, or else the window length.
        text_column: column of the user's own JSON Lines files that holds a document's text.
        domain_column: column that names a document's domain; None to use the file names.
        folder: base folder of relative paths that do not exist from here: where a recorded run was started.
    """

    window: int | None = None
    stride: int | None = None
    text_column: str = "text"
    domain_column: str | None = None
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class SubsamplingOptions:
    """Subsampling and early stopping of a run.

    Attributes:
        sample: size of the random sample per task: a count (>= 1) or a share (< 1); None for all documents.
        seed: seed of the sample, and of the order in which a run that may stop early takes documents.
        until_se: a standard error; the run stops when its anytime-valid interval is as narrow as one of this error.
        until_decided: a recorded run; the run stops when a test decides which of the two is better.
        reference: a recorded run on all documents, used as a control variate.
    """

    sample: float | None = None
    seed: int = 1234
    until_se: float | None = None
    until_decided: str | None = None
    reference: str | None = None

    @property
    def may_stop_early(self) -> bool:
        """Whether the run takes documents in laps and may stop after any of them."""
        return self.until_se is not None or self.until_decided is not None


@dataclass(frozen=True, slots=True)
class VariationAxes:
    """Axes that a run varies besides prompts: every task is evaluated in all combinations.

    Attributes:
        seeds: seeds of the few-shot draws; empty for the run's own seed only.
        orders: number of orders in which the choices are listed; 1 for the original order only.
        draws: samples per answer; None for the tasks' own number.
    """

    seeds: tuple[int, ...] = ()
    orders: int = 1
    draws: int | None = None


# Variable that names the folder of copies of datasets if an option does not.
DATA_VARIABLE = "ASSAY_DATA"
# The tool whose known defects a run can reproduce, see docs/lm-eval-compatibility.md. Conventions of this and other
# tools are in profiles, see docs/profiles.md.
LM_EVAL = "lm-eval"


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Changes that a run makes to every task.

    Attributes:
        num_fewshot: examples per prompt; None keeps the task's own number. A task that sets 0 keeps 0.
        fewshot_seed: seed of the few-shot draws.
        sampling_seed: seed of sampled generations.
        chat: conversation settings.
        generation: overrides of generation settings, under lm-eval's names.
        predict_only: record responses without scoring them.
        metadata: data passed to tasks that generate their own documents: the model's settings and `--metadata`.
        python_seed: seed of Python's global generator while task code generates documents.
        numpy_seed: seed of numpy's global generator while task code generates documents.
        confirm_unsafe: whether tasks marked `unsafe_code` may run.
        like: a tool whose profile the tasks follow, or the path of a profile; for lm-eval, the defects that can change
            a score are reproduced too. None for no profile.
        samples: task name → indices of the documents to evaluate; None for no such selection.
        style: prompt style of multiple-choice questions: `letters`, `hybrid:rotated`; None for the tasks' own.
        scoring: `metric_list` and `filter_list` of task files, replacing the tasks' own; entries that do not fit a
            task's output type are skipped there.
        prompts: PromptSource templates, a file or a folder of them; tasks are evaluated with every one. `all` for
            the prompts that the task files name, which then must name some; None for the tasks' own.
        original_task: whether to use only the prompts for the dataset's original task.
        texts: settings for reading whole texts.
        fewshot_sampler: name of the few-shot sampler; None for the tasks' own.
        axes: the axes that are varied.
        data: folder of local copies of datasets, read before the Hub; None for none.
        own_examples: whether a document drawn among its own few-shot examples is shown there, as in lm-eval and in
            earlier versions of Assay; for runs recorded that way.
    """

    num_fewshot: int | None = None
    fewshot_seed: int | None = 1234
    sampling_seed: int | None = 1234
    chat: ChatSpec = field(default_factory=ChatSpec)
    generation: Mapping[str, Any] = field(default_factory=dict)
    predict_only: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    python_seed: int | None = 0
    numpy_seed: int | None = 1234
    confirm_unsafe: bool = False
    like: str | None = None
    samples: Mapping[str, tuple[int, ...]] | None = None
    style: str | None = None
    scoring: Mapping[str, Any] = field(default_factory=dict)
    prompts: str | None = None
    original_task: bool = False
    texts: TextOptions = field(default_factory=TextOptions)
    fewshot_sampler: str | None = None
    axes: VariationAxes = field(default_factory=VariationAxes)
    own_examples: bool = False
    data: str | None = None

    @property
    def allows_self_example(self) -> bool:
        """Whether a document may be its own example."""
        return self.own_examples or self.like == LM_EVAL

    def shots(self, own: int | None) -> int:
        """Examples per prompt for a task with this default. The run's number takes precedence, except over a 0."""
        return own or 0 if self.num_fewshot is None or own == 0 else self.num_fewshot


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Execution settings of a model; none of them may change its answers, so none is part of a key.

    Attributes:
        batch_size: sequences per batch, or `auto`.
        device: cpu, cuda, …; None for the fastest.
        engine: engine of `hf` models.
        budget: most dollars that a model behind HTTP may cost; None for no limit.
        token_budget: most tokens that a model behind HTTP may read and write; None for no limit.
    """

    batch_size: str = "auto"
    device: str | None = None
    engine: str = "auto"
    budget: float | None = None
    token_budget: int | None = None


@checked_dataclass
@dataclass(frozen=True, slots=True)
class RunSpec:
    """Specification of a whole run.

    Attributes:
        model: registered name of the model type.
        model_args: the model's own settings.
        tasks: names, wildcards, or paths of task files.
        include_path: folders with additional task files.
        limit: documents per task from the start: a count (>= 1) or a fraction (< 1); None for all.
        samples: task name → indices of the documents to evaluate; None for no such selection.
        options: changes that the run makes to tasks.
        settings: execution settings of the model.
        seeds: all seeds.
        bootstrap_iters: resamples for lm-eval's standard errors; 0 turns them off.
        allow_code: whether Python code of task files below `include_path` may run; or names of installed packages
            whose code alone may run.
        cluster: column or template that assigns documents to clusters, or `auto`; None for the tasks' own.
        subsampling: random subsamples and early stopping; `sparing` in records.
    """

    model: str
    tasks: tuple[str, ...]
    model_args: Mapping[str, Any] = field(default_factory=dict)
    include_path: tuple[str, ...] = ()
    limit: float | None = None
    samples: Mapping[str, tuple[int, ...]] | None = None
    options: TaskOptions = field(default_factory=TaskOptions)
    settings: ModelSettings = field(default_factory=ModelSettings)
    seeds: Seeds = field(default_factory=Seeds)
    bootstrap_iters: int = 100_000
    allow_code: bool | tuple[str, ...] = False
    cluster: str | None = None
    subsampling: SubsamplingOptions = field(default_factory=SubsamplingOptions)

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON data; a folder of datasets and budgets are in it only if the run has them."""
        data = asdict(self)
        data["sparing"] = data.pop("subsampling")  # the key of records since their first version
        if self.options.data is None:
            del data["options"]["data"]
        for name in ("budget", "token_budget"):
            if data["settings"][name] is None:
                del data["settings"][name]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunSpec:
        """The spec that `to_json` wrote, also after a round trip through a file. Missing fields get their defaults."""
        options = _known_fields(TaskOptions, data.get("options") or {})
        if "chat" in options:
            options["chat"] = ChatSpec(**_known_fields(ChatSpec, options["chat"]))
        if "texts" in options:
            options["texts"] = TextOptions(**_known_fields(TextOptions, options["texts"]))
        if "axes" in options:
            axes = _known_fields(VariationAxes, options["axes"])
            options["axes"] = VariationAxes(**{**axes, "seeds": tuple(axes.get("seeds", ()))})
        if options.get("samples") is not None:
            options["samples"] = _index_tuples(options["samples"])
        given = _known_fields(cls, data)
        given["options"] = TaskOptions(**options)
        given["settings"] = ModelSettings(**_known_fields(ModelSettings, data.get("settings") or {}))
        given["seeds"] = Seeds(**_known_fields(Seeds, data.get("seeds") or {}))
        given["subsampling"] = SubsamplingOptions(**_known_fields(SubsamplingOptions, data.get("sparing") or {}))
        given["samples"] = None if data.get("samples") is None else _index_tuples(data["samples"])
        for name in ("tasks", "include_path", "allow_code"):
            if isinstance(given.get(name), list):
                given[name] = tuple(given[name])
        return cls(**given)


def _known_fields(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are fields of a class; unknown fields of a newer record are ignored."""
    return {entry.name: data[entry.name] for entry in fields(kind) if entry.name in data}


def _index_tuples(samples: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(indices) for name, indices in samples.items()}


@checked_dataclass
@dataclass(frozen=True, slots=True)
class FilterSpec:
    """One step of a pipeline: a filter's name and settings.

    Attributes:
        name: registered name of the filter, or the name in the task's own code.
        options: settings.
        factory: the task's own filter: called with the settings, it returns an object whose `apply(responses,
            documents)` maps the list of all questions; None for a registered filter.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    factory: Callable[..., Any] | None = None


@checked_dataclass
@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A named chain of filters. Each pipeline starts from the raw outputs."""

    name: str
    steps: tuple[FilterSpec, ...]


# The pipeline of a task that names no filters.
PLAIN_PIPELINES = (PipelineSpec("none", (FilterSpec("take_first"),)),)


@checked_dataclass
@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric by name, with the settings from the task file. None means the metric's own default.

    Attributes:
        name: registered name of the metric, its name in the task's own code, or in the `evaluate` package.
        aggregation: registered name of the aggregation, or the task's own function: values → number.
        options: settings.
        function: the task's own metric, called as lm-eval calls it; None for a registered metric.
        is_external: whether the task file requests the metric of this name from the `evaluate` package.
    """

    name: str
    aggregation: str | Callable[..., Any] | None = None
    higher_is_better: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None
    is_external: bool = False


# Metrics that normalise a choice by its likelihood after a prompt without the question → that prompt. An empty prompt
# is the model's prefix token: its BOS, or its EOS if it has none.
NULL_PROMPTS = {"acc_mutual_info": "", "acc_mutual_phrase": "Answer:"}
# Metrics that use the likelihood of the whole prompt.
WHOLE_PROMPT_METRICS = ("acc_opencompass",)


def null_prompt(metric: MetricSpec) -> str:
    """The null prompt of a metric of `NULL_PROMPTS`; the option `phrase` replaces it."""
    return str(metric.options.get("phrase", NULL_PROMPTS[metric.name]))


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Scoring:
    """Scoring of a task's outputs: names, resolved in `assay.scoring`, or the task's own code.

    Attributes:
        scorer: the question's output type.
        metrics: the reported metrics.
        pipelines: filter chains, each scored separately.
        process: the task's own scoring of one document: (fields, filtered outputs of each question) → metric name →
            value. The metrics then only define the aggregation. None to use the metrics' own value functions.
    """

    scorer: str
    metrics: tuple[MetricSpec, ...]
    pipelines: tuple[PipelineSpec, ...] = PLAIN_PIPELINES
    process: Callable[[dict[str, Any], list[Any]], Mapping[str, Any]] | None = None

    @property
    def nulls(self) -> tuple[str, ...]:
        """Null prompts that the metrics need, without duplicates."""
        return tuple(dict.fromkeys(null_prompt(spec) for spec in self.metrics if spec.name in NULL_PROMPTS))

    @property
    def reads_prompts(self) -> bool:
        """Whether a metric needs the likelihood of the whole prompt."""
        return any(spec.name in WHOLE_PROMPT_METRICS for spec in self.metrics)


@checked_dataclass
@dataclass(frozen=True, slots=True)
class TaskCard:
    """Description of a task for reports.

    Attributes:
        name: unique name.
        version: version of the definition, as a number or text.
        alias: display name.
        kind: request type, in the terms of lm-eval's `output_type`.
        num_fewshot: examples per prompt.
        config: the whole definition as plain data.
        source: the file that defines it, or its origin.
        variant: the variant of a task file that this task is; None for tasks that a run cannot vary.
        facts: the benchmark's card: description, primary metric, chance, published numbers. They change nothing.
    """

    name: str
    version: Any
    alias: str
    kind: str
    num_fewshot: int
    config: Mapping[str, Any]
    source: str
    variant: TaskVariant | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def base(self) -> str:
        """The name without the levels of a variant: shared by all variants that differ in levels only."""
        return base_name(self.name) if self.variant is None else self.variant.base

    @property
    def family(self) -> str:
        """The task's own name, which all of its variants share, as they share its documents."""
        return task_family(self.name) if self.variant is None else self.variant.task


def named_sampler(config: Mapping[str, Any]) -> str:
    """The few-shot sampler of a task's definition; one set by the run takes precedence over the file's."""
    own = config.get("fewshot_config")
    named = own.get("sampler") if isinstance(own, Mapping) else None
    return str(config.get("fewshot_sampler") or named or "default")


@dataclass(frozen=True, slots=True)
class GroupMetricSpec:
    """A metric that a group reports over its leaf tasks.

    Attributes:
        metric: name of the leaves' metric.
        filters: pipelines to report; None for every pipeline found among the leaves.
        weight_by_size: whether a leaf is weighted by its number of documents or counts once.
    """

    metric: str
    filters: tuple[str, ...] | None = None
    weight_by_size: bool = True


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group in a run: its direct members, in order, and its reported metrics.

    Attributes:
        metrics: means over the leaves.
        is_pooled: whether it reports the leaves' own metrics, computed over all their documents at once, instead.
        scores: averages that its authors define, reported besides.
        facts: the published numbers of its card, under `references`.
    """

    name: str
    alias: str
    members: tuple[str, ...]
    metrics: tuple[GroupMetricSpec, ...] = ()
    version: Any = None
    is_pooled: bool = False
    scores: tuple[GroupScore, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)


@checked_dataclass
@dataclass(frozen=True, slots=True)
class DetectOptions:
    """A difference that a comparison of two planned runs is to detect, and the assumptions of the power calculation.

    Without a `discordance` or `deviation`, the two runs are assumed to be independent and right half of the time, which
    maximises the variance of the difference of a score from 0 to 1: they differ on half of the documents.

    Attributes:
        difference: difference of the two scores; 0.02 is 2 points.
        alpha: significance level of the test.
        discordance: share of documents on which exactly one of the runs is right.
        deviation: standard deviation of a document's score in a single run, for scores other than 0 and 1.
        correlation: correlation of the two runs' scores over documents.
    """

    difference: float
    alpha: float = 0.05
    discordance: float | None = None
    deviation: float | None = None
    correlation: float = 0.0

    @property
    def variance(self) -> float:
        """Second moment of a document's difference; for scores of 0 and 1, the share of documents that differ."""
        if self.discordance is not None:
            return self.discordance
        deviation = 0.5 if self.deviation is None else self.deviation
        return 2 * deviation**2 * (1 - self.correlation)
