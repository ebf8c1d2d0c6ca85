"""Cached special tokens of tokenizers: importing transformers just for them takes seconds.

In: a key and a function that loads the tokenizer. Out: its padding, EOS and BOS tokens. The cache is one JSON file
in the user's cache folder. It only saves time, so a corrupt or read-only cache is not an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.atomic_files import atomic_write, cache_folder
from assay.core.protocols import SpecialToken
from assay.models.tokens.tokenization import Tokenizer

FILE_NAME = "special_tokens.json"
_ADDED_PAD = "<|pad|>"


class SpecialTokens(NamedTuple):
    """Text and id of each token; None for tokens that the tokenizer lacks."""

    pad: SpecialToken
    eos: SpecialToken
    bos: SpecialToken


def special_tokens(key: str, tokenizer: Callable[[], Tokenizer], cache: Path | None = None) -> SpecialTokens:
    """The special tokens of a tokenizer.

    Args:
        key: digest that identifies the tokenizer.
        tokenizer: loads the tokenizer; called on a cache miss.
        cache: folder of the cache file; None for the user's cache folder.
    """
    file = (cache or cache_folder()) / FILE_NAME
    known = _remembered(file).get(key)
    if known is not None and _is_whole(known):
        return SpecialTokens(*((text, number) for text, number in known))
    found = _read(tokenizer())
    with suppress(OSError), atomic_write(file) as stream:
        json.dump({**_remembered(file), key: found}, stream, indent=0, sort_keys=True)
    return found


def _read(tokenizer: Any) -> SpecialTokens:
    """Special tokens; padding by lm-eval's rule: the tokenizer's own, else the unknown token, else EOS, else new."""

    def token(kind: str) -> SpecialToken:
        return getattr(tokenizer, f"{kind}_token", None), getattr(tokenizer, f"{kind}_token_id", None)

    found = [item for item in map(token, ("pad", "unk", "eos")) if item[0] is not None]
    return SpecialTokens(found[0] if found else (_ADDED_PAD, len(tokenizer)), token("eos"), token("bos"))


def _remembered(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _is_whole(entry: Any) -> bool:
    is_three = isinstance(entry, list) and len(entry) == 3
    return is_three and all(isinstance(token, list) and len(token) == 2 and _is_token(*token) for token in entry)


def _is_token(text: Any, number: Any) -> bool:
    return isinstance(text, (str, type(None))) and (number is None or type(number) is int)
