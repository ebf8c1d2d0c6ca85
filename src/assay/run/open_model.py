"""Opens a model by its name: a registered model, or one that was trained here and is recorded in the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, ModelError, UserError
from assay.core.protocols import KeepsState, Model, SpendsTokens
from assay.core.secrets import without_secrets
from assay.core.specs import LM_EVAL, ModelSettings, RunSpec
from assay.models.download.wheels import ProgressReport
from assay.models.model_registry import ALIASES, full_arguments, is_causal, is_decoder, is_known, open_model
from assay.run.events import Listener, Progressed
from assay.store.database import MEMORY
from assay.store.store import Store
from assay.store.trained_models import FittedModel
from assay.tasks.profiles.parse import Profile, find_profile

# The opener of trained models.
_OPENER = "hf"
# Settings that locate a model's files or change its weights; a trained model brings its own.
_LOCATION_KEYS = ("pretrained", "revision", "subfolder", "gguf_file", "tokenizer", "peft", "dtype", "labels")


def opened_model(spec: RunSpec, listener: Listener, store: Store | None = None) -> Model:
    """The model that a run names, with its settings and those of the tool that the run follows."""
    arguments = {**arguments_like(spec.model, spec.options.like, spec.model_args), **spec.model_args}
    fitted = None if store is None or is_known(spec.model) else store.fitted.get(spec.model)
    if fitted is None:
        return open_model(spec.model, arguments, spec.settings, progress_to(listener))
    return open_model(_OPENER, fitted_arguments(fitted, arguments), spec.settings)


def prepare_model(model: Model, settings: ModelSettings, store: Store | None) -> None:
    """Applies the budget of a run, and gives a model a folder beside the store for work that outlives the run."""
    if isinstance(model, SpendsTokens):
        model.limit_spending(settings.budget, settings.token_budget)
    if isinstance(model, KeepsState):
        path = MEMORY if store is None else store.record_path
        model.keep_state(None if path == MEMORY else Path(f"{path}.batches"))


def arguments_like(name: str, like: str | None, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Settings that make a decoder compute like the tool of a profile; empty for other models.

    Args:
        name: the model's name.
        like: the profile.
        given: the user's own settings, by which `hf` recognises decoders; None to judge by the name.
    """
    return {} if like is None or not is_causal(name) else _arguments(find_profile(like), name, given)


def _arguments(profile: Profile, name: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """A profile's settings for a model of this name; empty if it is known not to be a decoder."""
    is_other = not is_causal(name) or (given and not is_decoder(full_arguments(name, given)))
    if not profile.model_args or is_other:
        return {}
    _check_arguments(profile)
    return dict(profile.model_args)


def _check_arguments(profile: Profile) -> None:
    """Raises for settings of a profile that no decoder has, with their lines."""
    from assay.models.loading.hf_arguments import read_causal_arguments  # most runs follow no profile

    faults: list[Fault] = []
    for key, value in profile.model_args.items():
        try:
            read_causal_arguments({"pretrained": ".", key: value})
        except ModelError as error:
            faults += [replace(fault, where=profile.file.where("model_args", key)) for fault in error.faults]
    if faults:
        raise UserError(*faults)


def arguments_notices(spec: RunSpec, named: Sequence[Profile] = ()) -> tuple[str, ...]:
    """Notices of profile settings with which the model is opened, or is not; the user's own settings take precedence.

    Args:
        spec: the specification of the run.
        named: profiles that only some tasks follow, while one model answers all tasks.
    """
    others = [profile for profile in named if profile.name != spec.options.like]
    return (*_followed_notices(spec), *(line for profile in others for line in _unused_arguments(spec, profile)))


def _unused_arguments(spec: RunSpec, profile: Profile) -> Iterator[str]:
    """A notice of the settings of a profile that only some tasks follow; none if the user sets them."""
    wanted = {**arguments_like(spec.model, spec.options.like, spec.model_args), **spec.model_args}
    found = _arguments(profile, spec.model, spec.model_args)
    set_there = ",".join(f"{key}={str(value).lower()}" for key, value in found.items() if key not in wanted)
    if set_there:
        yield (
            f"{profile.name}: the tool opens the model with {set_there}, which cannot apply to single tasks: for all "
            f"tasks of a run add --model_args {set_there}, or use --like {profile.name}"
        )


def _followed_notices(spec: RunSpec) -> tuple[str, ...]:
    if spec.options.like in (None, LM_EVAL):
        return ()
    found = arguments_like(spec.model, spec.options.like, spec.model_args)
    set_here = ", ".join(f"{key}={str(value).lower()}" for key, value in found.items() if key not in spec.model_args)
    tool = find_profile(str(spec.options.like)).name
    return (f"{tool}: the model is opened with {set_here}, as the tool does; --model_args wins",) if set_here else ()


def object_notices(spec: RunSpec) -> tuple[str, ...]:
    """A notice of settings without effect on a model that is given as an object."""
    given = {"model_args": spec.model_args, "device": spec.settings.device, "batch_size": spec.settings.batch_size}
    idle = [name for name, value in given.items() if value and value != "auto"]
    reported = "no effect on a model that is given as an object: set it up as wanted"
    return (f"{', '.join(idle)} {'has' if len(idle) == 1 else 'have'} {reported}",) if idle else ()


def trained_notices(spec: RunSpec, store: Store, tasks: Iterable[str]) -> list[str]:
    """Notices for a model that was trained here on documents that these tasks evaluate."""
    fitted = None if is_known(spec.model) else store.fitted.get(spec.model)
    if fitted is None or not set(fitted.tasks) & set(tasks):
        return []
    learnt, chosen = (fitted.data.get(name, 0) for name in ("lessons_evaluated", "checks_evaluated"))
    reported = [(learnt, "learnt", "a score on these is recall")]
    reported += [(chosen, "was chosen among its checkpoints by", "this flatters their score")]
    return [
        f"{fitted.name} {verb} {count} documents that its tasks evaluate: {effect}"
        for count, verb, effect in reported
        if count
    ]


def fitted_arguments(fitted: FittedModel, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that open a trained model; the run's own settings override those of its parent."""
    if not (Path(fitted.folder) / "config.json").is_file():
        tasks = ",".join(fitted.tasks)
        raise ModelError(
            Fault(
                f"model {fitted.name}",
                f"its folder {fitted.folder} is gone",
                "the model that was trained there",
                f"Put it back, or train it again: assay finetune --model … --tasks {tasks} --name {fitted.name}",
            )
        )
    moved = [name for name in given if name in _LOCATION_KEYS]
    if moved:
        found = f'{", ".join(moved)} is set, but "{fitted.name}" was trained here and brings its own'
        raise ModelError(Fault("model_args", found, next="Leave it out"))
    return {"pretrained": fitted.folder, **fitted.model_args, **given}


def inherited_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The parent's settings that a trained model inherits, such as tokenisation; neither locations nor secrets."""
    return without_secrets({name: value for name, value in arguments.items() if name not in _LOCATION_KEYS})


def is_nameable(name: str) -> bool:
    """Whether a name is valid for a trained model: not a registered model's, and usable as a folder name."""
    is_plain = name.replace("-", "").replace("_", "").replace(".", "").isalnum() and not name.startswith(".")
    return is_plain and not is_known(name) and name not in ALIASES


def progress_to(listener: Listener) -> ProgressReport:
    """Reports downloads to a listener."""

    def report(what: str, done: int, total: int | None) -> None:
        listener(Progressed(what, done, total))

    return report
