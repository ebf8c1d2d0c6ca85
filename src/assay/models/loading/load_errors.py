"""Readable errors for what goes wrong while transformers loads a model.

In: an error of another library. Out: a fault. The libraries' own advice does not fit here: it says to load the
pickle anyway, or to install what third-party code imports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from assay.core.errors import Fault, plain_reason


@dataclass(frozen=True, slots=True)
class LoadFault:
    """A known error.

    Attributes:
        pattern: matches the library's message; its group, if any, fills the braces in `found`.
        found: what is wrong.
        next: what to do.
    """

    pattern: str
    found: str
    next: str


LOAD_FAULTS = (
    LoadFault(
        r"(?s)weights.only load failed(?:.*?GLOBAL ([\w.]+))?",
        "its weights are a pickle with more than tensors ({}), so loading it could run arbitrary code",
        "Use a copy in safetensors: https://huggingface.co/spaces/safetensors/convert makes one on the Hub, "
        "model.save_pretrained(FOLDER) in the code that trained it",
    ),
    LoadFault(
        r"deserializing header: (.*)",
        "its safetensors file is incomplete ({}); it may be a Git LFS pointer",
        "Download it again: hf download OWNER/NAME; in a git clone: git lfs pull",
    ),
    LoadFault(
        r"model type `([^`]+)` but Transformers does not recognize",
        'the installed transformers does not know the architecture "{}"',
        "Run: pip install --upgrade transformers; or check model_type in config.json",
    ),
    LoadFault(
        r"contains custom code",
        "it contains custom Python code, which runs only with your consent",
        "Read the *.py files in its folder, then add to --model_args: trust_remote_code=true",
    ),
    LoadFault(
        r"requires the following packages that were not found in your environment: (.+?)\. Run",
        "its custom code imports packages that are not installed: {}",
        "Install the packages named on the model's page",
    ),
    LoadFault(
        r"(GPTQ|AWQ|bitsandbytes|HQQ|EETQ|FP8|compressed.tensors|AQLM|VPTQ).{0,80}(?:requires|not (?:found|available))",
        "its weights are quantised ({}), and the required package or device is not available",
        "Use the original weights; quantize=int8_weights loads them in 8 bits. Or use a GGUF file: gguf_file=NAME",
    ),
    LoadFault(
        r"(FlashAttention\d?) has been toggled on",
        "attn_implementation requires {}, which this Python or device does not have",
        "Leave attn_implementation out, or set attn_implementation=sdpa",
    ),
    LoadFault(
        r"instantiate the backend tokenizer",
        "no readable tokenizer in this folder",
        "Copy tokenizer.json into the folder, or name another tokenizer: tokenizer=FOLDER. "
        "For a folder with only tokenizer.model: pip install sentencepiece",
    ),
)


def load_fault(where: str, found: str, error: BaseException) -> Fault:
    """The fault for an error of another library.

    Args:
        where: the folder or argument.
        found: what failed.
        error: the library's error.
    """
    text = str(error)
    for known in LOAD_FAULTS:
        match = re.search(known.pattern, text, re.IGNORECASE)
        if match:
            detail = next((group for group in match.groups() if group), "unknown") if match.groups() else ""
            return Fault(where, f"{found}: {known.found.format(detail)}", next=known.next)
    return Fault(where, f"{found}: {plain_reason(error)}")
