"""What training takes and gives, as plain data: lessons, settings, progress, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from assay.core.errors import Fault, UserError, did_you_mean
from assay.core.identity import digest_all
from assay.core.requests import ChoiceSelection, Classification, Request, SpanExtraction
from assay.core.secrets import redacted_text

FULL, LORA, HEAD = METHODS = ("full", "lora", "head")
ACCURACY, LOSS, MCC, F1, ACC_NORM = "accuracy", "loss", "mcc", "f1", "acc_norm"
WORD_F1 = "squad_f1"
# Validation metric → whether more of it is better.
DIRECTIONS = {ACCURACY: True, LOSS: False, MCC: True, F1: True, ACC_NORM: True, WORD_F1: True}
# A task's metric → what is watched for it. Of an answer that is to be written, the right one is right or not.
VALIDATION_METRIC_FOR = {
    **dict.fromkeys(("acc", "exact_match", "squad_em"), ACCURACY),
    **dict.fromkeys(("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "log_loss"), LOSS),
    **{name: name for name in (MCC, F1, ACC_NORM, WORD_F1)},
}


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A document to learn from: what would be asked about it, and what is right.

    Attributes:
        requests: of a language model, the right continuation and, where there is a choice, the others; of a head, the
            one request that it answers.
        right: place of the right continuation, label or choice.
        answer: of a span, the right words; empty where the context has none.
        start: where they begin in the context, in characters.
        lengths: of a language model's choices, their characters, as `acc_norm` counts them; empty where not known.
    """

    requests: tuple[Request, ...]
    right: int = 0
    answer: str = ""
    start: int = 0
    lengths: tuple[int, ...] = ()


def digest_training_examples(training_examples: Iterable[TrainingExample]) -> str:
    """64 hex digits that stand for lessons in their order."""
    return digest_all(
        [[[entry.kind, *entry.identity()] for entry in example.requests], example.right, example.answer, example.start]
        for example in training_examples
    )


def metric_unavailable_reason(metric: str, validation: Iterable[TrainingExample]) -> str | None:
    """Why a metric cannot be had of validation lessons; None where it can."""
    if metric in (ACCURACY, LOSS):
        return None
    for number, example in enumerate(validation, 1):
        first = example.requests[0]
        if metric == WORD_F1:
            if not isinstance(first, SpanExtraction):
                return f"validation lesson {number} does not ask for a span"
            continue
        has_choices = len(example.requests) > 1 or isinstance(first, (Classification, ChoiceSelection))
        if not has_choices:
            return f"validation lesson {number} has no choices"
        if metric == ACC_NORM and len(example.lengths) != len(example.requests):
            return f"the characters of the choices of validation lesson {number} are not known"
    return None


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How a model is trained. All of it is part of the new model's record.

    Attributes:
        method: `full` trains all weights, `lora` low-rank additions, `head` the head alone.
        epochs: passes over the lessons.
        max_steps: most steps; None for as many as the epochs have.
        learning_rate: highest rate; None for the method's own (see docs/finetuning.md).
        warmup: share of the steps in which the rate rises.
        schedule: what the rate does afterwards: `linear` (falls to zero) or `constant`.
        weight_decay: of AdamW.
        batch_size: lessons per forward pass.
        accumulation: forward passes per step.
        seed: of the shuffling, of dropout, of a new head and of what is held out.
        holdout: share of the lessons kept back for validation where the task has no split for it; 0 for none.
        metric: what is watched on the validation lessons, a name of `DIRECTIONS`; None for the first metric of the
            tasks that are learnt, else accuracy.
        patience: checks without improvement after which training stops; None to go on to the end.
        check_every: steps between checks, each of which is a checkpoint; None for once an epoch.
        max_length: most tokens of a lesson; None for what the model takes.
        lora_rank: rank of the additions.
        lora_alpha: their weight.
        lora_dropout: dropout before them.
        lora_targets: names of the layers that get them; empty for the family's usual ones.
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
        """The validation metric that decides which weights are kept."""
        return self.metric or ACCURACY

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON data."""
        return {**asdict(self), "metric": self.validation_metric, "lora_targets": list(self.lora_targets)}


CONCATENATED, BALANCED = MIXES = ("concatenated", "balanced")


@dataclass(frozen=True, slots=True)
class FitSpec:
    """A wish to train: how, and on what of the tasks.

    Attributes:
        settings: how.
        mix: of several tasks, `concatenated` takes every lesson once; `balanced` repeats those of smaller tasks until
            each task has as many as the largest.
        limit: most lessons per task, drawn by the seed; None for all.
        check_limit: most validation lessons per task, drawn likewise; None for all.
    """

    settings: FitSettings = field(default_factory=FitSettings)
    mix: str = CONCATENATED
    limit: int | None = None
    check_limit: int | None = None


def _integer_from(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = float(value)
        if isinstance(value, bool) or number != int(number) or number < least:
            raise ValueError
        return int(number)

    return read


def _number(least: float, most: float = math.inf) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if isinstance(value, bool) or not least <= float(value) <= most:
            raise ValueError
        return float(value)

    return read


def _above_zero(value: Any) -> float:
    if isinstance(value, bool) or not 0 < float(value) < math.inf:
        raise ValueError
    return float(value)


def _one_of(names: Iterable[str]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return read


def _read_validation_metric(value: Any) -> str:
    """A validation metric, also by the name of the task's metric that it stands for."""
    found = VALIDATION_METRIC_FOR.get(value, value)
    if found not in DIRECTIONS:
        raise ValueError
    return str(found)


def _names(value: Any) -> tuple[str, ...]:
    parts = value.replace("+", " ").split() if isinstance(value, str) else [str(part) for part in value]
    if not parts:
        raise ValueError
    return tuple(parts)


def _listed(names: Iterable[str]) -> str:
    return "one of " + ", ".join(names)


# Name on the command line and in a model's text → field, how it is read, what is expected.
FINETUNE = "finetune"
FIT_KEYS: Mapping[str, tuple[str, Callable[[Any], Any], str]] = {
    FINETUNE: ("method", _one_of(METHODS), _listed(METHODS)),
    "epochs": ("epochs", _above_zero, "a number above 0"),
    "max_steps": ("max_steps", _integer_from(1), "a whole number from 1 on"),
    "learning_rate": ("learning_rate", _above_zero, "a number above 0"),
    "warmup": ("warmup", _number(0, 1), "a share from 0 to 1"),
    "schedule": ("schedule", _one_of(("linear", "constant")), "linear or constant"),
    "weight_decay": ("weight_decay", _number(0), "a number from 0 on"),
    "train_batch_size": ("batch_size", _integer_from(1), "a whole number from 1 on"),
    "accumulation": ("accumulation", _integer_from(1), "a whole number from 1 on"),
    "train_seed": ("seed", _integer_from(0), "a whole number from 0 on"),
    "holdout": ("holdout", _number(0, 0.9), "a share from 0 to 0.9"),
    "validation_metric": ("metric", _read_validation_metric, _listed(DIRECTIONS)),
    "patience": ("patience", _integer_from(1), "a whole number from 1 on"),
    "check_every": ("check_every", _integer_from(1), "a whole number from 1 on"),
    "train_max_length": ("max_length", _integer_from(1), "a whole number from 1 on"),
    "lora_rank": ("lora_rank", _integer_from(1), "a whole number from 1 on"),
    "lora_alpha": ("lora_alpha", _above_zero, "a number above 0"),
    "lora_dropout": ("lora_dropout", _number(0, 1), "a share from 0 to 1"),
    "lora_targets": ("lora_targets", _names, "names of layers with + between them"),
    "mix": ("mix", _one_of(MIXES), _listed(MIXES)),
    "train_limit": ("limit", _integer_from(1), "a whole number from 1 on"),
    "check_limit": ("check_limit", _integer_from(1), "a whole number from 1 on"),
}
_OWN_FIELDS = ("mix", "limit", "check_limit")


def parse_fit_spec(given: Mapping[str, Any], where: str) -> FitSpec:
    """A wish to train from loose values, by the names of `FIT_KEYS`; every wrong one is told.

    Args:
        given: the values; None stands for the default.
        where: for errors: `model minilm`, or nothing on the command line.
    """
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    for name, value in given.items():
        location = f"{where}, {name}" if where else f"--{name}"
        if name not in FIT_KEYS:
            found = f"no such setting of training{did_you_mean(name, FIT_KEYS)}"
            faults.append(Fault(location, found, _listed(FIT_KEYS)))
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
    """How far training has come.

    Attributes:
        step: steps done.
        steps: steps in all.
        loss: mean loss since the last report; None before the first.
        value: the validation metric at the last check; None before the first.
    """

    step: int
    steps: int
    loss: float | None = None
    value: float | None = None


FitListener = Callable[[FitProgress], None]


@dataclass(frozen=True, slots=True)
class FitReport:
    """What came of training.

    Attributes:
        steps: steps done; fewer than planned where it stopped early.
        best_step: the step whose weights were kept.
        metric: the validation metric that decided; empty where nothing was validated.
        value: its value there.
        loss: the validation loss there, which decides between checks of equal value.
        tied: other checks with the same value, of higher loss or later.
        history: one entry per check: step, loss, and unless the loss is watched the accuracy; of lessons with choices
            the other metrics too, in how many classes the picks fall (`classes`), and the share of the most frequent
            right one (`majority`).
        notices: what the user should know; secrets are hidden.
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
