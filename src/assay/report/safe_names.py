"""Names for files and terminals: valid on every file system, without control characters and secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from assay.core.secrets import redacted_text, without_known

# Lone surrogates are valid neither in a file name nor in the output of a terminal.
_FORBIDDEN = re.compile(r"[\"<>:/|\\?*\[\]\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MODEL_KEYS = ("peft", "delta", "pretrained", "model", "path", "engine")
_MOST_BYTES = 120


def file_name(text: str) -> str:
    """A text as part of a file name; never a path, never too long, never a secret."""
    ending = _FORBIDDEN.sub("__", redacted_text(text)).encode("utf-8")[-_MOST_BYTES:]
    return ending.decode("utf-8", "ignore").lstrip(".") or "unnamed"


def different_names(names: Iterable[str]) -> list[str]:
    """Each name as part of a file name; a number is added if two names would share a file."""
    found: dict[str, None] = {}
    for name in names:
        base = candidate = file_name(name)
        number = 2
        while candidate in found:
            candidate, number = f"{base}_{number}", number + 1
        found[candidate] = None
    return list(found)


def model_name(model: str, model_args: Mapping[str, Any]) -> str:
    """A model's name in files: by lm-eval's rule, or the model's own name if that gives none; without logins."""
    return redacted_text(next((str(model_args[key]) for key in _MODEL_KEYS if model_args.get(key)), model))


def printable(text: str) -> str:
    """A text without control characters and direction marks, which could steer the terminal, and known secrets."""
    return _CONTROLS.sub("\ufffd", without_known(text))


def broken_name(text: str, letters: int, lines: int = 3) -> str:
    """A name broken into short lines, at its own separators if it has any; truncated if it is too long."""
    rows = [""]
    for joint in re.findall(r"[^_\-/: ]*[_\-/: ]*", printable(text)):
        for piece in (joint[start : start + letters] for start in range(0, len(joint), letters)):
            if len(rows[-1]) + len(piece.rstrip()) > letters:
                rows.append("")
            rows[-1] += piece
    kept = [row.strip() for row in rows[:lines]]
    if len(rows) > lines:
        kept[-1] = kept[-1][: letters - 1] + "…"
    return "\n".join(kept)


def shortened(text: str, letters: int) -> str:
    """One line of a name; the middle is omitted if it is too long."""
    clean = printable(text)
    half = (letters - 1) // 2
    return clean if len(clean) <= letters else f"{clean[:half]}…{clean[-half:]}"
