"""Whether an optional package is there, told without importing it, so that a run learns it before it asks a model."""

from __future__ import annotations

import importlib.util

from assay.core.errors import missing_extra


def is_installed(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # loaded, but without a record of where it came from
        return True


def require(module: str, purpose: str) -> None:
    """Raises the error that says how to install what the metrics need, if it is missing."""
    if not is_installed(module):
        raise missing_extra(module.replace("_", "-"), "metrics", purpose)
