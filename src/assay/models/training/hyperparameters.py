"""What settings mean for one training: whether they make sense, how many steps they are, which rate is used.

Takes `FitSettings`; gives numbers, or one error with every fault.
"""

from __future__ import annotations

from math import ceil

from assay.core.errors import Fault, ModelError
from assay.core.training import DIRECTIONS, FULL, HEAD, LORA, METHODS, FitSettings

DECODER, ENCODER_DECODER, ENCODER = "causal", "encoder-decoder", "encoder"
# What numpy takes, which is seeded too.
SEED_LIMIT = 1 << 32
SCHEDULES = {"linear": "linear", "constant": "constant_with_warmup"}

# Highest rate where none is given. All weights of a decoder are moved with care; what starts at zero or at random
# (low-rank additions, heads) needs more.
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
    """The rate asked for, else the usual one of the method and the family."""
    if settings.learning_rate is not None:
        return settings.learning_rate
    return LEARNING_RATES[settings.method, family]


def steps_per_epoch(example_count: int, settings: FitSettings) -> int:
    """Steps of one pass over the lessons; the last may have fewer of them."""
    return ceil(ceil(example_count / settings.batch_size) / settings.accumulation)


def count_steps(example_count: int, settings: FitSettings) -> int:
    """Steps in all, unless training stops early."""
    steps = max(ceil(settings.epochs * steps_per_epoch(example_count, settings)), 1)
    return steps if settings.max_steps is None else min(steps, settings.max_steps)


def check_settings(settings: FitSettings, has_validation: bool) -> None:
    """Fails with every setting that makes no sense."""
    faults = [*_choices(settings), *_numbers(settings)]
    if settings.patience is not None and not has_validation:
        found = f"is {settings.patience}, but there is nothing to validate on"
        faults.append(Fault("patience", found, next="Leave it out, or hold out some lessons"))
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
    least_one = [(name, "a whole number from 1 on", getattr(settings, name)) for name in counts]
    faults = [
        Fault(name, f"is {value}", expected) for name, expected, value in least_one if value is not None and value < 1
    ]
    for name, value in (("epochs", settings.epochs), ("learning_rate", settings.learning_rate)):
        if value is not None and not value > 0:
            faults.append(Fault(name, f"is {value}", "a number above 0"))
    for name in ("warmup", "lora_dropout"):
        if not 0 <= getattr(settings, name) < 1:
            faults.append(Fault(name, f"is {getattr(settings, name)}", "a share from 0 on, below 1"))
    if not 0 <= settings.seed < SEED_LIMIT:
        faults.append(Fault("seed", f"is {settings.seed}", f"a whole number from 0 to {SEED_LIMIT - 1}"))
    if not settings.weight_decay >= 0:
        faults.append(Fault("weight_decay", f"is {settings.weight_decay}", "a number from 0 on"))
    return faults
