"""Model facts for result files: parameters, data type, revision, special tokens and chat template.

In: a checkpoint, the model arguments and special tokens. Out: `ModelFacts`. Needs no weights: if they are not
loaded, parameters are counted from the headers of the weight files.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from assay.core.protocols import ModelFacts
from assay.models.loading.checkpoint import Checkpoint, max_length, precision, weight_files
from assay.models.loading.hf_arguments import CausalArguments
from assay.models.tokens.special_tokens import SpecialTokens

_DEFAULT_REVISION = "main"
# Buffers that older checkpoints store beside their parameters; attention masks are also called `bias`.
_BUFFERS = ("rotary_emb.inv_freq", ".masked_bias", ".position_ids", "final_logits_bias")
_LONGEST_HEADER = 100_000_000


def model_facts(
    checkpoint: Checkpoint, arguments: CausalArguments, tokens: SpecialTokens, parameters: int | None
) -> ModelFacts:
    """The facts of a model; `parameters` is the count from loading, None if it was not loaded."""
    return ModelFacts(
        parameters=stored_parameters(checkpoint, arguments) if parameters is None else parameters,
        dtype=f"torch.{precision(checkpoint, arguments)}",
        revision=arguments.revision or _DEFAULT_REVISION,
        commit=checkpoint.revision or "",
        max_length=max_length(checkpoint, arguments),
        pad=tokens.pad,
        eos=tokens.eos,
        bos=tokens.bos,
        template=checkpoint.template,
    )


def stored_parameters(checkpoint: Checkpoint, arguments: CausalArguments) -> int | None:
    """Number of parameters in safetensors files, from their headers; None for other file types."""
    files = [path for _, path in weight_files(checkpoint.folder, arguments.gguf_file)]
    if not files or any(path.suffix != ".safetensors" for path in files):
        return None
    try:
        return sum(map(_parameters_in, files))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # a corrupt or mislabelled file
        return None


def _parameters_in(path: Path) -> int:
    """Reads a safetensors header: 8 bytes with its length, then JSON with the shape of every tensor."""
    with path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        if size > _LONGEST_HEADER:
            raise ValueError(f"{path}: the header would be {size:,} bytes")
        header = json.loads(stream.read(size))
    shapes = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    return sum(math.prod(shape) for name, shape in shapes.items() if not _is_buffer(name, shape))


def _is_buffer(name: str, shape: list[int]) -> bool:
    return name.endswith(_BUFFERS) or (name.endswith(".bias") and len(shape) > 2)
