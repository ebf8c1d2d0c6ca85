"""Checks of the arguments of small models: unknown names and whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.core.errors import Fault, ModelError, did_you_mean


def reject_unknown_arguments(model: str, args: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raises an error that lists every argument the model does not have."""
    expected = "one of: " + ", ".join(known)
    unknown = [name for name in args if name not in known]
    if unknown:
        raise ModelError(
            *(Fault("model_args", f'{model} has no "{name}"{did_you_mean(name, known)}', expected) for name in unknown)
        )


def whole_number(model: str, args: Mapping[str, Any], name: str, default: int) -> int:
    """An argument that must be a whole number; accepts text from a command line."""
    value = args.get(name, default)
    # bool is a subclass of int, but `seed=True` is a mistake.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        return int(value)
    raise ModelError(Fault("model_args", f"{model}: {name}={value!r}", "a whole number"))
