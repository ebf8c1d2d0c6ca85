"""A tokenizer read from a folder's `tokenizer.json` by the package tokenizers; needs neither torch nor transformers.

In: a folder. Out: an object with the members that encoding uses of a transformers tokenizer, and a hash of the files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.core.errors import Fault, ModelError, missing_extra, plain_reason
from assay.models.download.file_hashes import hash_files
from assay.models.tokens.chat_templates import render_template

_FILE, _SETTINGS, _TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
# Special tokens that templates use by name.
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


class LocalTokenizer:
    """The tokenizer of a folder.

    Attributes:
        folder: the folder.
        chat_template: its chat template, as text; None if there is none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._backend = _load(folder / _FILE)
        self._settings = _read_settings(folder / _SETTINGS)
        self.chat_template: str | None = _find_template(folder / _TEMPLATE, self._settings.get("chat_template"))

    @property
    def bos_token_id(self) -> int | None:
        return self._special("bos_token")

    @property
    def eos_token_id(self) -> int | None:
        return self._special("eos_token")

    @property
    def pad_token_id(self) -> int | None:
        return self._special("pad_token")

    @property
    def identity(self) -> str:
        """Hash of the files."""
        return hash_files((name, self.folder / name) for name in (_FILE, _SETTINGS) if (self.folder / name).is_file())

    def __call__(self, text: list[str], **options: Any) -> Mapping[str, list[list[int]]]:
        """Token ids; of the options of transformers only `add_special_tokens` (default true) has an effect."""
        rows = self._backend.encode_batch(text, add_special_tokens=options.get("add_special_tokens", True))
        return {"input_ids": [row.ids for row in rows]}

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        return str(self._backend.decode(list(token_ids), skip_special_tokens=False))

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._backend.id_to_token(token_id) or "" for token_id in ids]

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> str:
        """A conversation as text; of the options of transformers those about the end of the text are read."""
        if self.chat_template is None:
            raise ValueError("a tokenizer without a chat template")
        is_open = options.pop("continue_final_message", False)
        for name in ("tokenize", "add_generation_prompt"):
            options.pop(name, None)
        special = {name: text for name in _SPECIAL if (text := self._text(name)) is not None}
        return render_template(self.chat_template, conversation, is_open, {**special, **options})

    def _special(self, name: str) -> int | None:
        text = self._text(name)
        found: int | None = None if text is None else self._backend.token_to_id(text)
        return found

    def _text(self, name: str) -> str | None:
        token = self._settings.get(name)
        text = token.get("content") if isinstance(token, Mapping) else token
        return text if isinstance(text, str) else None


def _find_template(file: Path, setting: Any) -> str | None:
    """The chat template of a file of its own, or of the settings: a text, or the default of several."""
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ModelError(Fault(str(file), f"cannot be read: {plain_reason(error)}")) from error
    named = setting if isinstance(setting, list) else []
    several = {row.get("name"): row.get("template") for row in named if isinstance(row, Mapping)}
    found = several.get("default") if several else setting
    return found if isinstance(found, str) and found else None


def _load(file: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise missing_extra("tokenizers", "api", f"reading {file}") from None
    if not file.is_file():
        advice = "Save the model's fast tokenizer there, or leave tokenizer out for a server that tokenizes"
        raise ModelError(Fault(str(file), "no such file", next=advice))
    try:
        backend = Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises plain exceptions for files it cannot read
        raise ModelError(Fault(str(file), f"is not a tokenizer: {plain_reason(error)}")) from error
    # The file may say that texts are to be cut or padded, which transformers ignores too unless it is asked.
    backend.no_truncation()
    backend.no_padding()
    return backend


def _read_settings(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        return {}
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(Fault(str(file), f"cannot be read: {plain_reason(error)}")) from error
    return data if isinstance(data, Mapping) else {}
