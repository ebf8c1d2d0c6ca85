"""Several models of one command: each with its label, its settings, and the runs that it needs.

In: the words after `--model`, such as `hf:pretrained=runs/step-*`, or models, and the shared settings. Out: a row per
model, in natural order, or a run per row and task if every task trains its own model.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, cast

from assay.core.arguments import LONGEST_IN_NAME, parse_arguments, parse_value
from assay.core.errors import Fault, UserError
from assay.core.protocols import Model
from assay.core.secrets import is_secret_name, redacted_text
from assay.core.training import FINETUNE, FIT_KEYS, FitSpec, parse_fit_spec
from assay.models.model_registry import resolve_model
from assay.options.specification import fit_spec_of, training_settings
from assay.options.table import Settings
from assay.report.safe_names import different_names, model_name
from assay.run.many import CheckpointStep

# The settings that may hold a pattern of folders.
_FOLDERS = ("pretrained", "peft")
# The settings whose values may be checkpoints of one training run.
_CHECKPOINTS = (*_FOLDERS, "revision")
# A setting of the run, not of the model, that may differ from row to row.
_SHOTS = "num_fewshot"
# Holds one list of names, in which bars do not separate values.
_LABELS = "labels"


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One of several models.

    Attributes:
        label: short name, different from those of the others.
        name: name in the model table.
        settings: settings of its run.
        model: the model object, if one was given.
        step: its position among the checkpoints of a training run.
    """

    label: str
    name: str
    settings: Settings
    model: Model | None = None
    step: CheckpointStep | None = None

    @property
    def fit(self) -> FitSpec | None:
        """How the model is trained before it is evaluated; None for no training."""
        return fit_spec_of(self.settings)


def model_rows(models: str | Model | Sequence[str | Model], settings: Settings) -> list[ModelRow]:
    """Every named model, in order: `name`, `name:setting=value`, `name:setting=one|other`, patterns of folders.

    Args:
        models: texts or models.
        settings: shared settings; `model_args` apply to models without their own settings.
    """
    found: list[ModelRow] = []
    for item in [models] if isinstance(models, str) or not isinstance(models, Sequence) else models:
        if isinstance(item, str) and not item.strip():
            continue
        if not isinstance(item, str):
            name = item.fingerprint.name
            plain = cast(Settings, {**settings, "finetune": _row_fit(name, {}, settings)})
            found.append(ModelRow(_label(name, {}, (), found), name, plain, item))
            continue
        for variant in model_variants(item):
            own = dict(settings)
            if variant.arguments is not None:
                own["model_args"] = variant.arguments
            if variant.num_fewshot is not None:
                own["num_fewshot"] = variant.num_fewshot
            own["finetune"] = _row_fit(variant.name, variant.fit or {}, settings)
            name, arguments = resolve_model(
                variant.name, parse_arguments(cast(Settings, own).get("model_args"), "--model_args")
            )
            if name != variant.name:
                own["model_args"] = arguments
            label = _label(name, arguments, variant.marks, found)
            found.append(ModelRow(label, name, cast(Settings, own), None, variant.step))
    if not found:
        raise UserError(Fault("--models", "names no model", next="See: assay ls models"))
    unused = [
        *(training_settings(settings.get("finetune")) or ()),
        *(["together"] if settings.get("finetune_together") else []),
    ]
    if unused and all(row.fit is None for row in found):
        flags = ", ".join(f"--{name}" for name in unused)
        raise UserError(Fault(flags, "has no meaning without training", next=f"Add --{FINETUNE}"))
    return found


def _row_fit(name: str, own: Mapping[str, Any], settings: Settings) -> dict[str, Any] | None:
    """Training settings of one of several models: its own override the shared ones. None if it is not trained."""
    whole = {**(training_settings(settings.get("finetune")) or {}), **own}
    if FINETUNE not in whole:
        if not own:
            return None
        found = f"{', '.join(own)} is set, but the model is not trained"
        raise UserError(Fault(f"model {name}", found, next=f"Add {FINETUNE}=full, or another method"))
    parse_fit_spec(own, f"model {name}")  # an invalid setting is an error that names the model
    return whole


def _label(name: str, arguments: Mapping[str, Any], marks: Sequence[str], others: Sequence[ModelRow]) -> str:
    """A short name; if another model has the same, its arguments are added, or else a number."""
    label = redacted_text("@".join((Path(model_name(name, arguments)).name, *marks)))
    taken = {other.label for other in others}
    if label in taken:
        arguments_text = ",".join(
            f"{key}={value}" for key, value in arguments.items() if key not in ("pretrained", "peft")
        )
        label = (
            "@".join((label, redacted_text(arguments_text)))
            if arguments_text and len(arguments_text) <= LONGEST_IN_NAME
            else label
        )
    same = sum(other == label or other.startswith(f"{label} (") for other in taken)
    return f"{label} ({same + 1})" if same else label


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One of the runs of a command.

    Attributes:
        row: the model.
        tasks: names of its tasks.
        mark: part of file names that distinguishes its files from those of the other runs.
    """

    row: ModelRow
    tasks: tuple[str, ...]
    mark: str


def model_runs(
    models: str | Model | Sequence[str | Model], tasks: Sequence[str], settings: Settings
) -> list[PlannedRun]:
    """The runs of several models: one each, or one per task if every task trains its own model."""
    together = settings.get("finetune_together", False)
    pairs = [
        (row, names)
        for row in model_rows(models, settings)
        for names in ([tuple(tasks)] if row.fit is None or together else [(name,) for name in tasks])
    ]
    labels = [row.label for row, _ in pairs]
    marks = ["_".join((row.label, *own)) if labels.count(row.label) > 1 else row.label for row, own in pairs]
    return [PlannedRun(*pair, mark) for pair, mark in zip(pairs, different_names(marks), strict=True)]


def interpreted_model_lines(models: str | Sequence[str]) -> list[str]:
    """A line for every model that is given as a path or Hub id instead of a name."""
    names = [text.partition(":")[0] for text in ([models] if isinstance(models, str) else models)]
    meanings = [(name, resolve_model(name, {})) for name in names]
    return [
        f"--model {name}: understood as --model {opener} --model_args "
        + ",".join(f"{key}={value}" for key, value in arguments.items())
        for name, (opener, arguments) in meanings
        if opener != name
    ]


# From one text to its models


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
