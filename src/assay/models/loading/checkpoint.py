"""A checkpoint on disk: its folder, configuration, fingerprint and capabilities.

In: the model arguments. Out: a `Checkpoint` read from the small files. Imports neither torch nor transformers, so
identifying a model loads nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, ModelError, missing_extra
from assay.core.identity import Fingerprint, digest
from assay.core.protocols import Capabilities
from assay.core.requests import REQUEST_KINDS, Generation, Loglikelihood
from assay.models.download import hub
from assay.models.download.file_hashes import hash_files
from assay.models.loading.hf_arguments import DECODER, CausalArguments

WEIGHT_SUFFIXES = (".safetensors", ".bin")
# The training record in the folder of a fine-tuned model.
FIT_FILE = "fit.json"
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)
# Configuration keys without effect on answers; precision is a separate fingerprint field.
INERT_KEYS = {
    "transformers_version",
    "_name_or_path",
    "name_or_path",
    "dtype",
    "torch_dtype",
    "tokenizer_file",
}
CAUSAL_ENDINGS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "LMModel", "DoubleHeadsModel")
ENCODER_TYPES = (
    *("albert", "bert", "big_bird", "camembert", "canine", "convbert", "data2vec-text", "deberta", "deberta-v2"),
    *("distilbert", "electra", "ernie", "esm", "eurobert", "flaubert", "fnet", "funnel", "ibert", "longformer", "luke"),
    *("megatron-bert", "mobilebert", "modernbert", "mpnet", "mra", "nomic_bert", "nystromformer", "rembert", "roberta"),
    *("roberta-prelayernorm", "roc_bert", "roformer", "splinter", "squeezebert", "xlm", "xlm-roberta"),
    *("xlm-roberta-xl", "xlnet", "xmod", "yoso"),
)
# Position ids start after the padding token id, which uses up some position embeddings: 514 hold 512 tokens.
OFFSET_TYPES = (
    *("camembert", "data2vec-text", "ibert", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm"),
    *("xlm-roberta", "xlm-roberta-xl", "xmod"),
)
# Used if config.json has no is_encoder_decoder, as in a GGUF file.
ENCODER_DECODER_TYPES = ("bart", "longt5", "marian", "mbart", "mt5", "pegasus", "t5", "umt5")
# Encoder-decoders saved in part or with another head: their embeddings would serve as an untrained output layer.
HEADLESS_ENDINGS = ("EncoderModel", "ForSequenceClassification", "ForQuestionAnswering", "ForTokenClassification")
# Request kinds of each family; those of an encoder depend on its head (`hf/encoder/heads.py`). An encoder-decoder
# cannot score a whole text: its encoder needs an input.
FAMILY_KINDS = {
    "causal": frozenset(REQUEST_KINDS),
    "encoder-decoder": frozenset((Loglikelihood.kind, Generation.kind)),
}
# Request kinds that each family can be trained on.
FAMILY_LEARNS = {
    "causal": frozenset((Loglikelihood.kind,)),
    "encoder-decoder": frozenset((Loglikelihood.kind,)),
}
LENGTH_KEYS = ("n_positions", "max_position_embeddings", "n_ctx")
# transformers writes 1e30 for "no limit".
UNLIMITED = 10**20
FALLBACK_LENGTH = 2048


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model folder and the content of its small files.

    Attributes:
        name: the user's name for it.
        folder: folder of the model files.
        tokenizer_folder: folder of the tokenizer files.
        revision: resolved commit of a Hub model.
        config: content of config.json.
        tokenizer_config: content of tokenizer_config.json.
        template: the default chat template, if there is one.
    """

    name: str
    folder: Path
    tokenizer_folder: Path
    revision: str | None
    config: Mapping[str, Any]
    tokenizer_config: Mapping[str, Any]
    template: str | None


def check_folder(folder: Path, args: CausalArguments) -> None:
    """Raises an error unless the folder looks like a model folder."""
    if args.gguf_file and not (folder / args.gguf_file).is_file():
        raise ModelError(
            Fault(str(folder), f'no file "{args.gguf_file}" in this folder', "the name of a GGUF file in the folder")
        )
    if not args.gguf_file and not (folder / "config.json").is_file():
        hint = "Name the folder that save_pretrained wrote, or set subfolder"
        raise ModelError(Fault(str(folder), "no config.json: not a model folder", "a transformers model", hint))


def find_checkpoint(args: CausalArguments) -> Checkpoint:
    """The checkpoint named by the arguments; a Hub model is downloaded."""
    folder = hub.local_folder(args.pretrained, args.subfolder)
    weights = [args.gguf_file] if args.gguf_file else ["*.safetensors", "*.bin"]
    code = ["*.py"] if args.trust_remote_code else []
    snapshot = (
        hub.Snapshot(folder) if folder else hub.fetch(args.pretrained, args.revision, weights, code, args.subfolder)
    )
    tokenizer_folder = snapshot.folder
    if args.tokenizer is not None:
        tokenizer_folder = hub.local_folder(args.tokenizer) or hub.fetch(args.tokenizer, None, [], code).folder
    return read_checkpoint(snapshot.folder, tokenizer_folder, snapshot.revision, args)


def read_config(folder: Path, args: CausalArguments) -> dict[str, Any]:
    """The content of config.json, or of the header of a GGUF file."""
    config = _read_json(folder / "config.json")
    return _gguf_config(folder / args.gguf_file) if args.gguf_file and not config else config


def read_checkpoint(folder: Path, tokenizer_folder: Path, revision: str | None, args: CausalArguments) -> Checkpoint:
    """Reads the small files of a model folder."""
    check_folder(folder, args)
    config = read_config(folder, args)
    tokenizer_config = _read_json(tokenizer_folder / "tokenizer_config.json")
    template = _find_template(tokenizer_folder, tokenizer_config) or config.get("_gguf_template")
    return Checkpoint(
        name=args.pretrained,
        folder=folder,
        tokenizer_folder=tokenizer_folder,
        revision=revision,
        config=config,
        tokenizer_config=tokenizer_config,
        template=template,
    )


def _read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; empty if the file does not exist."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelError(Fault(str(path), f"cannot be read: {error}", "a JSON file")) from error
    if not isinstance(data, dict):
        raise ModelError(Fault(str(path), f"holds a {type(data).__name__}", "a JSON object"))
    return data


def _gguf_config(path: Path) -> dict[str, Any]:
    """The few settings needed before loading, from the header of a GGUF file."""
    try:
        from gguf import GGUFReader
    except ImportError:
        return {}
    try:
        found = {name: field.contents() for name, field in GGUFReader(path).fields.items()}
    except Exception as error:  # the reader raises arbitrary errors for a corrupt file
        raise ModelError(Fault(str(path), f"cannot be read as GGUF: {error}")) from error
    kind = found.get("general.architecture", "")
    length = found.get(f"{kind}.context_length")
    known = {
        "model_type": kind,
        "max_position_embeddings": length,
        "_gguf_template": found.get("tokenizer.chat_template"),
    }
    return {name: value for name, value in known.items() if value is not None}


def _find_template(folder: Path, tokenizer_config: Mapping[str, Any]) -> str | None:
    """The default chat template: its own file first, then the tokenizer's settings."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = tokenizer_config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) and template else None


def family(config: Mapping[str, Any]) -> str:
    """`causal`, `encoder-decoder` or `encoder` (no language-model head), from config.json alone.

    Decoders and encoder-decoders with another head, such as a classification head, count as encoders.
    """
    architectures = config.get("architectures") or []
    if config.get("is_encoder_decoder", config.get("model_type") in ENCODER_DECODER_TYPES):
        return "encoder" if any(name.endswith(HEADLESS_ENDINGS) for name in architectures) else "encoder-decoder"
    if any(name.endswith(CAUSAL_ENDINGS) for name in architectures):
        # BERT can be a decoder, but only if its configuration says so.
        return "encoder" if config.get("model_type") in ENCODER_TYPES and not config.get("is_decoder") else "causal"
    # A decoder saved without its head (LlamaModel) would get a random one, so it is not a causal model.
    return "encoder" if architectures or config.get("model_type") in ENCODER_TYPES else "causal"


def chosen_family(config: Mapping[str, Any], args: CausalArguments) -> str:
    """The family requested by the user, else the configuration's."""
    if args.family is None:
        return family(config)
    return "causal" if args.family == DECODER else args.family


def max_length(checkpoint: Checkpoint, args: CausalArguments) -> int:
    """Maximum sequence length in tokens, by lm-eval's rule."""
    if args.max_length is not None:
        return args.max_length
    text_config = checkpoint.config.get("text_config")
    for config in (text_config, checkpoint.config):
        for key in LENGTH_KEYS if isinstance(config, Mapping) else ():
            if isinstance(config, Mapping) and isinstance(config.get(key), int):
                return int(config[key]) - _lost_positions(config)
    stated = checkpoint.tokenizer_config.get("model_max_length")
    return int(stated) if isinstance(stated, (int, float)) and 0 < stated < UNLIMITED else FALLBACK_LENGTH


def _lost_positions(config: Mapping[str, Any]) -> int:
    """Unusable rows of the position-embedding table."""
    if config.get("model_type") not in OFFSET_TYPES:
        return 0
    stated = config.get("pad_token_id")
    return (stated if isinstance(stated, int) else 1) + 1


def precision(checkpoint: Checkpoint, args: CausalArguments) -> str:
    """The data type of the weights, with `auto` resolved: the configuration's, else float32."""
    if args.dtype != "auto":
        return args.dtype
    text_config = checkpoint.config.get("text_config")
    for config in (checkpoint.config, text_config):
        for key in ("dtype", "torch_dtype") if isinstance(config, Mapping) else ():
            if isinstance(config, Mapping) and isinstance(config.get(key), str):
                return str(config[key]).removeprefix("torch.")
    return "float32"


def capabilities(checkpoint: Checkpoint, args: CausalArguments) -> Capabilities:
    """The model's capabilities. Batching changes the last bits of its answers, so it is not deterministic."""
    kind = chosen_family(checkpoint.config, args)
    return Capabilities(
        kinds=FAMILY_KINDS.get(kind, frozenset()),
        max_tokens=max_length(checkpoint, args),
        has_chat=checkpoint.template is not None,
        can_tokenize=True,
        is_deterministic=False,
        family=kind,
        learns=FAMILY_LEARNS.get(kind, frozenset()),
    )


def fingerprint(checkpoint: Checkpoint, args: CausalArguments, cache: Path | None = None) -> Fingerprint:
    """The model's fingerprint: everything that may change its answers."""
    folder = checkpoint.folder
    code = {path.name: path.read_bytes() for path in folder.glob("*.py")} if args.trust_remote_code else {}
    settings: dict[str, Any] = {
        "max_length": max_length(checkpoint, args),
        "max_gen_toks": args.max_gen_toks,
        "add_bos_token": args.add_bos_token,
        "prefix_token_id": args.prefix_token_id,
        "attn_implementation": args.attn_implementation,
        "template_options": args.template_options,
        "think_end_token": args.think_end_token,
        "arithmetic": args.arithmetic,
        "config": digest(_effective_settings(checkpoint.config)),
        # Its defaults (repetition penalty, several EOS tokens) apply to every generation.
        "generation_config": digest(_effective_settings(_read_json(folder / "generation_config.json"))),
        "code": digest(code) if code else None,
    }
    if (kind := chosen_family(checkpoint.config, args)) != "causal":
        settings["family"] = kind
    if args.quantize is not None:
        settings["quantize"] = _quantization(args.quantize)
    weights = list(weight_files(folder, args.gguf_file))
    if not weights:
        expected = "model.safetensors, its shards, or pytorch_model.bin"
        raise ModelError(Fault(str(folder), "no weight files in this folder", expected))
    return Fingerprint(
        name=checkpoint.name,
        revision=checkpoint.revision,
        weights=hash_files(weights, cache),
        precision=precision(checkpoint, args),
        tokenizer=_tokenizer_hash(checkpoint),
        template=digest(checkpoint.template) if checkpoint.template else None,
        parent=_parent(folder),
        settings=settings,
    )


def _quantization(kind: str) -> list[str]:
    """The kind, and the torchao release: releases round differently."""
    try:
        return [kind, version("torchao")]
    except PackageNotFoundError:
        raise missing_extra("torchao", "quantize", f"quantize={kind}") from None


def _parent(folder: Path) -> str | None:
    """Digest of the parent model, if Assay trained this one."""
    stated = _read_json(folder / FIT_FILE).get("parent")
    return stated if isinstance(stated, str) else None


def _effective_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in INERT_KEYS}


def weight_files(folder: Path, gguf_file: str | None = None) -> Iterable[tuple[str, Path]]:
    """Names and paths of the weight files: a GGUF, else safetensors, else .bin."""
    if gguf_file:
        return [(gguf_file, folder / gguf_file)]
    for suffix in WEIGHT_SUFFIXES:
        names = sorted(path.name for path in folder.glob(f"*{suffix}") if path.name != "training_args.bin")
        if names:
            return [(name, folder / name) for name in names]
    return []


def _tokenizer_hash(checkpoint: Checkpoint) -> str:
    """A hash of the tokenizer files; the chat template is hashed separately."""
    folder = checkpoint.tokenizer_folder
    parts: list[tuple[str, Any]] = []
    for name in sorted({*TOKENIZER_FILES, *(path.name for path in folder.glob("*.tiktoken"))}):
        path = folder / name
        if name == "tokenizer_config.json":
            stated = {key: value for key, value in checkpoint.tokenizer_config.items() if key != "chat_template"}
            parts.append((name, _effective_settings(stated)))
        elif path.is_file():
            parts.append((name, path.read_bytes()))
    return digest(parts)
