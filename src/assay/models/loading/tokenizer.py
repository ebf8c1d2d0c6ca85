"""The tokenizer of a checkpoint, its tokenisation rules, and the encoder built from both.

Takes a checkpoint and the model arguments; needs no weights.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from assay.models.loading.checkpoint import Checkpoint, max_length
from assay.models.loading.hf_arguments import CausalArguments
from assay.models.loading.network import loading, require_transformers
from assay.models.runtime import quiet
from assay.models.tokens.chat import ChatRenderer
from assay.models.tokens.encoding import Encoder
from assay.models.tokens.tokenization import Tokenizer, TokenRules

PROBE_TEXT = "A"

AnyEncoder = TypeVar("AnyEncoder", bound=Encoder)


def load_tokenizer(checkpoint: Checkpoint, args: CausalArguments) -> Tokenizer:
    """Loads the tokenizer of a checkpoint; needs no weights."""
    require_transformers(f'reading the tokenizer of "{checkpoint.name}"')
    from transformers import AutoTokenizer

    options: dict[str, Any] = {"trust_remote_code": args.trust_remote_code, "local_files_only": True}
    if args.gguf_file and args.tokenizer is None:
        options["gguf_file"] = args.gguf_file
    if args.add_bos_token is not None:
        options["add_bos_token"] = args.add_bos_token
    folder = str(checkpoint.tokenizer_folder)
    with loading(folder, "the tokenizer cannot be loaded"), quiet():
        return cast(Tokenizer, AutoTokenizer.from_pretrained(folder, **options))


def token_rules(tokenizer: Tokenizer, max_length: int, args: CausalArguments) -> TokenRules:
    """The model's tokenisation rules, with its prefix token resolved."""
    prefix = args.prefix_token_id
    if prefix is None:
        prefix = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    text = "" if prefix is None else tokenizer.decode([prefix])
    prepended: tuple[int, ...] = ()
    if args.add_bos_token and tokenizer.bos_token_id is not None and not adds_bos(tokenizer):
        # Not every tokenizer honours add_bos_token, so BOS is prepended here.
        prepended = (tokenizer.bos_token_id,)
    return TokenRules(tokenizer, max_length, args.add_bos_token, prefix, text, prepended)


def adds_bos(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer adds BOS before a text."""
    return tokenizer([PROBE_TEXT])["input_ids"][0][:1] == [tokenizer.bos_token_id]


def make_encoder(kind: type[AnyEncoder], checkpoint: Checkpoint, arguments: CausalArguments) -> AnyEncoder:
    """Builds the request encoder of a checkpoint; needs its tokenizer, not its weights."""
    tokenizer = load_tokenizer(checkpoint, arguments)
    rules = token_rules(tokenizer, max_length(checkpoint, arguments), arguments)
    return kind(rules, ChatRenderer(tokenizer, arguments.template_options), arguments.max_gen_toks)
