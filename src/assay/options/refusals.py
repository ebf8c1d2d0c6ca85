"""Settings that a function of the public API does not take: reported together, before anything runs.

The command line does not offer them at all.
"""

from __future__ import annotations

from assay.core.errors import Fault, UserError
from assay.core.specs import LM_EVAL
from assay.options.table import Settings


def refuse_early_stopping(settings: Settings) -> None:
    """Rejects early stopping where models are compared on the same documents."""
    names = [name for name in ("until_se", "until_decided", "reference") if settings.get(name) is not None]
    if names:
        found = "does not work where several models are evaluated on the same documents"
        raise UserError(*(Fault(f"--{name}", found, "--sample N", "See: assay run") for name in names))


def refuse_methods_settings(settings: Settings) -> None:
    """Rejects settings that the study itself varies."""
    advice = {
        "style": "Name the styles to compare with --styles",
        "metrics": "Name the methods to compare with --methods",
        "scoring": "Name the methods to compare with --methods",
        "prompts": "See: assay run --prompts",
    }
    faults = [
        Fault(f"--{name}", "does not apply to a study of methods", next=text)
        for name, text in advice.items()
        if settings.get(name)
    ]
    if settings.get("like") not in (None, LM_EVAL):
        faults.append(Fault("--like", "a profile has one style and method", next="See: assay run --like"))
    if faults:
        raise UserError(*faults)
