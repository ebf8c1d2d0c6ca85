"""What training takes and gives, as plain data: lessons, settings, progress, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from assay.core.requests import Request

FULL, LORA, HEAD = METHODS = ("full", "lora", "head")
# Validation metric → whether more of it is better.
DIRECTIONS = {"accuracy": True, "loss": False}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A document to learn from: what would be asked about it, and what is right.

    Attributes:
        requests: of a language model, the right continuation and, where there is a choice, the others; of a head, the
            one request that it answers.
        right: place of the right continuation, label or choice.
        answer: of a span, the right words; empty where the context has none.
        start: where they begin in the context, in characters.
    """

    requests: tuple[Request, ...]
    right: int = 0
    answer: str = ""
    start: int = 0


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
        metric: what is watched on the validation lessons: `accuracy` or `loss`.
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
    metric: str = "accuracy"
    patience: int | None = None
    check_every: int | None = None
    max_length: int | None = None
    lora_rank: int = 8
    lora_alpha: float = 16.0
    lora_dropout: float = 0.0
    lora_targets: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON data."""
        return {**asdict(self), "lora_targets": list(self.lora_targets)}


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
        metric: the validation metric; empty where nothing was validated.
        value: its value there.
        history: one entry per check: step, loss, metric.
        notices: what the user should know.
    """

    steps: int
    best_step: int
    metric: str = ""
    value: float | None = None
    history: tuple[Mapping[str, float], ...] = field(default=())
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {**asdict(self), "history": [dict(entry) for entry in self.history], "notices": list(self.notices)}
