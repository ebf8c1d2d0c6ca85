"""Several models: expands a text such as `hf:pretrained=runs/step-*`, and lets their runs share tasks.

In: a model's name with its settings. Out: one model per value or folder, in natural order, with a label that
distinguishes it. Tasks are resolved once for all models that build them in the same way.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from assay.core.arguments import parse_arguments, parse_value
from assay.core.errors import Fault, UserError
from assay.core.protocols import Model
from assay.core.secrets import is_secret_name
from assay.core.specs import RunSpec
from assay.core.training import FINETUNE, FIT_KEYS, FitSpec
from assay.run.resolve import select_for_run
from assay.tasks.selection import Selection, Wanted

# The settings that may hold a pattern of folders.
_FOLDERS = ("pretrained", "peft")
# The settings whose values may be checkpoints of one training run.
_CHECKPOINTS = (*_FOLDERS, "revision")
# A setting of the run, not of the model, that may differ from row to row.
_SHOTS = "num_fewshot"
# Holds one list of names, in which bars do not separate values.
_LABELS = "labels"


@dataclass(frozen=True, slots=True)
class CheckpointStep:
    """A model's position among the checkpoints of one training run: which run, and the number of steps."""

    series: str
    number: float


@dataclass(frozen=True, slots=True)
class EvaluatedModel:
    """One of several models that are evaluated on the same tasks.

    Attributes:
        label: its short name.
        spec: its run.
        model: the model object, if one was given.
        step: its checkpoint step in a training run.
        fit: training request to run first; None for a model that is evaluated as is.
        fits_together: whether it is trained once on all tasks instead of once per column.
    """

    label: str
    spec: RunSpec
    model: Model | None = None
    step: CheckpointStep | None = None
    fit: FitSpec | None = None
    fits_together: bool = False


class SharedTasks:
    """The tasks of several runs: each set is resolved once for all runs that build it in the same way."""

    def __init__(self) -> None:
        self._known: list[tuple[RunSpec, Sequence[Wanted], Selection]] = []

    def select(self, spec: RunSpec, given: Sequence[Wanted]) -> Selection:
        """The tasks of one of the runs; see `select_for_run`."""
        for other, names, selection in self._known:
            if list(names) == list(given) and _builds_alike(spec, other, selection):
                return selection
        found = select_for_run(spec, given)
        self._known.append((spec, given, found))
        return found


def _builds_alike(spec: RunSpec, other: RunSpec, selection: Selection) -> bool:
    """Whether two specifications make the same tasks of the same names. The model's settings matter to task code only,
    which reads them when it makes its own data."""
    reads_settings = any(task.card.config.get("custom_dataset") for task in selection.tasks)
    first, second = ((one.tasks, one.include_path, one.allow_code) for one in (spec, other))
    options = [one.options if reads_settings else replace(one.options, metadata={}) for one in (spec, other)]
    return first == second and options[0] == options[1]


@dataclass(frozen=True, slots=True)
class ModelVariant:
    """One model of several.

    Attributes:
        name: name in the model table.
        arguments: its own settings; None if the text has none.
        marks: what distinguishes it from the other models of its text, for its label: `step1000`, `4-shot`.
        num_fewshot: examples per prompt; None if the text does not set it.
        fit: training settings, by their names; None if the text has none.
        step: its position among the checkpoints that the text names, if these differ in one number.
    """

    name: str
    arguments: Mapping[str, Any] | None = None
    marks: tuple[str, ...] = ()
    num_fewshot: int | None = None
    step: CheckpointStep | None = None
    fit: Mapping[str, Any] | None = None


def model_variants(text: str) -> list[ModelVariant]:
    """All models that a text expands to."""
    name, mark, given = text.partition(":")
    if not mark:
        return [ModelVariant(name)]
    settings = parse_arguments(given, f"model {name}")
    options = [_values(name, key, value) for key, value in settings.items()]
    steps = _steps(settings, options)
    return [
        _model_variant(name, dict(zip(settings, selected, strict=True)), settings, steps)
        for selected in product(*options)
    ]


def _steps(settings: Mapping[str, Any], options: Sequence[Sequence[Any]]) -> dict[Any, CheckpointStep]:
    """Value → step, if only one setting has several values and these differ in one number."""
    varied = [(key, values) for key, values in zip(settings, options, strict=True) if len(values) > 1]
    if len(varied) != 1 or varied[0][0] not in _CHECKPOINTS:
        return {}
    key, values = varied[0]
    place = next((str(settings[other]) for other in _FOLDERS if other != key and other in settings), "")
    series = str(settings[key]) if key in _FOLDERS else Path(place).name
    return {value: CheckpointStep(series, number) for value, number in step_numbers(list(map(str, values))).items()}


def step_numbers(names: Sequence[str]) -> dict[str, float]:
    """Name → the one number in which the names differ. Names without numbers are left out; nothing below two steps."""
    numbers = {name: re.findall(r"\d+(?:\.\d+)?", name) for name in names}
    known = {name: found for name, found in numbers.items() if found}
    if len({len(found) for found in known.values()}) != 1:
        return {}
    columns = list(zip(*known.values(), strict=True))
    differing = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    if len(differing) != 1:
        return {}
    return {name: float(found[differing[0]]) for name, found in known.items()}


def _model_variant(
    name: str, selected: dict[str, Any], given: Mapping[str, Any], steps: Mapping[Any, CheckpointStep]
) -> ModelVariant:
    shots = selected.pop(_SHOTS, None)
    if shots is not None and (type(shots) is not int or shots < 0):
        raise UserError(Fault(f"model {name}", f'num_fewshot is "{shots}"', "0 or more"))
    fit = {key: selected.pop(key) for key in FIT_KEYS if key in selected}
    # A folder needs no mark: it is the model's name.
    marks = [str(selected[key]) for key in selected if key not in _FOLDERS and selected[key] != given[key]]
    marks += [f"{shots}-shot"] if shots is not None else []
    # The method of training is always part of the label; other training settings only if rows differ in them.
    marks += [str(value) for key, value in fit.items() if key == FINETUNE]
    marks += [f"{key}={value}" for key, value in fit.items() if key != FINETUNE and value != given[key]]
    step = next((steps[selected[key]] for key in _CHECKPOINTS if key in selected and selected[key] in steps), None)
    return ModelVariant(name, selected or None, tuple(marks), shots, step, fit or None)


def _values(model: str, key: str, value: Any) -> list[Any]:
    if not isinstance(value, str) or key == _LABELS or is_secret_name(key):
        return [value]
    parts = [part for part in value.split("|") if part.strip()] or [value]
    if key in _FOLDERS:
        return [folder for part in parts for folder in _folders(model, key, part.strip())]
    return [parse_value(part) for part in parts] if len(parts) > 1 else [value]


def _folders(model: str, key: str, pattern: str) -> list[str]:
    """The folders and files of a pattern, by the numbers in their names; a plain path or name as it is."""
    path = Path(pattern).expanduser()
    if not glob.has_magic(pattern) or path.exists():
        return [pattern]
    found = sorted(glob.glob(str(path)), key=natural_sort_key)
    if not found:
        raise UserError(
            Fault(f"model {model}", f"{key}={pattern}: no folder matches", "checkpoints, as in runs/step-*")
        )
    return found


def natural_sort_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key by which step-9 comes before step-10."""
    parts = re.findall(r"\d+|\D+", text)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
