"""What goes wrong while transformers loads a model, in our words: what it is, and what to do about it here.

Takes another library's error; gives a fault. The advice of the libraries themselves is for other callers: to load a
pickle all the same, to install what a stranger's code imports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from assay.core.errors import Fault, plain_reason


@dataclass(frozen=True, slots=True)
class LoadFault:
    """A known error.

    Attributes:
        pattern: matches the library's text; its group, if any, fills the braces below.
        found: what is wrong.
        next: what to do.
    """

    pattern: str
    found: str
    next: str


LOAD_FAULTS = (
    LoadFault(
        r"(?s)weights.only load failed(?:.*?GLOBAL ([\w.]+))?",
        "its weights are a pickle that holds more than tensors ({}), so reading it could run any code",
        "Use a copy in safetensors: https://huggingface.co/spaces/safetensors/convert makes one on the Hub, "
        "model.save_pretrained(FOLDER) in the code that trained it",
    ),
    LoadFault(
        r"deserializing header: (.*)",
        "its safetensors file is not whole ({}); a Git LFS pointer looks the same",
        "Fetch it again: hf download OWNER/NAME; in a git clone: git lfs pull",
    ),
    LoadFault(
        r"model type `([^`]+)` but Transformers does not recognize",
        'the installed transformers does not know the architecture "{}"',
        "Run: pip install --upgrade transformers; or check model_type in config.json",
    ),
    LoadFault(
        r"contains custom code",
        "it brings Python code of its own, which runs only with your consent",
        "Read the *.py files in its folder, then add to --model_args: trust_remote_code=true",
    ),
    LoadFault(
        r"requires the following packages that were not found in your environment: (.+?)\. Run",
        "its own code imports what is not installed: {}",
        "Install what the model's page names for it",
    ),
    LoadFault(
        r"(GPTQ|AWQ|bitsandbytes|HQQ|EETQ|FP8|compressed.tensors|AQLM|VPTQ).{0,80}(?:requires|not (?:found|available))",
        "its weights are quantised ({}), and the package or device for it is not here",
        "Use the original weights; quantize=int8_weights reads them in 8 bits. Or a GGUF file: gguf_file=NAME",
    ),
    LoadFault(
        r"(FlashAttention\d?) has been toggled on",
        "attn_implementation asks for {}, which this Python or device does not have",
        "Leave attn_implementation out, or set attn_implementation=sdpa",
    ),
    LoadFault(
        r"instantiate the backend tokenizer",
        "no tokenizer in it that can be read",
        "Copy tokenizer.json into the folder, or name another tokenizer: tokenizer=FOLDER. "
        "One that has only tokenizer.model needs: pip install sentencepiece",
    ),
)


def load_fault(where: str, found: str, error: BaseException) -> Fault:
    """The fault for an error of another library.

    Args:
        where: the folder or argument.
        found: what could not be done.
        error: why.
    """
    text = str(error)
    for known in LOAD_FAULTS:
        match = re.search(known.pattern, text, re.IGNORECASE)
        if match:
            detail = next((group for group in match.groups() if group), "unknown") if match.groups() else ""
            return Fault(where, f"{found}: {known.found.format(detail)}", next=known.next)
    return Fault(where, f"{found}: {plain_reason(error)}")
