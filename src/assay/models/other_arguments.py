"""Model arguments of lm-eval and transformers that `hf` does not have: what to write instead. One table.

A value that is lm-eval's default means the same as leaving the argument out, so it is taken; every other value is an
error with the advice, never ignored in silence. The section "Model arguments" of docs/lm-eval-compatibility.md lists
the same names, and a test compares.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An argument that is spelt another way here, or not to be had.

    Attributes:
        advice: what to do instead; {value} and {pretrained} are filled in, ready for a shell.
        defaults: values that mean the same as leaving it out.
    """

    advice: str
    defaults: tuple[Any, ...] = (None,)


_OFF = (None, False)
_DEVICE = (
    "A model runs on one device. Choose it with device=cuda:1; a smaller dtype or quantize=int8_weights saves memory"
)
_EIGHT = "Use: quantize=int8_weights"
_FOUR = "Use: quantize=int8_weights; or a GGUF file with 4-bit weights: --model FOLDER/NAME.gguf"
_GPTQ = "Weights in GPTQ format are not read. Use the original weights; quantize=int8_weights reads them in 8 bits"
_SERVER = "It is for models behind HTTP, which cannot be asked yet"
_BATCHES = "Leave it out: batch_size=auto (default) sizes batches by memory"
_MERGE = (
    'Merge the adapter into its model: python -c "from peft import AutoPeftModelForCausalLM as M; '
    "M.from_pretrained({value!r}).merge_and_unload().save_pretrained('merged')\"; "
    "then: pretrained=merged,tokenizer={pretrained}"
)
_DELTA = "Add the weights of {value} to those of {pretrained} and save the sum: pretrained=FOLDER"

ELSEWHERE: Mapping[str, Elsewhere] = {
    # lm-eval's HFLM
    "autogptq": Elsewhere(_GPTQ, _OFF),
    "delta": Elsewhere(_DELTA),
    "gptqmodel": Elsewhere(_GPTQ, _OFF),
    "logits_cache": Elsewhere("Leave it out: shared prefixes are always read once", (None, True)),
    "max_batch_size": Elsewhere(_BATCHES, (None, 64)),
    "max_cpu_memory": Elsewhere(_DEVICE),
    "max_memory_per_gpu": Elsewhere(_DEVICE),
    "mixed_precision_dtype": Elsewhere("Load the weights in that format: dtype={value}"),
    "offload_folder": Elsewhere(_DEVICE, (None, "./offload")),
    "parallelize": Elsewhere(_DEVICE, _OFF),
    "peft": Elsewhere(_MERGE),
    "softmax_dtype": Elsewhere(
        "Leave it out: log-probabilities are computed in float64; arithmetic=lm_eval for lm-eval's"
    ),
    "tp_plan": Elsewhere(_DEVICE),
    "truncation": Elsewhere("Leave it out: prompts longer than max_length are cut on the left, and counted", _OFF),
    "use_fast_tokenizer": Elsewhere(
        "Leave it out: transformers chooses the tokenizer that the folder has", (None, True)
    ),
    # what HFLM passes on to transformers
    "bnb_4bit_compute_dtype": Elsewhere(_FOUR),
    "bnb_4bit_quant_type": Elsewhere(_FOUR),
    "bnb_4bit_use_double_quant": Elsewhere(_FOUR, _OFF),
    "cache_dir": Elsewhere("Set the environment variable: HF_HOME={value}"),
    "device_map": Elsewhere(_DEVICE),
    "device_map_option": Elsewhere(_DEVICE),
    "gpus": Elsewhere(_DEVICE),
    "load_in_4bit": Elsewhere(_FOUR, _OFF),
    "load_in_8bit": Elsewhere(_EIGHT, _OFF),
    "local_files_only": Elsewhere("Set the environment variable: HF_HUB_OFFLINE=1", _OFF),
    "low_cpu_mem_usage": Elsewhere("Leave it out: weights are always loaded so", (None, True)),
    "token": Elsewhere("Leave it out and log in: hf auth login"),
    "torch_dtype": Elsewhere("Use: dtype={value}"),
    "use_auth_token": Elsewhere("Leave it out and log in: hf auth login", _OFF),
    "use_flash_attention_2": Elsewhere("Use: attn_implementation=flash_attention_2", _OFF),
    # other models of lm-eval
    "api_key": Elsewhere(_SERVER),
    "base_url": Elsewhere(_SERVER),
    "data_parallel_size": Elsewhere(_DEVICE, (None, 1)),
    "gpu_memory_utilization": Elsewhere(_BATCHES),
    "max_model_len": Elsewhere("Use: max_length={value}"),
    "model": Elsewhere("Use: pretrained={value}"),
    "num_concurrent": Elsewhere(_SERVER, (None, 1)),
    "quantization": Elsewhere(_EIGHT),
    "tensor_parallel_size": Elsewhere(_DEVICE, (None, 1)),
    "temperature": Elsewhere("Use: --gen_kwargs temperature={value},do_sample=true"),
}


def elsewhere_fault(name: str, value: Any, args: Mapping[str, Any]) -> Fault | None:
    """The fault of an argument in the table; None for a value that means the same as leaving it out.

    Args:
        name: an argument in the table.
        value: what the user gave.
        args: all of the user's arguments.
    """
    entry = ELSEWHERE[name]
    if any(value == default and type(value) is type(default) for default in entry.defaults):
        return None
    is_secret = name in ("api_key", "token", "use_auth_token")
    advice = entry.advice.format(
        value=value if entry is ELSEWHERE["peft"] else shlex.quote(str(value)),
        pretrained=shlex.quote(str(args.get("pretrained", "FOLDER"))),
    )
    found = "hf does not have this argument" if is_secret else f"found {value!r}; hf does not have this argument"
    return Fault(f"model_args.{name}", found, next=advice)
