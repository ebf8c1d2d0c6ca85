"""Parameters that a model refuses: learnt from its first refusal, left out from then on, noted on every answer.

In: exchanges, and rejections of them. Out: exchanges without the refused fields. Only fields that a dialect declares
optional are left out, and only if the message names one and says that it is not supported, not that its value is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from assay.core.responses import Failure, Text
from assay.core.secrets import redacted_text
from assay.models.http.exchange import Exchange, OptionalField
from assay.models.http.traffic.replies import Rejection

# "unsupported_parameter", "is not supported with this model", "is deprecated for this model", "Extra inputs are not
# permitted", "Unknown name", "only the default (1) value is supported", "may only be set to 1", "cannot be set".
_REFUSAL = re.compile(
    r"unsupported[_ ](?:parameter|value)|(?:not|n't) (?:\w+ )?(?:supported|support|permitted|allowed|available)"
    r"|deprecated|unknown (?:name|field|parameter|argument)|unrecognized|unexpected (?:field|keyword)"
    r"|only the default|may only be|cannot be set|does not (?:take|accept)|is not enabled|must be set to its default",
    re.IGNORECASE,
)


class RefusedParameters:
    """What one model refuses.

    Attributes:
        refused: path of a field → what the server said.
    """

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}

    def adapted(self, exchange: Exchange[Any]) -> Exchange[Any]:
        """An exchange without the fields that are refused; its answers carry the notes of these fields."""
        if not self.refused or exchange.body is None:
            return exchange
        left_out = [entry for entry in exchange.optional if entry.path in self.refused and _has(exchange.body, entry)]
        if not left_out:
            return exchange
        body = exchange.body
        for entry in left_out:
            body = _without(body, entry.path.split("."), entry.replacement)
        notes = tuple(entry.note for entry in left_out if entry.note)
        kept = tuple(entry for entry in exchange.optional if entry not in left_out)
        return replace(
            exchange, body=body, read=_noting(exchange.read, notes) if notes else exchange.read, optional=kept
        )

    def learn(self, sent: Exchange[Any], found: Rejection) -> bool:
        """Whether a rejection names an optional field of the exchange, which is left out from now on."""
        if found.kind != "rejected" or sent.body is None or not _REFUSAL.search(found.message):
            return False
        named = [entry for entry in sent.optional if _has(sent.body, entry) and _is_named(entry, found.message)]
        for entry in named[:1]:
            self.refused.setdefault(entry.path, redacted_text(found.message))
        return bool(named)


def _has(body: Mapping[str, Any], entry: OptionalField) -> bool:
    *outer, name = entry.path.split(".")
    for part in outer:
        inner = body.get(part)
        if not isinstance(inner, Mapping):
            return False
        body = inner
    return name in body


def _is_named(entry: OptionalField, message: str) -> bool:
    """Whether a message names a field, in camel or snake case or in words."""
    words = re.findall(r"[A-Z]?[a-z]+", entry.path.rpartition(".")[2])
    return re.search(r"(?<![A-Za-z])" + r"[_ ]?".join(words) + r"(?![A-Za-z])", message, re.IGNORECASE) is not None


def _without(body: Mapping[str, Any], path: list[str], replacement: str) -> dict[str, Any]:
    """A copy of a body without a field, or with it under another name."""
    first, *rest = path
    if rest:
        return {**body, first: _without(body[first], rest, replacement)}
    value = {replacement: body[first]} if replacement else {}
    return {name: entry for name, entry in body.items() if name != first} | value


def _noting(read: Any, notes: tuple[str, ...]) -> Any:
    def with_notes(data: Mapping[str, Any]) -> Any:
        answer: Text | Failure = read(data)
        return replace(answer, notes=(*answer.notes, *notes)) if isinstance(answer, Text) else answer

    return with_notes
