"""What a server says of itself: its kind, its models, its limits and its version.

In: a connection. Out: `ServerFacts`. Endpoints that a server does not have are left out; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.models.http.connection import Connection
from assay.models.http.traffic.replies import Rejection

_MOST_LISTED = 10
_UNUSABLE = ("unreachable", "unauthorized", "tls", "address", "redirect", "timeout", "disconnected")
# The names that servers give themselves as owners of their models.
_OWNERS = {"vllm": "vllm", "sglang": "sglang"}


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts about a server.

    Attributes:
        kind: a kind of `dialects/kinds.py` if it is recognised by its own endpoints, else `openai`; for a provider with
            an API of its own, its name.
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
    """Asks a server with OpenAI's endpoints for facts.

    Raises:
        ModelError: if it cannot be reached, refuses the key, or lists its models without the named one.
    """
    listed = _usable(connection, connection.look("models"))
    rows = [] if isinstance(listed, Rejection) else listed.get("data")
    entries = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    names = tuple(str(row.get("id")) for row in entries)
    properties, about = map(connection.look, ("/props", "/info"))
    if not isinstance(properties, Rejection) and "default_generation_settings" in properties:
        return _llamacpp(properties, names)  # serves its one model under any name
    if not isinstance(about, Rejection) and "model_id" in about and "max_total_tokens" in about:
        return ServerFacts("tgi", _length(about.get("max_total_tokens")), str(about.get("version", "")), {}, names)
    if names and model not in names and f"{model}:latest" not in names:  # Ollama adds a tag to names without one
        known = ", ".join(names[:_MOST_LISTED])
        raise ModelError(Fault("model_args.model", f'the server has no model "{model}"', known, "Choose one of these"))
    return _of_entry(connection, next((row for row in entries if row.get("id") == model), {}), names)


def find_named(connection: Connection, model: str, kind: str) -> ServerFacts:
    """Asks a provider for one model; its list of models may have many pages.

    Raises:
        ModelError: if it cannot be reached, refuses the key, or does not know the model.
    """
    found = _usable(connection, connection.look(f"models/{model}"))
    if isinstance(found, Rejection):
        if found.kind == "not_found":
            raise ModelError(Fault("model_args.model", f'"{model}": {found.message}', "the name of a model"))
        return ServerFacts(kind)
    return ServerFacts(kind, _length(found.get("inputTokenLimit", found.get("max_input_tokens"))), models=(model,))


def _usable(connection: Connection, found: dict[str, Any] | Rejection) -> dict[str, Any] | Rejection:
    """What was found, unless it says that nothing can be asked there."""
    if isinstance(found, Rejection) and found.kind in _UNUSABLE:
        advice = found.advice or "Start the server, or check base_url in --model_args"
        raise ModelError(Fault(connection.client.settings.base_url, found.message, "a server", advice))
    return found


def _of_entry(connection: Connection, own: Mapping[str, Any], names: tuple[str, ...]) -> ServerFacts:
    """Facts of a server without further properties, by its entry of the model."""
    version, tokens = map(connection.look, ("/version", "/tokenizer_info"))
    kind = _OWNERS.get(str(own.get("owned_by")), "openai")
    if isinstance(version, Rejection) and kind == "openai":
        version = connection.look("/api/version")
        kind = "openai" if isinstance(version, Rejection) or "version" not in version else "ollama"
    special = {} if isinstance(tokens, Rejection) else _texts(tokens)
    found = "" if isinstance(version, Rejection) else str(version.get("version", ""))
    return ServerFacts(kind, _length(own.get("max_model_len")), found, special, names)


def _llamacpp(properties: Mapping[str, Any], names: tuple[str, ...]) -> ServerFacts:
    settings = properties["default_generation_settings"]
    length = settings.get("n_ctx") if isinstance(settings, Mapping) else None
    version = str(properties.get("build_info", ""))
    return ServerFacts("llamacpp", _length(length), version, _texts(properties), names)


def _length(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _texts(data: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("bos_token", "eos_token"):
        token = data.get(name)
        text = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(text, str) and text:
            found[name] = text
    return found
