"""What a run asks to be scored besides, or instead of, what task files name: from loose settings to their words.

Takes names of metrics and a scoring file, gives `metric_list` and `filter_list` as task files have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, UserError
from assay.core.metric_names import expanded_entries
from assay.tasks.lm_eval.file.yaml_reader import read_task_file

_KEYS = ("metric_list", "filter_list")
_SHAPES = {"metric_list": "[{metric: acc}]", "filter_list": "[{name: …, filter: [{function: …}]}]"}


def scoring_changes(
    metrics: str | Sequence[str] | None, scoring: str | Path | Mapping[str, Any] | None
) -> dict[str, Any]:
    """The changes of a run.

    Args:
        metrics: names of metrics, with commas or as a list; `all` for every one that costs no further request. A plus
            before the first name, or before every one, keeps the tasks' own metrics.
        scoring: a YAML file with `metric_list` and `filter_list`, or the same as a mapping.
    """
    found = _read(scoring) if scoring is not None else {}
    names = metrics.split(",") if isinstance(metrics, str) else list(metrics or ())
    names = [name.strip() for name in names if name.strip()]
    names, is_added = _without_plus(names)
    if is_added:
        found["adds"] = True
    if metrics is not None and not any(names):
        raise UserError(Fault("--metrics", "names no metric", next="See: assay ls metrics"))
    if names:
        found["metric_list"] = [*found.get("metric_list", ()), *({"metric": name} for name in names if name)]
    if "metric_list" in found:
        found["metric_list"] = expanded_entries(found["metric_list"], "--metrics" if names else "scoring")
    return found


def _without_plus(names: Sequence[str]) -> tuple[list[str], bool]:
    """The names, and whether they add to the tasks' own: a plus before the first, or before every one."""
    marked = [name.startswith("+") for name in names]
    if any(marked) and not marked[0]:
        found = f'"{names[marked.index(True)]}" adds to the tasks\' own metrics, and "{names[0]}" replaces them'
        listed = ",".join("+" + name.lstrip("+ ") for name in names)
        raise UserError(Fault("--metrics", found, "all with a plus, or none", f"To add all: --metrics {listed}"))
    return [name.lstrip("+").strip() for name in names], bool(marked and marked[0])


def _read(scoring: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(scoring, Mapping):
        data, where = dict(scoring), "scoring"
    else:
        path = Path(scoring).expanduser()
        data, where = dict(read_task_file(path).data), str(path)
    faults = [Fault(where, f'unknown key "{key}"', " or ".join(_KEYS)) for key in data if key not in _KEYS]
    for key, is_entry in (("metric_list", _is_metric), ("filter_list", is_pipeline)):
        entries = data.get(key, [])
        if not isinstance(entries, list) or not all(map(is_entry, entries)):
            faults.append(Fault(f"{where}  {key}", "has another shape", f"a list as in task files: {_SHAPES[key]}"))
    if faults:
        raise UserError(*faults)
    return data


def _is_metric(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("metric"), str)


def is_pipeline(entry: Any) -> bool:
    """Whether a value has the shape of an entry of `filter_list`."""
    steps = entry.get("filter") if isinstance(entry, dict) else None
    is_named = isinstance(entry, dict) and entry.get("name") is not None
    return is_named and isinstance(steps, list) and all(isinstance(s, dict) and "function" in s for s in steps)
