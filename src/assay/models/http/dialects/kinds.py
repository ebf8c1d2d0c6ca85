"""The kinds of servers with OpenAI's endpoints: dialects to try for log-likelihoods, and where their chats differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from assay.models.http.dialects import llamacpp, sglang, vllm
from assay.models.http.dialects.chat_completions import Chat, ChatServer
from assay.models.http.dialects.completions import Completions
from assay.models.http.dialects.llamacpp import LlamaCpp
from assay.models.http.dialects.sglang import Sglang
from assay.models.http.dialects.tgi import Tgi
from assay.models.http.dialects.vllm import Vllm
from assay.models.http.exchange import ChatSettings, Dialect

OPENAI, VLLM, SGLANG, LLAMACPP, TGI, OLLAMA = "openai", "vllm", "sglang", "llamacpp", "tgi", "ollama"


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A kind of server.

    Attributes:
        dialects: makers of its dialects with log-likelihoods, the best first; the first also writes texts.
        chat: its chat endpoint.
        has_own_chat: whether conversations may go there from a model of `/v1/completions`.
    """

    dialects: tuple[Callable[..., Dialect], ...]
    chat: ChatServer = field(default_factory=ChatServer)
    has_own_chat: bool = True


KINDS: Mapping[str, ServerKind] = {
    OPENAI: ServerKind((Completions, Vllm), has_own_chat=False),
    VLLM: ServerKind((Vllm, Completions), vllm.CHAT),
    SGLANG: ServerKind((Sglang, Completions), sglang.CHAT),
    LLAMACPP: ServerKind((LlamaCpp,), llamacpp.CHAT),  # it ignores echo
    TGI: ServerKind((Tgi,)),
    OLLAMA: ServerKind(()),
}


def chat_of_kind(settings: ChatSettings) -> Chat:
    """The chat dialect of a server whose kind the settings name."""
    return Chat(settings, KINDS[settings.kind or OPENAI].chat)
