"""Several models of one command: each with its label, its settings, and the runs that it needs.

In: the words after `--model`, or models, and the shared settings. Out: a row per model, or a run per row and task
if every task trains its own model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from assay.core.arguments import LONGEST_IN_NAME, parse_arguments
from assay.core.errors import Fault, UserError
from assay.core.protocols import Model
from assay.core.secrets import redacted_text
from assay.core.training import FINETUNE, FitSpec, parse_fit_spec
from assay.models.model_registry import resolve_model
from assay.options.specification import fit_spec_of, training_settings
from assay.options.table import Settings
from assay.report.safe_names import different_names, model_name

if TYPE_CHECKING:
    from assay.run.many import CheckpointStep


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
    from assay.run.many import model_variants

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
