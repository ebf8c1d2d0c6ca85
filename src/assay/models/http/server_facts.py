"""What a server says of itself: its kind, its models, its limits and its version.

In: a connection. Out: `ServerFacts`. Endpoints that a server does not have are left out; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.models.http.connection import Connection
from assay.models.http.replies import Rejection

_MOST_LISTED = 10


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts about a server.

    Attributes:
        kind: `llamacpp` or `vllm` if it is recognised by its own endpoints, else `openai`.
        max_length: tokens of prompt and answer together; None if it does not say.
        version: its version, for the record.
        special: texts of its special tokens by name: `bos_token`, `eos_token`.
        models: names of its models; empty if it does not list them.
    """

    kind: str
    max_length: int | None = None
    version: str = ""
    special: Mapping[str, str] | None = None
    models: tuple[str, ...] = ()


def find_facts(connection: Connection, model: str) -> ServerFacts:
    """Asks a server for facts.

    Raises:
        ModelError: if it cannot be reached, refuses the key, or lists its models without the named one.
    """
    listed = connection.look("models")
    if isinstance(listed, Rejection) and listed.kind in ("unreachable", "unauthorized", "tls", "address", "redirect"):
        advice = listed.advice or "Start the server, or check base_url in --model_args"
        raise ModelError(Fault(connection.client.settings.base_url, listed.message, "a server", advice))
    rows = [] if isinstance(listed, Rejection) else listed.get("data")
    entries = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    names = tuple(str(row.get("id")) for row in entries)
    properties, version, tokens = map(connection.look, ("/props", "/version", "/tokenizer_info"))
    if not isinstance(properties, Rejection) and "default_generation_settings" in properties:
        return _llamacpp(properties, names)  # serves its one model under any name
    if names and model not in names:
        known = ", ".join(names[:_MOST_LISTED])
        raise ModelError(Fault("model_args.model", f'the server has no model "{model}"', known, "Choose one of these"))
    own = next((row for row in entries if row.get("id") == model), {})
    longest = own.get("max_model_len")
    is_vllm = own.get("owned_by") == "vllm"
    special = {} if isinstance(tokens, Rejection) else _texts(tokens)
    found = "" if isinstance(version, Rejection) else str(version.get("version", ""))
    length = longest if type(longest) is int and longest > 0 else None
    return ServerFacts("vllm" if is_vllm else "openai", length, found, special, names)


def _llamacpp(properties: Mapping[str, Any], names: tuple[str, ...]) -> ServerFacts:
    settings = properties["default_generation_settings"]
    length = settings.get("n_ctx") if isinstance(settings, Mapping) else None
    version = str(properties.get("build_info", ""))
    known = length if type(length) is int and length > 0 else None
    return ServerFacts("llamacpp", known, version, _texts(properties), names)


def _texts(data: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("bos_token", "eos_token"):
        token = data.get(name)
        text = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(text, str) and text:
            found[name] = text
    return found
