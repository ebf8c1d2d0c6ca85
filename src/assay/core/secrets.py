"""Redaction: keeps passwords, tokens and keys out of everything that Assay writes or prints.

Three rules: by name (`api_key`, `token`, `Authorization`), by pattern (logins in URLs, `Bearer …`, `hf_…`, `AKIA…`),
and by value: what the first rule found in settings, task files or the environment is redacted wherever it occurs again.

`redacted` is for settings, `redacted_text` for messages, paths and names, `redacted_command` for command lines, and
`without_known` for texts that hold documents or answers. These are data: only known values are redacted in them.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "***"

# By name: names that end in one of these words.
_WORDS = (
    r"(?:api[_-]?keys?|[a-z]*apikey|(?:secret|private|access|auth|account|signing|subscription|master)[_-]?keys?"
    r"(?:[_-]?id)?|auth|authorization|bearer|credentials?|cookies?|passphrase|[a-z]*password|passwd|pwd|secret|token)"
)
_NAME = re.compile(rf"(?i)(?:.*[_.-])?{_WORDS}")
# Vocabulary tokens: `add_bos_token`, `image_token`; and values that only such a token has: an id, `<s>`, `[PAD]`.
_VOCABULARY = re.compile(
    r"(?i).*(?:bos|eos|eot|eom|pad|unk|sep|cls|mask|prefix|stop|start|end|first|last|next|new|max|min|per|num|special"
    r"|image|video|audio|boi|eoi|fim|think)[_-]token"
)
_SPECIAL_TOKEN = re.compile(r"\d{1,7}|<.*>|\[.*\]", re.DOTALL)

# By pattern, in settings and messages: strings that are always a secret.
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9_-])(?:hf_[A-Za-z0-9]{16,}|sk-(?=[\w-]*\d)[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|xapp-[\w-]{16,}|AIza[\w-]{30,}"
    r"|ya29\.[\w-]{16,}|gsk_[A-Za-z0-9]{16,}|nvapi-[\w-]{16,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
)
_BEARER = re.compile(r"((?i:\bbearer)\s+)(?:(?=[\w.~+/=-]*\d)[\w.~+/=-]{8,}|[\w.~+/=-]{24,})")
_LOGIN = re.compile(r"(?<=://)[^/\s,\"'<>]+(?=@)")
_QUERY = re.compile(
    rf"(?i)([?&;](?:(?:[\w.-]*[_.-])?{_WORDS}|x-\w+-signature|x-\w+-credential|signature|sig|googleaccessid"
    r"|awsaccesskeyid)=|[?&;](?:key|code)=(?=[^&#\s]{16}))[^&#\s\"'<>,;]+"
)

# By pattern, in messages only: a document or a prompt may contain such text legitimately.
_BEARER_IN_TEXT = re.compile(
    r"((?i:\bbearer)\s+)(?!(?i:tokens?|auth\w*|scheme|of|realm)\b)[^\s\"',;)}\]]+"
    r"|((?i:\bbasic)\s+)(?=[A-Za-z0-9+/]*(?:\d|=))[A-Za-z0-9+/]{8,}={0,2}"
)
_VALUE = (
    r"\\?\"[^\"]*(?:\"|\Z)|\\?'[^']*(?:'|\Z)|(?:(?i:bearer|basic|token)\s+)?[^\s,;&\"'}\])…]+"  # a quote may stay open
)
_NAMED = rf"(?:[\w.-]*[_.-])?{_WORDS}"
_EQUALS = re.compile(rf"(?i)(?<![\w.-])(?P<name>{_NAMED})(?P<between>\\?[\"']?\]?\s*=\s*)(?P<value>{_VALUE})")
# `token: …` is a secret on a line of its own or in a mapping; a sentence may say "no such token: x".
_ENTRY = re.compile(
    rf"(?i)(?:(?<=[\"'])|(?<=[{{,]\s)|(?<=[{{,]))(?P<name>{_NAMED})(?P<between>\\?[\"']?\s*:\s*)(?P<value>{_VALUE})"
)
_LINE = re.compile(
    # Bounded, and the name at a word boundary: a megabyte of dashes or line breaks must not take hours.
    rf"(?im)^[ \t\d|>-]{{0,40}}(?<![\w.-])(?P<name>{_NAMED})(?P<between>[ \t]{{0,40}}:[ \t]+)(?P<value>\S.*)$"
)
# A line of a file that is not valid YAML; the space after the colon may be what is missing.
_STATED = re.compile(rf"(?i)^[\s-]{{0,80}}(?<![\w.-])[\"']?(?P<name>{_NAMED})[\"']?\s*:\s*(?P<value>\S.*)$")
_OPTION = re.compile(rf"(?i)(?<!\S)(?P<name>--?{_NAMED})(?P<between>\s+)(?P<value>{_VALUE})")

# By value: shorter values are part of too many words. Files hold documents, where a value must not look like a word.
_SHORTEST_IN_TEXT, _SHORTEST_IN_DATA = 6, 8
_WORDLIKE = re.compile(r"[A-Za-z]?[a-z]{1,11}|[A-Z]{1,11}|[\d.eE+-]+")
_REMEMBERED_LETTERS = 2000
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token)\s+")
# Shared by the whole process: a known secret is never written later, whichever run or thread writes.
_known: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret; `eos_token` and the like do not."""
    return _NAME.fullmatch(name) is not None and _VOCABULARY.fullmatch(name) is None


def is_secret(name: str, value: Any) -> bool:
    """Whether a setting is a secret: by its name, unless it is empty, a boolean, or a vocabulary token."""
    if value is None or isinstance(value, bool) or not is_secret_name(name) or str(value) in ("", HIDDEN):
        return False
    return not (name.lower().endswith("token") and _SPECIAL_TOKEN.fullmatch(str(value)))


def redacted(value: Any, name: str = "") -> Any:
    """Settings with their secrets redacted, by name and by pattern; those found by name are remembered."""
    if is_secret(name, value):
        remember({name: value})
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        found = [redacted(item) for item in value]
        return found if type(value) is list else tuple(found) if type(value) is tuple else value
    return _without_shapes(value) if isinstance(value, str) else value


def redacted_text(text: str) -> str:
    """A message, path or name with its secrets redacted, by all three rules."""
    return _redacted_text(text, _known) if len(text) < _REMEMBERED_LETTERS else _redacted_text.__wrapped__(text, _known)


@lru_cache(maxsize=512)  # a run may report the same failure a hundred thousand times
def _redacted_text(text: str, known: frozenset[str]) -> str:
    text = _without_shapes(_without_values(text, known))
    for pattern in (_LINE, _ENTRY, _EQUALS):
        text = pattern.sub(_hidden_pair, text)
    return _BEARER_IN_TEXT.sub(lambda match: (match.group(1) or match.group(2)) + HIDDEN, text)


def redacted_command(arguments: Sequence[str]) -> str:
    """A command line with its secrets redacted, including those of options (`--hf_token X`)."""
    return redacted_text(_OPTION.sub(_hidden_pair, " ".join(arguments)))


def redacted_identity(value: Any) -> Any:
    """Identity data with its secrets redacted: by name, by pattern, and known values that do not look like a word."""
    if isinstance(value, Mapping):
        return {key: redacted_identity(redacted(item, str(key))) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(redacted_identity, value))
    return without_known(_EQUALS.sub(_hidden_pair, redacted(value))) if isinstance(value, str) else value


def without_known(text: str) -> str:
    """A text with known secret values redacted, also in JSON, HTML or URL encoding; nothing else changes."""
    for form in _forms_in_data(_known):
        if form in text:
            text = text.replace(form, HIDDEN)
    return text


def remember(settings: Any) -> None:
    """Remembers the secrets of settings: by name, and the logins and signatures in URLs."""
    global _known
    found = {part for secret in _secrets(settings, False) for part in (secret, _SCHEME.sub("", secret))}
    new = {part for part in found - _known if len(part) >= _SHORTEST_IN_TEXT and HIDDEN not in part}
    if new:
        _known |= new


def remember_command(arguments: Sequence[str]) -> None:
    """Remembers the secrets of a command line before it is parsed."""
    text = " ".join(arguments)
    pairs = [match.group("name", "value") for pattern in (_OPTION, _EQUALS) for match in pattern.finditer(text)]
    remember([text.split(), *({name.lstrip("-"): value.strip("\"'")} for name, value in pairs)])


def remember_lines(text: str) -> None:
    """Remembers the secrets of a file that cannot be parsed: the error may quote a line of it."""
    for line in text.splitlines():
        for pattern in (_STATED, _ENTRY, _EQUALS):
            for match in pattern.finditer(line):
                name, value = match.group("name"), match.group("value").rstrip()
                remember([{name: value}, {name: value.strip("\"'")}])


def forget() -> None:
    """Forgets every known value; for tests, which share a process."""
    global _known
    _known = frozenset()


def remember_environment(environment: Mapping[str, str] = os.environ) -> None:
    """Remembers the secrets of the environment: HF_TOKEN, OPENAI_API_KEY, …; the path of a key file is not one."""
    is_path = os.path.exists
    remember({name: value for name, value in environment.items() if not (is_secret_name(name) and is_path(value))})


def without_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those that hold, or held, a secret."""
    return {key: value for key, value in settings.items() if not is_secret(key, value) and not is_hidden(value)}


def is_hidden(value: Any) -> bool:
    """Whether a recorded setting held a secret."""
    return HIDDEN in str(value)


def _secrets(value: Any, is_named: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, is_named or is_secret(str(key), item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _secrets(item, is_named)
    elif is_named and value is not None and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, str) and "://" in value:
        yield from (login.partition(":")[2] or login for login in _LOGIN.findall(value))
        yield from (match.group()[len(match.group(1)) :] for match in _QUERY.finditer(value))


def _without_shapes(text: str) -> str:
    text = _SHAPES.sub(HIDDEN, text)
    if "://" in text:
        text = _QUERY.sub(lambda match: match.group(1) + HIDDEN, _LOGIN.sub(HIDDEN, text))
    return _BEARER.sub(lambda match: match.group(1) + HIDDEN, text)


def _hidden_pair(match: re.Match[str]) -> str:
    name, value = match.group("name", "value")
    if not is_secret(name.lstrip("-"), value.strip("\\\"'")):
        return match.group()
    return match.group()[: match.start("value") - match.start()] + HIDDEN


def _without_values(text: str, known: frozenset[str]) -> str:
    pattern = _pattern_in_text(known)
    return text if pattern is None else pattern.sub(HIDDEN, text)


@lru_cache(maxsize=2)
def _forms_in_data(known: frozenset[str]) -> tuple[str, ...]:
    kept = [value for value in known if len(value) >= _SHORTEST_IN_DATA and not _WORDLIKE.fullmatch(value)]
    return tuple(sorted({form for value in kept for form in _forms(value)}, key=len, reverse=True))


@lru_cache(maxsize=2)
def _pattern_in_text(known: frozenset[str]) -> re.Pattern[str] | None:
    whole = set(_forms_in_data(known))
    words = {form for value in known for form in _forms(value)} - whole
    parts = [(form, re.escape(form)) for form in whole]
    parts += [(form, rf"(?<!\w){re.escape(form)}(?!\w)") for form in words]
    longest_first = [part for _, part in sorted(parts, key=lambda item: len(item[0]), reverse=True)]
    return re.compile("|".join(longest_first)) if parts else None


def _forms(value: str) -> set[str]:
    """A value in the encodings that files may use."""
    as_json = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    safe = value.encode("utf-8", "replace").decode()
    in_address = {quote(safe), quote(safe, safe=""), quote_plus(safe)}
    return {value, html.escape(value), html.escape(value, quote=False)} | as_json | in_address


remember_environment()
