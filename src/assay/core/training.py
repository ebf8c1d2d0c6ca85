"""Training as plain data: examples, settings, progress and reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.identity import digest_all
from assay.core.requests import ChoiceSelection, Classification, Rating, Request, SpanExtraction
from assay.core.secrets import redacted_text

FULL, LORA, HEAD = METHODS = ("full", "lora", "head")
ACCURACY, LOSS, MCC, F1, ACC_NORM = "accuracy", "loss", "mcc", "f1", "acc_norm"
WORD_F1, PEARSON = "squad_f1", "pearson"
# Validation metric → whether higher is better.
DIRECTIONS = {ACCURACY: True, LOSS: False, MCC: True, F1: True, ACC_NORM: True, WORD_F1: True, PEARSON: True}
# A task's metric → the validation metric used for it. A generated answer is right or wrong as a whole.
VALIDATION_METRIC_FOR = {
    **dict.fromkeys(("acc", "exact_match", "squad_em"), ACCURACY),
    **dict.fromkeys(("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "log_loss"), LOSS),
    MCC: MCC,
    F1: F1,
    ACC_NORM: ACC_NORM,
    WORD_F1: WORD_F1,
    **dict.fromkeys((PEARSON, "spearman"), PEARSON),
}


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A document to train on: its requests and the right answer.

    Attributes:
        requests: for a language model, the right continuation and, if there is a choice, the others; for a head,
            its one request.
        right: index of the right continuation, label or choice.
        answer: for a span, the right words; empty if the context holds none. For a rating, the right number as text.
        start: their start in the context, in characters.
        lengths: for a language model's choices, their lengths in characters, as for `acc_norm`; empty if unknown.
    """

    requests: tuple[Request, ...]
    right: int = 0
    answer: str = ""
    start: int = 0
    lengths: tuple[int, ...] = ()


def digest_training_examples(training_examples: Iterable[TrainingExample]) -> str:
    """64 hex digits that identify a sequence of training examples."""
    return digest_all(
        [[[entry.kind, *entry.identity()] for entry in example.requests], example.right, example.answer, example.start]
        for example in training_examples
    )


def metric_unavailable_reason(metric: str, validation: Iterable[TrainingExample]) -> str | None:
    """Why a metric cannot be computed on the validation examples; None if it can."""
    for number, example in enumerate(validation, 1):
        first = example.requests[0]
        if metric == LOSS or (metric == ACCURACY and not isinstance(first, Rating)):
            continue
        if (metric == PEARSON) != isinstance(first, Rating):
            return f"validation example {number} is {'not ' if metric == PEARSON else ''}a rating, which has a number"
        if metric == PEARSON:
            continue
        if metric == WORD_F1:
            if not isinstance(first, SpanExtraction):
                return f"validation example {number} is not a span request"
            continue
        has_choices = len(example.requests) > 1 or isinstance(first, (Classification, ChoiceSelection))
        if not has_choices:
            return f"validation example {number} has no choices"
        if metric == ACC_NORM and len(example.lengths) != len(example.requests):
            return f"the character lengths of the choices of validation example {number} are unknown"
    return None


@dataclass(frozen=True, slots=True)
class FitSettings:
    """Training settings. All of them are part of the new model's record.

    Attributes:
        method: `full` trains all weights, `lora` low-rank adapters, `head` the classifier head only.
        epochs: passes over the training examples.
        max_steps: maximum number of steps; None for as many as the epochs have.
        learning_rate: peak learning rate; None for the method's default (see docs/finetuning.md).
        warmup: fraction of the steps in which the learning rate rises.
        schedule: learning-rate schedule after warmup: `linear` (decays to zero) or `constant`.
        weight_decay: weight decay of AdamW.
        batch_size: examples per forward pass.
        accumulation: forward passes per optimiser step.
        seed: seed of shuffling, dropout, the initialisation of a new head and the holdout split.
        holdout: fraction of the training examples held out for validation if the task has no split for it; 0 for none.
        metric: validation metric, a name of `DIRECTIONS`; None for the first metric of the trained tasks, or else
            accuracy.
        patience: validations without improvement after which training stops; None to train to the end.
        check_every: steps between validations, each of which saves a checkpoint; None for once per epoch.
        max_length: maximum tokens of an example; None for the model's maximum.
        lora_rank: LoRA rank.
        lora_alpha: LoRA scaling factor.
        lora_dropout: dropout before the LoRA layers.
        lora_targets: names of the layers that get adapters; empty for the model family's default.
    """

    method: str = FULL
    epochs: float = 3.0
    max_steps: int | None = None
    learning_rate: float | None = None
    warmup: float = 0.1
    schedule: str = "linear"
    weight_decay: float = 0.0
    batch_size: int = 16
    accumulation: int = 1
    seed: int = 42
    holdout: float = 0.1
    metric: str | None = None
    patience: int | None = None
    check_every: int | None = None
    max_length: int | None = None
    lora_rank: int = 8
    lora_alpha: float = 16.0
    lora_dropout: float = 0.0
    lora_targets: tuple[str, ...] = ()

    @property
    def validation_metric(self) -> str:
        """The validation metric that selects the best checkpoint."""
        return self.metric or ACCURACY

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON data."""
        return {**asdict(self), "metric": self.validation_metric, "lora_targets": list(self.lora_targets)}


CONCATENATED, BALANCED = MIXES = ("concatenated", "balanced")


@dataclass(frozen=True, slots=True)
class FitSpec:
    """A training request: settings, and which examples of the tasks to use.

    Attributes:
        settings: the training settings.
        mix: for several tasks, `concatenated` uses every example once; `balanced` repeats the examples of smaller tasks
            until each task has as many as the largest.
        limit: maximum number of training examples per task, sampled by the seed; None for all.
        check_limit: maximum number of validation examples per task, sampled likewise; None for all.
    """

    settings: FitSettings = field(default_factory=FitSettings)
    mix: str = CONCATENATED
    limit: int | None = None
    check_limit: int | None = None


def _integer(least: int, value: Any) -> int:
    number = float(value)
    if isinstance(value, bool) or number != int(number) or number < least:
        raise ValueError
    return int(number)


def _number(least: float, most: float, value: Any) -> float:
    if isinstance(value, bool) or not least <= float(value) <= most:
        raise ValueError
    return float(value)


def _above_zero(value: Any) -> float:
    if isinstance(value, bool) or not 0 < float(value) < math.inf:
        raise ValueError
    return float(value)


def _one_of(names: Iterable[str], value: Any) -> str:
    if value not in names:
        raise ValueError
    return str(value)


def _read_validation_metric(value: Any) -> str:
    """A validation metric, given by its own name or by the task metric that it approximates."""
    found = VALIDATION_METRIC_FOR.get(value, value)
    if found not in DIRECTIONS:
        raise ValueError
    return str(found)


def _names(value: Any) -> tuple[str, ...]:
    parts = value.replace("+", " ").split() if isinstance(value, str) else [str(part) for part in value]
    if not parts:
        raise ValueError
    return tuple(parts)


# Name on the command line and in a model's arguments → field, parser, expected value.
FINETUNE = "finetune"
FIT_KEYS: Mapping[str, tuple[str, Callable[[Any], Any], str]] = {
    FINETUNE: ("method", partial(_one_of, METHODS), f"one of {', '.join(METHODS)}"),
    "epochs": ("epochs", _above_zero, "a number above 0"),
    "max_steps": ("max_steps", partial(_integer, 1), "a whole number from 1 on"),
    "learning_rate": ("learning_rate", _above_zero, "a number above 0"),
    "warmup": ("warmup", partial(_number, 0, 1), "a share from 0 to 1"),
    "schedule": ("schedule", partial(_one_of, ("linear", "constant")), "linear or constant"),
    "weight_decay": ("weight_decay", partial(_number, 0, math.inf), "a number from 0 on"),
    "train_batch_size": ("batch_size", partial(_integer, 1), "a whole number from 1 on"),
    "accumulation": ("accumulation", partial(_integer, 1), "a whole number from 1 on"),
    "train_seed": ("seed", partial(_integer, 0), "a whole number from 0 on"),
    "holdout": ("holdout", partial(_number, 0, 0.9), "a share from 0 to 0.9"),
    "validation_metric": ("metric", _read_validation_metric, f"one of {', '.join(DIRECTIONS)}"),
    "patience": ("patience", partial(_integer, 1), "a whole number from 1 on"),
    "check_every": ("check_every", partial(_integer, 1), "a whole number from 1 on"),
    "train_max_length": ("max_length", partial(_integer, 1), "a whole number from 1 on"),
    "lora_rank": ("lora_rank", partial(_integer, 1), "a whole number from 1 on"),
    "lora_alpha": ("lora_alpha", _above_zero, "a number above 0"),
    "lora_dropout": ("lora_dropout", partial(_number, 0, 1), "a share from 0 to 1"),
    "lora_targets": ("lora_targets", _names, "names of layers with + between them"),
    "mix": ("mix", partial(_one_of, MIXES), f"one of {', '.join(MIXES)}"),
    "train_limit": ("limit", partial(_integer, 1), "a whole number from 1 on"),
    "check_limit": ("check_limit", partial(_integer, 1), "a whole number from 1 on"),
}
_OWN_FIELDS = ("mix", "limit", "check_limit")


def parse_fit_spec(given: Mapping[str, Any], where: str) -> FitSpec:
    """Parses a training request from untyped values, by the names of `FIT_KEYS`; reports every invalid one.

    Args:
        given: the values; None for the default.
        where: for errors: `model minilm`, or empty on the command line.
    """
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    for name, value in given.items():
        location = f"{where}, {name}" if where else f"--{name}"
        if name not in FIT_KEYS:
            found = f"unknown training setting{did_you_mean(name, FIT_KEYS)}"
            faults.append(Fault(location, found, f"one of {', '.join(FIT_KEYS)}"))
            continue
        field_name, read, expected = FIT_KEYS[name]
        try:
            values |= {} if value is None else {field_name: read(value)}
        except (TypeError, ValueError, OverflowError):
            faults.append(Fault(location, f'is "{value}"', expected))
    if faults:
        raise UserError(*faults)
    own = {name: values.pop(name) for name in _OWN_FIELDS if name in values}
    return FitSpec(FitSettings(**values), **own)


@dataclass(frozen=True, slots=True)
class FitProgress:
    """Progress of training.

    Attributes:
        step: steps done.
        steps: total number of steps.
        loss: mean training loss since the last report; None before the first.
        value: the validation metric at the last validation; None before the first.
    """

    step: int
    steps: int
    loss: float | None = None
    value: float | None = None


FitListener = Callable[[FitProgress], None]


@dataclass(frozen=True, slots=True)
class FitReport:
    """Outcome of training.

    Attributes:
        steps: steps done; fewer than planned after early stopping.
        best_step: the step whose weights were saved.
        metric: the validation metric that selected it; empty without validation.
        value: its value at that step.
        loss: the validation loss at that step, which breaks ties.
        tied: other validations with the same value, with a higher loss or later.
        history: one entry per validation: step, loss, and the accuracy unless the loss is the metric; for examples with
            choices also the other metrics, the number of distinct predicted classes (`classes`), and the share of the
            most frequent right class (`majority`).
        notices: notices for the user; secrets are redacted.
    """

    steps: int
    best_step: int
    metric: str = ""
    value: float | None = None
    loss: float | None = None
    tied: int = 0
    history: tuple[Mapping[str, float], ...] = field(default=())
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "notices", tuple(map(redacted_text, self.notices)))

    def to_json(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {**asdict(self), "history": [dict(entry) for entry in self.history], "notices": list(self.notices)}
