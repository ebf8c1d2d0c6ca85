"""`/tokenize`, `/detokenize`, `/tokenizer_info`: the model's tokenizer, as vLLM offers it.

In: a JSON body. Out: JSON data.
"""

from __future__ import annotations

from typing import Any

from assay.core.responses import Failure
from assay.serve.api_errors import failed, refused
from assay.serve.chat import read_messages
from assay.serve.fields import Fields
from assay.serve.service import Service


def tokenize(body: Any, service: Service) -> dict[str, Any]:
    """The token ids of a text or of a conversation."""
    fields, codec = Fields(body), service.codec
    _check_model(fields, service)
    text = fields.text("prompt")
    adds = None if fields.get("add_special_tokens") is None else fields.flag("add_special_tokens")
    with_texts = fields.flag("return_token_strs")
    if (text is None) == (fields.get("messages") is None):
        raise refused("expected either prompt or messages", "prompt")
    if text is None:
        rendered = codec.render(read_messages(fields), fields.mapping("chat_template_kwargs"))
        if isinstance(rendered, Failure):
            raise failed(rendered)
        text = rendered[0]
    fields.finish()
    ids = codec.encode(text, adds)
    found: dict[str, Any] = {"tokens": list(ids), "count": len(ids), "max_model_len": service.facts.max_length}
    return {**found, "token_strs": list(codec.pieces(ids))} if with_texts else found


def detokenize(body: Any, service: Service) -> dict[str, Any]:
    """The text of token ids."""
    fields, codec = Fields(body), service.codec
    _check_model(fields, service)
    ids = fields.token_ids("tokens", codec.vocabulary)
    fields.finish()
    return {"prompt": codec.decode(ids)}


def tokenizer_info(service: Service) -> dict[str, Any]:
    """Special tokens and chat template."""
    codec = service.codec
    texts = {name: None if number is None else codec.decode([number]) for name, number in codec.special.items()}
    return {**texts, "chat_template": codec.template, "vocab_size": codec.vocabulary}


def _check_model(fields: Fields, service: Service) -> None:
    name = fields.text("model")
    if name is not None:
        service.check_model(name)
