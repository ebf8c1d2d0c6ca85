"""Checks of the arguments of small models: unknown names and whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.core.errors import Fault, ModelError, did_you_mean


def reject_unknown_arguments(model: str, args: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Fails, naming all of them, when there are arguments that a model does not know."""
    expected = "one of: " + ", ".join(known)
    unknown = [name for name in args if name not in known]
    if unknown:
        raise ModelError(
            *(Fault("model_args", f'{model} has no "{name}"{did_you_mean(name, known)}', expected) for name in unknown)
        )


def whole_number(model: str, args: Mapping[str, Any], name: str, default: int) -> int:
    """An argument that must be a whole number; text from a command line will do."""
    value = args.get(name, default)
    # bool is an int to Python, but `seed=True` is a slip.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        return int(value)
    raise ModelError(Fault("model_args", f"{model}: {name}={value!r}", "a whole number"))
