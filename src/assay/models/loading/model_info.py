"""What result files say of a model of transformers: its size, number format, revision, special tokens and template.

Takes a checkpoint, the user's arguments and special tokens; gives `ModelFacts`. Needs no weights: without them,
parameters are counted in the headers of the weight files.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from assay.core.protocols import ModelFacts
from assay.models.loading.arguments import CausalArguments
from assay.models.loading.checkpoint import Checkpoint, max_length, precision, weight_files
from assay.models.tokens.special_tokens import SpecialTokens

_DEFAULT_REVISION = "main"
# Buffers that older checkpoints hold beside their parameters; masks of attention are called `bias` as well.
_BUFFERS = ("rotary_emb.inv_freq", ".masked_bias", ".position_ids", "final_logits_bias")
_LONGEST_HEADER = 100_000_000


def model_facts(
    checkpoint: Checkpoint, arguments: CausalArguments, tokens: SpecialTokens, parameters: int | None
) -> ModelFacts:
    """The facts of a model; `parameters` as counted when it was loaded, None where it was not."""
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
    """Parameters in safetensors files, from their headers; None for files of other kinds."""
    files = [path for _, path in weight_files(checkpoint.folder, arguments.gguf_file)]
    if not files or any(path.suffix != ".safetensors" for path in files):
        return None
    try:
        return sum(map(_parameters_in, files))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # a file that is not what its name says
        return None


def _parameters_in(path: Path) -> int:
    """The safetensors format: 8 bytes with the length of a JSON header, which has the shape of every tensor."""
    with path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        if size > _LONGEST_HEADER:
            raise ValueError(f"{path}: the header would be {size:,} bytes")
        header = json.loads(stream.read(size))
    shapes = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    return sum(math.prod(shape) for name, shape in shapes.items() if not _is_buffer(name, shape))


def _is_buffer(name: str, shape: list[int]) -> bool:
    return name.endswith(_BUFFERS) or (name.endswith(".bias") and len(shape) > 2)
