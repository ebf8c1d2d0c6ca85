"""A provider or kind of server as a value: how it is asked, where it is, how its key is sent; called, it opens a model.

In: model arguments. Out: a `Model`. A provider is one file in `dialects/` and one line in the table of models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.core.specs import ModelSettings
from assay.models.http.exchange import ChatDialect, ChatSettings
from assay.models.http.traffic.api_key import BEARER, KeyHeader

if TYPE_CHECKING:
    from assay.models.http.http_model import HttpModel


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, or a kind of server.

    Attributes:
        name: its name, as in `--model`.
        chat: makes the dialect of its chat endpoint; None for servers that are asked by `/v1/completions`.
        kind: the kind of server, where the name says it; empty to find it out.
        base_url: its public address; None where the user must name one.
        key_variable: environment variable that holds the key.
        key_header: the header that carries the key.
        headers: headers that it needs besides.
        lists_all_models: whether `models` lists every model. If not, a model is looked up by `models/NAME`.
    """

    name: str
    chat: Callable[[ChatSettings], ChatDialect] | None = None
    kind: str = ""
    base_url: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    key_header: KeyHeader = BEARER
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    lists_all_models: bool = True

    def __call__(self, args: Mapping[str, Any], settings: ModelSettings | None = None) -> HttpModel:
        """Opens a model; sends nothing yet.

        Args:
            args: model arguments.
            settings: not used: device and batches are the server's.
        """
        # The models are made of dialects, whose files hold providers.
        from assay.models.http.chat_model import ChatModel
        from assay.models.http.completions_model import CompletionsModel

        return CompletionsModel(self, args) if self.chat is None else ChatModel(self, args)
