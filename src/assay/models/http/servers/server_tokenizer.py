"""The tokenizer of a server, by its endpoints `/tokenize` and `/detokenize` (vLLM, llama.cpp and others).

In: a function that sends exchanges. Out: an object with the members that encoding uses of a transformers tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.core.errors import Fault, ModelError
from assay.core.identity import digest
from assay.core.responses import Failure
from assay.models.http.exchange import Exchange, Unreadable

# Sends exchanges, several at a time; the answers in order.
AskAll = Callable[[Sequence[Exchange[Any]]], Sequence[Any]]

_PROBE = "A"
# Tokenised to tell tokenizers apart: words, digits, white space, other scripts.
_SAMPLE = "The 7 quick-brown foxes:\n\n  jumped over 1,234 dogs; naïve café, Привет, 東京! <s> </s>"


class ServerTokenizer:
    """A tokenizer that asks a server.

    Attributes:
        chat_template: None: conversations are sent to a chat endpoint, which applies the template.
    """

    chat_template: Any = None
    pad_token_id: int | None = None

    def __init__(self, ask_all: AskAll, model: str, is_llamacpp: bool, special: Mapping[str, str]) -> None:
        self._ask_all = ask_all
        self._model = model
        self._is_llamacpp = is_llamacpp
        self.bos_token_id = self._only_id(special.get("bos_token")) if special else self._first_added_id()
        self.eos_token_id = self._only_id(special.get("eos_token")) if special else None

    @property
    def identity(self) -> str:
        """Digest of how it tokenizes a sample."""
        return digest([self([_SAMPLE])["input_ids"], self([_SAMPLE], add_special_tokens=False)["input_ids"]])

    def __call__(self, text: list[str], **options: Any) -> Mapping[str, list[list[int]]]:
        """Token ids; of the options of transformers only `add_special_tokens` (default true) has an effect."""
        adds = bool(options.get("add_special_tokens", True))
        return {"input_ids": self._answers([self._tokenize(part, adds) for part in text])}

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        body = {"model": self._model, "tokens": list(token_ids)}
        (text,) = self._answers([Exchange("/detokenize", body, _read_text)])
        return str(text)

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.decode([token_id]) for token_id in ids]

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str:
        raise ValueError("a tokenizer without a chat template")

    def _tokenize(self, text: str, adds_special: bool) -> Exchange[list[int]]:
        body: dict[str, Any]
        if self._is_llamacpp:
            body = {"content": text, "add_special": adds_special, "parse_special": True}
        else:
            body = {"model": self._model, "prompt": text, "add_special_tokens": adds_special}
        return Exchange("/tokenize", body, _read_ids)

    def _answers(self, exchanges: Sequence[Exchange[Any]]) -> list[Any]:
        found = list(self._ask_all(exchanges))
        failed = next((answer for answer in found if isinstance(answer, Failure)), None)
        if failed is not None:
            advice = "Set tokenizer=FOLDER with the model's tokenizer.json in --model_args"
            raise ModelError(Fault("the server's tokenizer", failed.message, next=advice))
        return found

    def _only_id(self, text: str | None) -> int | None:
        """The id of a special token's text; None if the text is more than one token."""
        if not text:
            return None
        (ids,) = self([text], add_special_tokens=False)["input_ids"]
        return ids[0] if len(ids) == 1 else None

    def _first_added_id(self) -> int | None:
        """The id that the server itself puts before a text."""
        (ruled,), (bare,) = (
            self([_PROBE])["input_ids"],
            self([_PROBE], add_special_tokens=False)["input_ids"],
        )
        return ruled[0] if len(ruled) > len(bare) and ruled[-len(bare) :] == bare else None


def _read_ids(data: Mapping[str, Any]) -> list[int]:
    tokens = data.get("tokens")
    if not isinstance(tokens, list) or any(type(token) is not int for token in tokens):
        raise Unreadable("malformed", "/tokenize answered without a list of token ids")
    return tokens


def _read_text(data: Mapping[str, Any]) -> str:
    # vLLM answers with "prompt", llama.cpp with "content".
    text = data.get("prompt", data.get("content"))
    if not isinstance(text, str):
        raise Unreadable("malformed", "/detokenize answered without a text")
    return text
