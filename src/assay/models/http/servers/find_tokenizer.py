"""Finds the tokenizer of a model behind a server: that of a folder, or the server's own; and compares the two.

In: a connection, the model arguments and the facts about the server. Out: a tokenizer, or None where there is none.
"""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import Fault, ModelError
from assay.models.download import hub
from assay.models.http.connection import Connection
from assay.models.http.dialects.kinds import LLAMACPP
from assay.models.http.http_arguments import AUTO, LOCAL, NONE, REMOTE, HttpArguments
from assay.models.http.servers.local_tokenizer import LocalTokenizer
from assay.models.http.servers.server_facts import ServerFacts
from assay.models.http.servers.server_probe import TEXT
from assay.models.http.servers.server_tokenizer import ServerTokenizer
from assay.models.http.traffic.replies import Rejection

AnyTokenizer = LocalTokenizer | ServerTokenizer


def find_tokenizer(connection: Connection, wanted: HttpArguments, facts: ServerFacts) -> AnyTokenizer | None:
    """The tokenizer of the folder that the user names, else the server's if it has one."""
    backend = wanted.tokenizer_backend
    if backend == AUTO and wanted.tokenizer is not None:
        backend = LOCAL
    if backend == LOCAL:
        return LocalTokenizer(_folder(wanted.tokenizer))
    if backend == NONE:
        return None
    found = _server_ids(connection, wanted.model, facts)
    if isinstance(found, Rejection):
        if backend == REMOTE:
            advice = "Set tokenizer=FOLDER with the model's tokenizer.json instead"
            raise ModelError(Fault("model_args.tokenizer_backend", f"/tokenize {found.message}", next=advice))
        return None
    return ServerTokenizer(connection.ask_all, wanted.model, facts.kind == LLAMACPP, facts.special or {})


def tokenizer_faults(
    connection: Connection, tokenizer: AnyTokenizer | None, model: str, facts: ServerFacts
) -> list[str]:
    """Why a local tokenizer cannot be the server's, if the server tells; empty if nothing speaks against it."""
    if not isinstance(tokenizer, LocalTokenizer):
        return []
    theirs = _server_ids(connection, model, facts)
    (own,) = tokenizer([TEXT], add_special_tokens=False)["input_ids"]
    is_other = isinstance(theirs, list) and theirs != own
    return ["the tokenizer of the folder is not that of the server"] if is_other else []


def _server_ids(connection: Connection, model: str, facts: ServerFacts) -> list[int] | Rejection | None:
    """The server's token ids of a fixed text, without special tokens; None if it answers with something else."""
    if facts.kind == LLAMACPP:
        body = {"content": TEXT, "add_special": False, "parse_special": True}
    else:
        body = {"model": model, "prompt": TEXT, "add_special_tokens": False}
    found = connection.look("/tokenize", body)
    if isinstance(found, Rejection):
        return found
    tokens = found.get("tokens")
    return tokens if isinstance(tokens, list) and all(type(token) is int for token in tokens) else None


def _folder(name: str | None) -> Path:
    if name is None:
        found = "tokenizer_backend=huggingface needs a tokenizer"
        raise ModelError(Fault("model_args", found, next="Add: tokenizer=FOLDER"))
    folder = hub.local_folder(name)
    return hub.fetch(name, None, [], []).folder if folder is None else folder
