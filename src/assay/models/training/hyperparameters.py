"""Hyperparameters of a training run: validation, number of steps, default learning rates.

In: `FitSettings`. Out: numbers, or one error that lists every fault.
"""

from __future__ import annotations

from math import ceil

from assay.core.errors import Fault, ModelError
from assay.core.training import DIRECTIONS, FULL, HEAD, LORA, METHODS, FitSettings

DECODER, ENCODER_DECODER, ENCODER = "causal", "encoder-decoder", "encoder"
# The limit of numpy, which is seeded too.
SEED_LIMIT = 1 << 32
SCHEDULES = {"linear": "linear", "constant": "constant_with_warmup"}

# Default peak learning rates. Full fine-tuning needs a low rate; weights that start at zero or at random (LoRA, heads)
# need a higher one.
LEARNING_RATES = {
    (FULL, DECODER): 2e-5,
    (FULL, ENCODER_DECODER): 1e-4,
    (FULL, ENCODER): 5e-5,
    (LORA, DECODER): 2e-4,
    (LORA, ENCODER_DECODER): 5e-4,
    (LORA, ENCODER): 5e-4,
    (HEAD, DECODER): 1e-3,
    (HEAD, ENCODER_DECODER): 1e-3,
    (HEAD, ENCODER): 1e-3,
}


def learning_rate(settings: FitSettings, family: str) -> float:
    """The peak learning rate: the user's, else the default of the method and family."""
    if settings.learning_rate is not None:
        return settings.learning_rate
    return LEARNING_RATES[settings.method, family]


def steps_per_epoch(example_count: int, settings: FitSettings) -> int:
    """Optimizer steps per epoch; the last may have fewer examples."""
    return ceil(ceil(example_count / settings.batch_size) / settings.accumulation)


def count_steps(example_count: int, settings: FitSettings) -> int:
    """Total optimizer steps, unless early stopping ends training sooner."""
    steps = max(ceil(settings.epochs * steps_per_epoch(example_count, settings)), 1)
    return steps if settings.max_steps is None else min(steps, settings.max_steps)


def check_settings(settings: FitSettings, has_validation: bool) -> None:
    """Raises an error that lists every invalid setting."""
    faults = [*_choices(settings), *_numbers(settings)]
    if settings.patience is not None and not has_validation:
        found = f"is {settings.patience}, but there are no validation examples"
        faults.append(Fault("patience", found, next="Leave it out, or hold out validation examples"))
    if faults:
        raise ModelError(*faults)


def _choices(settings: FitSettings) -> list[Fault]:
    known = {
        "method": (settings.method, METHODS),
        "metric": (settings.validation_metric, tuple(DIRECTIONS)),
        "schedule": (settings.schedule, tuple(SCHEDULES)),
    }
    return [
        Fault(name, f'found "{value}"', "one of: " + ", ".join(names))
        for name, (value, names) in known.items()
        if value not in names
    ]


def _numbers(settings: FitSettings) -> list[Fault]:
    counts = ("max_steps", "batch_size", "accumulation", "patience", "check_every", "max_length", "lora_rank")
    least_one = [(name, "a whole number, at least 1", getattr(settings, name)) for name in counts]
    faults = [
        Fault(name, f"is {value}", expected) for name, expected, value in least_one if value is not None and value < 1
    ]
    for name, value in (("epochs", settings.epochs), ("learning_rate", settings.learning_rate)):
        if value is not None and not value > 0:
            faults.append(Fault(name, f"is {value}", "a number above 0"))
    for name in ("warmup", "lora_dropout"):
        if not 0 <= getattr(settings, name) < 1:
            faults.append(Fault(name, f"is {getattr(settings, name)}", "a number from 0 to below 1"))
    if not 0 <= settings.seed < SEED_LIMIT:
        faults.append(Fault("seed", f"is {settings.seed}", f"a whole number from 0 to {SEED_LIMIT - 1}"))
    if not settings.weight_decay >= 0:
        faults.append(Fault("weight_decay", f"is {settings.weight_decay}", "a number, at least 0"))
    return faults
