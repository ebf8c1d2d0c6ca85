"""Text to token ids and back for programs beside the model, such as a server; satisfies `TokenCodec`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from assay.core.requests import Message
from assay.core.responses import Failure
from assay.models.tokens.chat import ChatRenderer
from assay.models.tokens.encoding import Encoder
from assay.models.tokens.tokenization import TokenRules, encode_texts, show_pieces


@dataclass(frozen=True, slots=True)
class Codec:
    """Tokenisation of one model.

    Attributes:
        rules: its tokenisation rules.
        options: arguments of its chat template.
        shows_all: whether no thinking part is removed from answers.
    """

    rules: TokenRules
    options: Mapping[str, Any] = field(default_factory=dict)
    shows_all: bool = True
    _pieces: dict[int, str] = field(default_factory=dict)

    @property
    def special(self) -> Mapping[str, int | None]:
        tokenizer = self.rules.tokenizer
        ids = tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id
        return dict(zip(("bos_token", "eos_token", "pad_token"), ids, strict=True))

    @property
    def vocabulary(self) -> int:
        return len(cast(Any, self.rules.tokenizer))

    @property
    def template(self) -> str | None:
        found = self.rules.tokenizer.chat_template
        return found if isinstance(found, str) else None

    def encode(self, text: str, special: bool | None = None) -> tuple[int, ...]:
        return tuple(encode_texts(self.rules, [text], special)[text])

    def decode(self, ids: Sequence[int], skips_special: bool = False) -> str:
        return self.rules.tokenizer.decode(list(ids), skip_special_tokens=skips_special)

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        known = self._pieces
        new = [identifier for identifier in set(ids) if identifier not in known]
        known.update(zip(new, show_pieces(self.rules.tokenizer, new), strict=True))
        return tuple(known[identifier] for identifier in ids)

    def render(
        self, messages: tuple[Message, ...], options: Mapping[str, Any]
    ) -> tuple[str, tuple[str, ...]] | Failure:
        # A renderer remembers every conversation, which a server would never forget.
        found = ChatRenderer(self.rules.tokenizer, {**self.options, **options}).render(messages)
        return found if isinstance(found, Failure) else (found.text, found.notes)


def codec_of(encoder: Encoder, shows_all: bool) -> Codec:
    """The codec of an encoder, with a copy of its tokenizer: two threads must not share one."""
    tokenizer = copy.deepcopy(encoder.rules.tokenizer)
    return Codec(replace(encoder.rules, tokenizer=tokenizer), encoder.renderer.options, shows_all)
