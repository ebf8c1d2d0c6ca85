"""A trained model in a few lines: what it is called, what it learnt from, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.store.trained_models import FittedModel


def fitted_lines(model: FittedModel) -> Iterator[str]:
    """Lines for the terminal."""
    report, data = model.report, model.data
    yield f"model {model.name}"
    yield f"  learnt {', '.join(model.tasks)}: {data['lessons']:,} documents, {data['checks']:,} to validate on"
    yield f"  from {model.parent['name']}, method {model.settings['method']}"
    kept = f"; kept: step {report['best_step']:,}" if report.get("metric") else ""
    value = f" with {report['metric']} {report['value']:.4f}" if report.get("value") is not None else ""
    yield f"  {report['steps']:,} steps{kept}{value}{_kept_step_text(report)}"
    yield f"  in {model.folder}"
    yield f"use it: assay run --model {model.name} --tasks {','.join(model.tasks)}"


def _kept_step_text(report: Mapping[str, Any]) -> str:
    """The loss at the step that is kept, and whether it decided between checks of equal value."""
    if report.get("loss") is None or report["metric"] == "loss":
        return ""
    tied = report.get("tied", 0)
    checks = f"{tied} other check has" if tied == 1 else f"{tied} other checks have"
    return f", loss {report['loss']:.4f}" + (f" ({checks} the same {report['metric']}; lowest loss)" if tied else "")
