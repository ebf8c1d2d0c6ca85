"""Model names that are not in the registry: paths, Hub ids, and the model names of lm-eval.

In: a name and the user's model arguments. Out: the arguments of `hf`, or an error with advice. Every suggestion is a
command line that works when pasted.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, UnknownName, did_you_mean
from assay.models.download.hub import HUB_ID

# lm-eval model types that Assay does not have: the reason, and what to use instead. {} is the model the user named.
_HTTP = (
    "this provider's own API is not supported yet",
    "For a server with OpenAI's API: --model openai-chat --model_args model=NAME,base_url=URL",
)
_ENGINE = "Assay runs the same weights with its own engine", "Use: {}"
_SERVED = (
    "Assay runs the same weights with its own engine",
    "Use: {}. For a running server: --model_args model=NAME,base_url=URL",
)
_GGUF = (
    "lm-eval's name for a llama.cpp server",
    "For a running server: --model llamacpp --model_args model=NAME,base_url=URL. For a file: --model FOLDER/NAME.gguf",
)
_MEDIA = "this version does not support images or audio", "For text only: {}"
_STEERED = "models with steering vectors are not supported", "For the model without steering: {}"

# Model names of lm-eval 0.4.13 and similar tools.
UNSUPPORTED_MODELS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("vllm", "sglang", "llamacpp", "llama-cpp"), _SERVED),
    **dict.fromkeys(("trtllm", "nemo_lm", "megatron_lm", "mamba_ssm"), _ENGINE),
    **dict.fromkeys(("neuronx", "openvino", "onnxruntime", "onnxruntime-genai", "ipex", "habana", "winml"), _ENGINE),
    **dict.fromkeys(("optimum", "mlx", "exllama", "deepspeed", "accelerate"), _ENGINE),
    **dict.fromkeys(("anthropic-completions", "litellm", "litellm-chat", "litellm-chat-completions"), _HTTP),
    **dict.fromkeys(("textsynth", "watsonx", "watsonx_llm", "azure", "together"), _HTTP),
    **dict.fromkeys(("hf-multimodal", "hf-audiolm-qwen", "hf-mistral3", "vllm-vlm"), _MEDIA),
    **dict.fromkeys(("gguf", "ggml"), _GGUF),
    "steered": _STEERED,
}
# Engines with a server, which is a model here: without its address the engine itself is meant.
IN_PROCESS = frozenset(name for name, advice in UNSUPPORTED_MODELS.items() if advice in (_SERVED, _GGUF))
# Arguments of those models that name the weights.
_WEIGHTS = ("pretrained", "model", "model_path", "path")


def resolve_path_or_hub_id(name: str, plugins: Mapping[str, Any]) -> dict[str, str]:
    """The `hf` arguments for a path or a Hub id; empty for every other name.

    Accepts `./folder`, `/path/model.gguf` and `owner/name`, but not a bare word, which may be a typo.

    Args:
        name: what the user typed; not a name in the model table.
        plugins: names of plugins, `package/name`: a name with the same package is a typo, not a Hub id.
    """
    path = Path(name).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return {"pretrained": str(path.parent), "gguf_file": path.name}
    if "/" not in name and "\\" not in name:
        return {}
    packages = {plugin.partition("/")[0] for plugin in plugins}
    is_hub_id = HUB_ID.fullmatch(name) is not None and name.partition("/")[0] not in packages
    return {"pretrained": name} if path.exists() or is_hub_id or name.startswith((".", "/", "~")) else {}


def unknown_model(name: str, args: Mapping[str, Any], known: list[str]) -> UnknownName:
    """The error for a name that is neither a known model, nor a path, nor a Hub id."""
    other = UNSUPPORTED_MODELS.get(name.lower().replace("_", "-"), UNSUPPORTED_MODELS.get(name.lower()))
    if other is not None:
        found, advice = other
        named = next((str(args[key]) for key in _WEIGHTS if args.get(key)), "FOLDER_OR_HUB_ID")
        return UnknownName(Fault(f"--model {name}", found, next=advice.format(_command(named))))
    if "," in name:
        several = " ".join(part.strip() for part in name.split(",") if part.strip())
        advice = f"Separate several models by spaces: --models {several}"
        return UnknownName(Fault("", f'unknown model "{name}"', next=advice))
    if Path(name).is_dir():
        return UnknownName(Fault("", f'unknown model "{name}"', next=f"For the folder {name}: --model ./{name}"))
    advice = "See: assay ls models"
    if HUB_ID.fullmatch(name) is not None:
        advice += f". For a model on the Hugging Face Hub: {_command(name)}"
    return UnknownName(Fault("", f'unknown model "{name}"{did_you_mean(name, known)}', next=advice))


def _command(named: str) -> str:
    return f"--model hf --model_args {shlex.quote(f'pretrained={named}')}"
