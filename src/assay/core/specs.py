"""What the user asked for, as plain data. Parsed once at the edge; inside, nobody reads argv or YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from assay.core.call_checks import checked_dataclass


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds of a run, in lm-eval's order and with its defaults. Only `fewshot` and `sampling` act here.

    Assay seeds no global generator; `python` and `numpy` are kept for task code and for the record.
    """

    python: int | None = 0
    numpy: int | None = 1234
    sampling: int | None = 1234
    fewshot: int | None = 1234


@dataclass(frozen=True, slots=True)
class ChatSpec:
    """Whether and how prompts become conversations."""

    apply: bool = False
    template: str | None = None
    system: str | None = None
    multiturn: bool = True


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How a run reads whole texts.

    Attributes:
        window: tokens of a window, see `Windows`; None for what a task or the model says.
        stride: tokens that a later window scores; None for what a task says, else as many as it holds.
        text_column: column of the user's own JSON Lines files that holds a document's text.
        domain_column: column of them that says where a document belongs; None to go by files.
        folder: where a relative path of such files begins that leads nowhere from here: where a recorded run began.
    """

    window: int | None = None
    stride: int | None = None
    text_column: str = "text"
    domain_column: str | None = None
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class SubsamplingOptions:
    """How a run evaluates part of the documents.

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
    """What a run varies, besides prompts: every task is asked in all combinations.

    Attributes:
        seeds: seeds of the few-shot draws; empty for the run's own alone.
        orders: in how many orders the choices are listed; 1 for their own alone.
        draws: how often every answer is drawn; None as often as the tasks say.
    """

    seeds: tuple[int, ...] = ()
    orders: int = 1
    draws: int | None = None


# The tool whose known defects a run can repeat, see docs/lm-eval-compatibility.md. Conventions of this and of other
# tools are in profiles, see docs/profiles.md.
LM_EVAL = "lm-eval"


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What a run changes about each task.

    Attributes:
        num_fewshot: examples per prompt; None keeps the task's own number. A task that says 0 keeps 0.
        fewshot_seed: seed of the few-shot draws.
        sampling_seed: seed of sampled generations.
        chat: conversation settings.
        generation: overrides of generation settings, in lm-eval's names.
        predict_only: ask and record, score nothing.
        metadata: what the run tells tasks that make their own data: the model's settings and `--metadata`.
        python_seed: seed of Python's global generator while task code makes documents.
        numpy_seed: seed of numpy's global generator while task code makes documents.
        confirm_unsafe: whether tasks marked `unsafe_code` may run.
        like: a tool whose profile the tasks follow, or the path of a profile; of lm-eval, the defects that can change
            a score are repeated too. None for none.
        samples: task name → places of the documents that the run asks about; None for no such choice.
        style: how multiple-choice questions are put, as text: `letters`, `hybrid:rotated`; None as the tasks do it.
        scoring: `metric_list` and `filter_list` of task files, in place of the tasks' own; what does not fit a task's
            shape is left out there.
        prompts: PromptSource's templates, a file or a folder of them, in every one of which tasks are asked; `all` for
            the prompts that the task files name, which then must name some; None as the tasks have it.
        original_task: of several prompts, only those that ask what the dataset was made for.
        texts: how whole texts are read.
        fewshot_sampler: which examples stand before a document, by name; None as the tasks have it.
        axes: what is varied.
        own_examples: whether a document that is drawn among its own few-shot examples is shown there, as lm-eval does
            and Assay did; for runs that were recorded so.
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

    @property
    def allows_self_example(self) -> bool:
        """Whether a document may be its own example."""
        return self.own_examples or self.like == LM_EVAL

    def shots(self, own: int | None) -> int:
        """Examples per prompt of a task with a number of its own. The run's number wins, except over a 0."""
        return own or 0 if self.num_fewshot is None or own == 0 else self.num_fewshot


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How a model is run; nothing here may change its answers, so nothing here is in a key."""

    batch_size: str = "auto"
    device: str | None = None
    engine: str = "auto"


@checked_dataclass
@dataclass(frozen=True, slots=True)
class RunSpec:
    """A whole run as asked for.

    Attributes:
        model: name in the model table.
        model_args: the model's own settings.
        tasks: names, wildcards, or paths of task files.
        include_path: folders with more task files.
        limit: documents per task: a count (>= 1) or a share (< 1) from the start; None for all.
        samples: task name → places of the documents to ask; None for no such choice.
        options: what the run changes about tasks.
        settings: how the model is run.
        seeds: all seeds.
        bootstrap_iters: resamples for lm-eval's standard errors; 0 turns them off.
        allow_code: whether Python code of task files below `include_path` may run; or names of installed packages,
            to let only theirs run.
        cluster: column or template that says which documents belong together, or `auto`; None as the tasks have it.
        sparing: random samples and stopping early.
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
    sparing: SubsamplingOptions = field(default_factory=SubsamplingOptions)

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunSpec:
        """The spec that `to_json` gave, also after a way through a file. What an older record lacks has its default."""
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
        given["sparing"] = SubsamplingOptions(**_known_fields(SubsamplingOptions, data.get("sparing") or {}))
        given["samples"] = None if data.get("samples") is None else _index_tuples(data["samples"])
        for name in ("tasks", "include_path", "allow_code"):
            if isinstance(given.get(name), list):
                given[name] = tuple(given[name])
        return cls(**given)


def _known_fields(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are fields of a class; those of a newer record that it does not know are left out."""
    return {entry.name: data[entry.name] for entry in fields(kind) if entry.name in data}


def _index_tuples(samples: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(indices) for name, indices in samples.items()}


@checked_dataclass
@dataclass(frozen=True, slots=True)
class FilterSpec:
    """One step of a pipeline: a filter's name and its settings.

    Attributes:
        name: name in the filter table, or of the task's own code.
        options: settings.
        factory: the task's own filter: called with the settings, it gives an object whose `apply(responses, documents)`
            maps the list of all questions; None for a filter of the table.
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


# What happens to outputs where a task names no filters.
PLAIN_PIPELINES = (PipelineSpec("none", (FilterSpec("take_first"),)),)


@checked_dataclass
@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A metric by name, with what the task file says about it. None means the metric's own default.

    Attributes:
        name: name in the metric table, of the task's own code, or of the `evaluate` package.
        aggregation: name in the aggregation table, or the task's own function: values → number.
        options: settings.
        function: the task's own metric, called as lm-eval calls it; None for a metric of a table.
        is_external: whether the task file asks for the `evaluate` package's metric of this name.
    """

    name: str
    aggregation: str | Callable[..., Any] | None = None
    higher_is_better: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None
    is_external: bool = False


# Metrics that compare a choice with itself after a prompt that says nothing of the question → that prompt. An empty
# one is the model's prefix token: its BOS, or its EOS where it has none.
NULL_PROMPTS = {"acc_mutual_info": "", "acc_mutual_phrase": "Answer:"}
# Metrics that read the likelihood of the whole prompt.
WHOLE_PROMPT_METRICS = ("acc_opencompass",)


def null_prompt(metric: MetricSpec) -> str:
    """The prompt without question that a metric of `NULL_PROMPTS` compares with; `phrase` is another one."""
    return str(metric.options.get("phrase", NULL_PROMPTS[metric.name]))


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Scoring:
    """How a task's outputs become numbers: names, resolved in the scoring room, or the task's own code.

    Attributes:
        scorer: the question's shape.
        metrics: what is reported.
        pipelines: filter chains, each scored by itself.
        process: the task's own scoring of one document: (fields, what the pipeline left of each question) → metric
            name → value. The metrics then only say how the values are aggregated. None for the metrics' own.
    """

    scorer: str
    metrics: tuple[MetricSpec, ...]
    pipelines: tuple[PipelineSpec, ...] = PLAIN_PIPELINES
    process: Callable[[dict[str, Any], list[Any]], Mapping[str, Any]] | None = None

    @property
    def nulls(self) -> tuple[str, ...]:
        """Prompts without question that the metrics need, each once."""
        return tuple(dict.fromkeys(null_prompt(spec) for spec in self.metrics if spec.name in NULL_PROMPTS))

    @property
    def reads_prompts(self) -> bool:
        """Whether a metric needs the likelihood of the whole prompt."""
        return any(spec.name in WHOLE_PROMPT_METRICS for spec in self.metrics)


@checked_dataclass
@dataclass(frozen=True, slots=True)
class TaskCard:
    """What a task says of itself, for reports.

    Attributes:
        name: unique name.
        version: version of the definition, as a number or text.
        alias: name to show.
        kind: request shape, in lm-eval's `output_type` words.
        num_fewshot: examples per prompt.
        config: the whole definition as plain data.
        source: the file that defines it, or where it came from.
    """

    name: str
    version: Any
    alias: str
    kind: str
    num_fewshot: int
    config: Mapping[str, Any]
    source: str


def named_sampler(config: Mapping[str, Any]) -> str:
    """Which few-shot examples a task's definition names: another one's than its file's comes first."""
    own = config.get("fewshot_config")
    named = own.get("sampler") if isinstance(own, Mapping) else None
    return str(config.get("fewshot_sampler") or named or "default")


@dataclass(frozen=True, slots=True)
class GroupMetricSpec:
    """A metric that a group reports over its leaves.

    Attributes:
        metric: name of the leaves' metric.
        filters: pipelines to report; None for every pipeline found among the leaves.
        weight_by_size: whether a leaf counts by its documents or once.
    """

    metric: str
    filters: tuple[str, ...] | None = None
    weight_by_size: bool = True


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group in a run: its direct members, in order, and what it reports.

    Attributes:
        metrics: means over the leaves.
        is_pooled: whether it reports, instead, what the leaves report, computed over all their documents at once.
    """

    name: str
    alias: str
    members: tuple[str, ...]
    metrics: tuple[GroupMetricSpec, ...] = ()
    version: Any = None
    is_pooled: bool = False
