"""What users type for a model that is no name of ours: paths, Hub ids, and the model names of lm-eval.

In: a name and the user's model arguments. Out: the name and arguments that are meant, or advice for an error. One
table; every suggestion is a command line that works when pasted.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, UnknownName, did_you_mean
from assay.models.download.hub import HUB_ID

# Kinds of lm-eval's models that Assay does not have → why, and what works instead. {} is the model that was named.
_HTTP = "models behind HTTP cannot be asked yet", "For weights on this machine or the Hub: {}"
_ENGINE = "Assay reads the same weights with its own engine", "Use: {}"
_MEDIA = "no model of this version takes images or audio", "For its text alone: {}"
_GGUF = (
    "lm-eval's name for a llama.cpp server, and models behind HTTP cannot be asked yet",
    ("For a GGUF file: --model FOLDER/NAME.gguf"),
)
_STEERED = "models with steering vectors are not supported", "For the model without: {}"

# Model names of lm-eval 0.4.13 and its neighbours.
UNSUPPORTED_MODELS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("vllm", "sglang", "sglang-generate", "trtllm", "nemo_lm", "megatron_lm", "mamba_ssm"), _ENGINE),
    **dict.fromkeys(("neuronx", "openvino", "onnxruntime", "onnxruntime-genai", "ipex", "habana", "winml"), _ENGINE),
    **dict.fromkeys(("optimum", "llama-cpp", "llamacpp", "mlx", "exllama", "deepspeed", "accelerate"), _ENGINE),
    **dict.fromkeys(("local-completions", "local-chat-completions", "openai", "openai-completions"), _HTTP),
    **dict.fromkeys(("openai-chat-completions", "anthropic", "anthropic-chat", "anthropic-completions"), _HTTP),
    **dict.fromkeys(("anthropic-chat-completions", "litellm", "litellm-chat", "litellm-chat-completions"), _HTTP),
    **dict.fromkeys(("textsynth", "watsonx", "watsonx_llm", "ollama", "gemini", "azure", "together", "tgi"), _HTTP),
    **dict.fromkeys(("hf-multimodal", "hf-audiolm-qwen", "hf-mistral3", "vllm-vlm"), _MEDIA),
    **dict.fromkeys(("gguf", "ggml"), _GGUF),
    "steered": _STEERED,
}
# Arguments of those models that name the weights.
_WEIGHTS = ("pretrained", "model", "model_path", "path")


def resolve_path_or_hub_id(name: str, plugins: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of `hf` that a path or a Hub id stands for; empty for every other name.

    `./folder`, `/path/model.gguf` and `owner/name` are understood; a bare word is not, since it may be a slip.

    Args:
        name: what the user typed; no name in the model table.
        plugins: names of plugins, `package/name`: a name with the same package is a slip, not a Hub id.
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
    """The error for a name that is none of ours and stands for nothing either."""
    other = UNSUPPORTED_MODELS.get(name.lower().replace("_", "-"), UNSUPPORTED_MODELS.get(name.lower()))
    if other is not None:
        found, advice = other
        named = next((str(args[key]) for key in _WEIGHTS if args.get(key)), "FOLDER_OR_HUB_ID")
        return UnknownName(Fault(f"--model {name}", found, next=advice.format(_command(named))))
    if "," in name:
        several = " ".join(part.strip() for part in name.split(",") if part.strip())
        advice = f"Several models are separated by spaces: --models {several}"
        return UnknownName(Fault("", f'unknown model "{name}"', next=advice))
    if Path(name).is_dir():
        return UnknownName(Fault("", f'unknown model "{name}"', next=f"For the folder of that name: --model ./{name}"))
    advice = "See: assay ls models"
    if HUB_ID.fullmatch(name) is not None:
        advice += f". For a model of the Hugging Face Hub: {_command(name)}"
    return UnknownName(Fault("", f'unknown model "{name}"{did_you_mean(name, known)}', next=advice))


def _command(named: str) -> str:
    return f"--model hf --model_args {shlex.quote(f'pretrained={named}')}"
