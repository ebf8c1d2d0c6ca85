"""Names for files and screens: safe on every file system, harmless on every terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FORBIDDEN = re.compile(r"[\"<>:/|\\?*\[\]\s\x00-\x1f]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MODEL_KEYS = ("peft", "delta", "pretrained", "model", "path", "engine")
_LONGEST = 120


def file_name(text: str) -> str:
    """A text as part of a file name; never a path, never too long."""
    name = _FORBIDDEN.sub("__", text).lstrip(".") or "unnamed"
    return name[-_LONGEST:] if len(name) > _LONGEST else name


def model_name(model: str, model_args: Mapping[str, Any]) -> str:
    """What a model is called in files: lm-eval's rule, and the model's own name where that has none."""
    for key in _MODEL_KEYS:
        if model_args.get(key):
            return str(model_args[key])
    return model


def printable(text: str) -> str:
    """A text without control characters and direction marks, so that data cannot steer the terminal."""
    return _CONTROLS.sub("\ufffd", text)
