"""Model arguments of lm-eval and transformers that `hf` does not have, and what to use instead.

A value equal to lm-eval's default is accepted, as it means the same as leaving the argument out; every other value is
an error with advice, never silently ignored. The section "Model arguments" of docs/lm-eval-compatibility.md lists the
same names; a test compares both.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault


@dataclass(frozen=True, slots=True)
class UnsupportedArgument:
    """An argument that has another name here, or is not supported.

    Attributes:
        advice: what to do instead; {value} and {pretrained} are filled in, quoted for a shell.
        defaults: values that mean the same as leaving the argument out.
    """

    advice: str
    defaults: tuple[Any, ...] = (None,)


_OFF = (None, False)
_DEVICE = (
    "A model runs on one device. Choose it with device=cuda:1; a smaller dtype or quantize=int8_weights saves memory"
)
_EIGHT = "Use: quantize=int8_weights"
_FOUR = "Use: quantize=int8_weights; or a GGUF file with 4-bit weights: --model FOLDER/NAME.gguf"
_GPTQ = "GPTQ weights are not supported. Use the original weights; quantize=int8_weights loads them in 8 bits"
_SERVER = "It is for models behind HTTP. Use: --model openai --model_args model=NAME,base_url=URL"
_BATCHES = "Leave it out: batch_size=auto (default) sizes batches by memory"
_MERGE = (
    'Merge the adapter into its model: python -c "from peft import AutoPeftModelForCausalLM as M; '
    "M.from_pretrained({value!r}).merge_and_unload().save_pretrained('merged')\"; "
    "then: pretrained=merged,tokenizer={pretrained}"
)
_DELTA = "Add the weights of {value} to those of {pretrained} and save the sum: pretrained=FOLDER"

UNSUPPORTED_ARGUMENTS: Mapping[str, UnsupportedArgument] = {
    # lm-eval's HFLM
    "autogptq": UnsupportedArgument(_GPTQ, _OFF),
    "delta": UnsupportedArgument(_DELTA),
    "gptqmodel": UnsupportedArgument(_GPTQ, _OFF),
    "logits_cache": UnsupportedArgument("Leave it out: shared prefixes are always computed once", (None, True)),
    "max_batch_size": UnsupportedArgument(_BATCHES, (None, 64)),
    "max_cpu_memory": UnsupportedArgument(_DEVICE),
    "max_memory_per_gpu": UnsupportedArgument(_DEVICE),
    "mixed_precision_dtype": UnsupportedArgument("Load the weights in that format: dtype={value}"),
    "offload_folder": UnsupportedArgument(_DEVICE, (None, "./offload")),
    "parallelize": UnsupportedArgument(_DEVICE, _OFF),
    "peft": UnsupportedArgument(_MERGE),
    "softmax_dtype": UnsupportedArgument(
        "Leave it out: log-probabilities are computed in float64; arithmetic=lm_eval reproduces lm-eval's"
    ),
    "tp_plan": UnsupportedArgument(_DEVICE),
    "truncation": UnsupportedArgument(
        "Leave it out: prompts longer than max_length are truncated on the left, and counted", _OFF
    ),
    "use_fast_tokenizer": UnsupportedArgument(
        "Leave it out: transformers picks the tokenizer in the folder", (None, True)
    ),
    # what HFLM passes on to transformers
    "bnb_4bit_compute_dtype": UnsupportedArgument(_FOUR),
    "bnb_4bit_quant_type": UnsupportedArgument(_FOUR),
    "bnb_4bit_use_double_quant": UnsupportedArgument(_FOUR, _OFF),
    "cache_dir": UnsupportedArgument("Set the environment variable: HF_HOME={value}"),
    "device_map": UnsupportedArgument(_DEVICE),
    "device_map_option": UnsupportedArgument(_DEVICE),
    "gpus": UnsupportedArgument(_DEVICE),
    "load_in_4bit": UnsupportedArgument(_FOUR, _OFF),
    "load_in_8bit": UnsupportedArgument(_EIGHT, _OFF),
    "local_files_only": UnsupportedArgument("Set the environment variable: HF_HUB_OFFLINE=1", _OFF),
    "low_cpu_mem_usage": UnsupportedArgument("Leave it out: weights are always loaded this way", (None, True)),
    "token": UnsupportedArgument("Leave it out and log in: hf auth login"),
    "torch_dtype": UnsupportedArgument("Use: dtype={value}"),
    "use_auth_token": UnsupportedArgument("Leave it out and log in: hf auth login", _OFF),
    "use_flash_attention_2": UnsupportedArgument("Use: attn_implementation=flash_attention_2", _OFF),
    # other models of lm-eval
    "api_key": UnsupportedArgument(_SERVER),
    "base_url": UnsupportedArgument(_SERVER),
    "data_parallel_size": UnsupportedArgument(_DEVICE, (None, 1)),
    "gpu_memory_utilization": UnsupportedArgument(_BATCHES),
    "max_model_len": UnsupportedArgument("Use: max_length={value}"),
    "model": UnsupportedArgument("Use: pretrained={value}"),
    "num_concurrent": UnsupportedArgument(_SERVER, (None, 1)),
    "quantization": UnsupportedArgument(_EIGHT),
    "tensor_parallel_size": UnsupportedArgument(_DEVICE, (None, 1)),
    "temperature": UnsupportedArgument("Use: --gen_kwargs temperature={value},do_sample=true"),
}


def unsupported_argument_fault(name: str, value: Any, args: Mapping[str, Any]) -> Fault | None:
    """The fault for an argument in the table; None for a value that means the same as leaving it out.

    Args:
        name: an argument in the table.
        value: what the user gave.
        args: all of the user's arguments.
    """
    entry = UNSUPPORTED_ARGUMENTS[name]
    if any(value == default and type(value) is type(default) for default in entry.defaults):
        return None
    is_secret = name in ("api_key", "token", "use_auth_token")
    advice = entry.advice.format(
        value=value if entry is UNSUPPORTED_ARGUMENTS["peft"] else shlex.quote(str(value)),
        pretrained=shlex.quote(str(args.get("pretrained", "FOLDER"))),
    )
    found = "hf does not have this argument" if is_secret else f"found {value!r}; hf does not have this argument"
    return Fault(f"model_args.{name}", found, next=advice)
