"""The opener of `hf`: finds a checkpoint's family (decoder, encoder-decoder or encoder) and creates its model.

In: the arguments of `hf`. Out: a model that has not loaded weights yet, or an error with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.protocols import Model
from assay.core.specs import ModelSettings
from assay.models.download import hub
from assay.models.hf.encoder.heads import can_take_head, check_head, find_head
from assay.models.inference.batching import BatchLimit, read_batch_size
from assay.models.loading import checkpoint as checkpoints
from assay.models.loading.hf_arguments import ENCODER, TREE, CausalArguments, read_causal_arguments


def open_hf(args: Mapping[str, Any], settings: ModelSettings) -> Model:
    """Opens a transformers model; reads only its configuration (for a Hub model, downloads the small files).

    Raises:
        ModelError: for invalid arguments, a folder that is not a model, and a model that can neither answer nor be
            trained.
    """
    arguments = read_causal_arguments(args)
    config = _config(arguments)
    _check_family(config, arguments)
    kind = checkpoints.chosen_family(config, arguments)
    if config:
        check_head(find_head(config) if kind == ENCODER else None, config, arguments)
    if kind == "causal":
        from assay.models.hf.decoder.decoder_model import open_causal

        return open_causal(args, settings)
    limit = _padded_limit(kind, arguments, settings)
    device = arguments.device or settings.device
    if kind == ENCODER:
        from assay.models.hf.encoder.encoder_model import EncoderModel

        return EncoderModel(arguments, device, limit)
    from assay.models.hf.seq2seq.seq2seq_model import EncoderDecoder

    return EncoderDecoder(arguments, device, limit)


def find_family(args: Mapping[str, Any]) -> str:
    """`causal`, `encoder-decoder` or `encoder`, from the arguments of `hf`; reads the configuration only."""
    arguments = read_causal_arguments(args)
    return checkpoints.chosen_family(_config(arguments), arguments)


def _padded_limit(kind: str, args: CausalArguments, settings: ModelSettings) -> BatchLimit | None:
    """The batch limit of a family without prefix sharing; rejects engine=tree and a missing tokenizer folder."""
    if (args.engine or settings.engine) == TREE:
        found = f'engine "{TREE}", but "{args.pretrained}" is an {kind}'
        raise ModelError(Fault("engine", found, "auto or padded: the prefix tree works for decoders only"))
    if args.tokenizer is not None:
        hub.local_folder(args.tokenizer)
    return read_batch_size(args.batch_size or str(settings.batch_size))


def _config(args: CausalArguments) -> dict[str, Any]:
    folder = hub.local_folder(args.pretrained, args.subfolder)
    if folder is not None:
        checkpoints.check_folder(folder, args)
    elif args.family is not None or args.gguf_file:
        return {}  # family is known: a Hub model is not contacted before it is needed
    else:
        folder = hub.fetch(args.pretrained, args.revision, [], [], args.subfolder).folder
    return checkpoints.read_config(folder, args)


def _check_family(config: Mapping[str, Any], args: CausalArguments) -> None:
    found, chosen = checkpoints.family(config), checkpoints.chosen_family(config, args)
    names = ", ".join(config.get("architectures") or [config.get("model_type") or "config.json"])
    if chosen == ENCODER and args.family is None and find_head(config) is None and not can_take_head(config):
        expected = (
            "a decoder (GPT kind) or an encoder-decoder (T5, BART kind) with its language-model head, or an encoder"
        )
        hint = "If it is one of these, set family=decoder, family=encoder-decoder or family=encoder"
        what = f"{names} has no head that answers requests"
        raise ModelError(Fault(args.pretrained, what, expected, hint))
    if chosen == "encoder-decoder" and found == "causal" and config.get("architectures"):
        what = f"family=encoder-decoder, but {names} is a decoder: it has no encoder"
        raise ModelError(Fault("model_args.family", what, next="Leave family out"))
