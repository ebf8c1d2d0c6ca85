"""Model registry: built-in openers, named models from the package index, and plugins.

In: a name and the user's model arguments. Out: an opened model. An opener is a function
`(args, settings) -> Model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from assay.core.errors import Fault, ModelError
from assay.core.protocols import Model
from assay.core.registry import Registry
from assay.core.specs import ModelSettings
from assay.models.aliases import IN_PROCESS, resolve_path_or_hub_id, unknown_model
from assay.models.download.named import NAMED_MODELS, NamedModel, is_fetched, locate, opener_arguments
from assay.models.download.wheels import ProgressReport

_SERVER = "model=NAME,base_url=URL"
# Models behind HTTP: name → (module below `assay.models.http` and its provider, description).
PROVIDERS = {
    "openai": ("providers:OPENAI_SERVER", f"server with /v1/completions: {_SERVER}[,tokenizer=FOLDER]"),
    "openai-chat": ("providers:OPENAI_CHAT_SERVER", f"server with /v1/chat/completions, generation only: {_SERVER}"),
    "vllm": ("providers:VLLM_SERVER", f"vLLM server: {_SERVER}"),
    "sglang": ("providers:SGLANG_SERVER", f"SGLang server: {_SERVER}[,tokenizer=FOLDER]"),
    "llamacpp": ("providers:LLAMACPP_SERVER", f"llama.cpp server: {_SERVER}"),
    "tgi": ("providers:TGI_SERVER", f"Text Generation Inference server: {_SERVER},tokenizer=FOLDER"),
    "ollama": ("providers:OLLAMA_SERVER", f"Ollama server, generation only: {_SERVER}"),
    "anthropic": ("dialects.anthropic:PROVIDER", "Anthropic's Messages API, generation only: model=NAME"),
    "gemini": ("dialects.gemini:PROVIDER", "Gemini API, generation only: model=NAME"),
}

MODELS = Registry(
    "model",
    {
        "hf": "assay.models.hf.families:open_hf",
        "dummy": "assay.models.dummy:open_dummy",
        "ngram": "assay.models.ngram:open_ngram",
        **{name: f"assay.models.http.{place}" for name, (place, _) in PROVIDERS.items()},
    },
    "assay.models",
)

# Names used by lm-eval.
ALIASES = {
    **dict.fromkeys(("hf-auto", "hf-causal", "hf-seq2seq", "huggingface", "transformers"), "hf"),
    **dict.fromkeys(("local-completions", "openai-completions"), "openai"),
    **dict.fromkeys(("local-chat-completions", "openai-chat-completions"), "openai-chat"),
    **dict.fromkeys(("anthropic-chat", "anthropic-chat-completions"), "anthropic"),
    **dict.fromkeys(("gguf", "ggml", "llama-cpp"), "llamacpp"),
    "sglang-generate": "sglang",
}

DESCRIPTIONS = {
    "hf": "transformers decoder, encoder-decoder or encoder: pretrained=FOLDER[,dtype=…]",
    "dummy": "answers from a hash of the request, for trials: seed=0",
    "ngram": "byte n-gram model trained on the spot, real but weak: order=3,corpus=FILE",
    **{name: description for name, (_, description) in PROVIDERS.items()},
}


def model_names() -> list[str]:
    """Every name that `open_model` accepts, without aliases."""
    return [*sorted({*MODELS.table, *NAMED_MODELS}), *MODELS.own_names(), *sorted(MODELS.plugins)]


def open_model(
    name: str, args: Mapping[str, Any], settings: ModelSettings, progress: ProgressReport | None = None
) -> Model:
    """Opens a model by name.

    Args:
        name: a built-in opener, an alias, a named model or a plugin's `package/name`; for others see `resolve_model`.
        args: the model's own settings.
        settings: device, batch size and engine.
        progress: receives download progress when a named model is fetched for the first time.
    """
    if name in IN_PROCESS and ("pretrained" in args or "base_url" not in args):  # the engine, in this process
        raise unknown_model(name, args, [])
    name = ALIASES.get(name, name)
    if name in NAMED_MODELS:
        return open_named(NAMED_MODELS[name], args, settings, progress)
    if name not in MODELS:
        raise unknown_model(name, args, [*model_names(), *ALIASES])
    return cast(Model, MODELS.create(name, Model, args, settings))


def open_named(
    model: NamedModel, args: Mapping[str, Any], settings: ModelSettings, progress: ProgressReport | None = None
) -> Model:
    """Opens a named model; the first use downloads it."""
    if "pretrained" in args:
        found = f'pretrained={args["pretrained"]}, but "{model.name}" brings its own weights'
        raise ModelError(Fault("model_args", found, next="Leave pretrained out, or use: --model hf"))
    from assay.models.hf.families import open_hf

    return open_hf(opener_arguments(model, locate(model, progress), args), settings)


def resolve_model(name: str, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Model name and arguments; a path or a Hub id given as the name becomes `hf` with `pretrained`.

    Raises:
        ModelError: if the arguments name weights as well.
    """
    weights = {} if is_known(name) else resolve_path_or_hub_id(name, MODELS.plugins)
    doubled = [key for key in weights if key in args]
    if doubled:
        found = f"{doubled[0]}={args[doubled[0]]} is set, but --model {name} already names the weights"
        raise ModelError(Fault("model_args", found, next=f"Leave {doubled[0]} out, or use: --model hf"))
    return ("hf" if weights else name), {**weights, **args}


def is_known(name: str) -> bool:
    """Whether `open_model` accepts a name."""
    return name in ALIASES or name in NAMED_MODELS or name in MODELS


def full_arguments(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The model arguments, with the defaults of a named model; the user's values win."""
    own = NAMED_MODELS.get(name)
    return {**(own.model_args if own is not None else {}), **args}


def is_causal(name: str) -> bool:
    """Whether a name opens a transformers decoder, judged by the name alone."""
    own = NAMED_MODELS.get(name)
    return ALIASES.get(name, name) == "hf" or (own is not None and own.family == "causal")


def is_decoder(args: Mapping[str, Any]) -> bool:
    """Whether the checkpoint in `hf` arguments is a decoder, by its configuration; True for arguments without one."""
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
