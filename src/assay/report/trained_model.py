"""Summary of a trained model for the terminal: name, training data, validation, folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assay.core.plural import plural
from assay.store.trained_models import FittedModel


def fitted_lines(model: FittedModel) -> Iterator[str]:
    """Lines for the terminal."""
    report, data = model.report, model.data
    documents = plural(data["lessons"], "document")
    yield f"model {model.name}"
    yield f"  trained on {', '.join(model.tasks)}: {documents}, {data['checks']:,} for validation"
    yield f"  from {model.parent['name']}, method {model.settings['method']}"
    best = f"; best step {report['best_step']:,}" if report.get("metric") else ""
    value = f" with {report['metric']} {report['value']:.4f}" if report.get("value") is not None else ""
    yield f"  {plural(report['steps'], 'step')}{best}{value}{_best_step_text(report)}"
    yield f"  in {model.folder}"
    yield f"use it: assay run --model {model.name} --tasks {','.join(model.tasks)}"


def _best_step_text(report: Mapping[str, Any]) -> str:
    """The loss at the best step, and whether it broke a tie between validations."""
    if report.get("loss") is None or report["metric"] == "loss":
        return ""
    tied = report.get("tied", 0)
    checks = plural(tied, "other check has", "other checks have")
    return f", loss {report['loss']:.4f}" + (f" ({checks} the same {report['metric']}; lowest loss)" if tied else "")
