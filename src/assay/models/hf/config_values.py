"""Values of a transformers configuration, also where they differ from layer to layer.

Takes a configuration and names; gives numbers. A model such as Gemma 4 raises an error when a setting that its layers
disagree about is read from the whole.
"""

from __future__ import annotations

from typing import Any


def config_value(config: Any, name: str) -> Any:
    """A setting; None where there is none, the largest where layers have numbers of their own."""
    try:
        return getattr(config, name, None)
    except Exception:  # transformers' own kind, a RuntimeError, is not public
        layers = [getattr(layer, name, None) for layer in getattr(config, "per_layer_config", ())]
    return max((value for value in layers if isinstance(value, (int, float))), default=None)


def config_number(config: Any, *names: str) -> float:
    """The first of some settings that is a number; 0 when none is."""
    values = (config_value(config, name) for name in names)
    return next((float(value) for value in values if isinstance(value, (int, float))), 0.0)
