"""Every model by name: built-in openers, named models from the package index, and plugins.

In: a name and the user's model arguments. Out: an opened model. An opener is a function
`(args, settings) -> Model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from assay.core.errors import Fault, ModelError, did_you_mean
from assay.core.protocols import Model
from assay.core.registry import Registry
from assay.core.specs import ModelSettings
from assay.models.aliases import resolve_path_or_hub_id, unknown_model
from assay.models.download.named import NAMED_MODELS, is_fetched, open_named
from assay.models.download.wheels import ProgressReport

MODELS = Registry(
    "model",
    {
        "hf": "assay.models.hf.families:open_hf",
        "dummy": "assay.models.dummy:open_dummy",
        "ngram": "assay.models.ngram:open_ngram",
    },
    "assay.models",
)

# Names that lm-eval's users type.
ALIASES = dict.fromkeys(("hf-auto", "hf-causal", "hf-seq2seq", "huggingface", "transformers"), "hf")

DESCRIPTIONS = {
    "hf": "a decoder, encoder-decoder or encoder of transformers: pretrained=FOLDER[,dtype=…]",
    "dummy": "answers from a hash of the request; for trying things out: seed=0",
    "ngram": "a byte n-gram trained on the spot, real but weak: order=3,corpus=FILE",
}


def model_names() -> list[str]:
    """Every name that `open_model` takes, aliases left out."""
    return [*sorted({*MODELS.table, *NAMED_MODELS}), *MODELS.own_names(), *sorted(MODELS.plugins)]


def open_model(
    name: str, args: Mapping[str, Any], settings: ModelSettings, progress: ProgressReport | None = None
) -> Model:
    """Opens a model by name.

    Args:
        name: a built-in opener, an alias, a named model or a plugin's `package/name`; see `meant` for others.
        args: the model's own settings.
        settings: how it is run.
        progress: told what goes on while a named model is fetched for the first time.
    """
    name = ALIASES.get(name, name)
    if name in NAMED_MODELS:
        return open_named(NAMED_MODELS[name], args, settings, progress)
    if name not in MODELS:
        raise unknown_model(name, args, [*model_names(), *ALIASES])
    return cast(Model, MODELS.create(name, Model, args, settings))


def resolve_model(name: str, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A model's name and settings, with a path or a Hub id in the place of a name understood as `hf`.

    Raises:
        ModelError: when the settings name weights too.
    """
    weights = {} if is_known(name) else resolve_path_or_hub_id(name, MODELS.plugins)
    doubled = [key for key in weights if key in args]
    if doubled:
        found = f"{doubled[0]}={args[doubled[0]]} is set, but --model {name} names the weights already"
        raise ModelError(Fault("model_args", found, next=f"Leave {doubled[0]} out, or use: --model hf"))
    return ("hf" if weights else name), {**weights, **args}


def is_known(name: str) -> bool:
    """Whether `open_model` takes a name."""
    return name in ALIASES or name in NAMED_MODELS or name in MODELS


def full_arguments(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """A model's settings with those that the table has for a named model; the user's win."""
    own = NAMED_MODELS.get(name)
    return {**(own.model_args if own is not None else {}), **args}


def is_causal(name: str) -> bool:
    """Whether a name opens a decoder of transformers, as far as the name tells."""
    own = NAMED_MODELS.get(name)
    return ALIASES.get(name, name) == "hf" or (own is not None and own.family == "causal")


def is_decoder(args: Mapping[str, Any]) -> bool:
    """Whether the checkpoint that settings of `hf` name is a decoder, by its configuration; a named model's is."""
    from assay.models.hf.families import find_family

    return "pretrained" not in args or find_family(args) == "causal"


def must_fetch(name: str) -> bool:
    """Whether opening a model would download it first."""
    model = NAMED_MODELS.get(name)
    return model is not None and not is_fetched(model)


def model_rows() -> list[tuple[str, str, str]]:
    """Name, kind (`built-in`, `named` or `plugin`) and description of every model."""
    rows = [(name, "built-in", DESCRIPTIONS[name]) for name in sorted(MODELS.table)]
    rows += [(name, "named", entry.description) for name, entry in sorted(NAMED_MODELS.items())]
    rows += [(name, "plugin", str(MODELS.added[name].__doc__)) for name in MODELS.own_names()]
    return rows + [(name, "plugin", point.value) for name, point in sorted(MODELS.plugins.items())]


def reject_unknown_arguments(model: str, args: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Fails, naming all of them, when there are arguments that a model does not know."""
    expected = "one of: " + ", ".join(known)
    unknown = [name for name in args if name not in known]
    if unknown:
        raise ModelError(
            *(Fault("model_args", f'{model} has no "{name}"{did_you_mean(name, known)}', expected) for name in unknown)
        )


def whole_number(model: str, args: Mapping[str, Any], name: str, default: int) -> int:
    """An argument that must be a whole number; text from a command line will do."""
    value = args.get(name, default)
    # bool is an int to Python, but `seed=True` is a slip.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        return int(value)
    raise ModelError(Fault("model_args", f"{model}: {name}={value!r}", "a whole number"))
