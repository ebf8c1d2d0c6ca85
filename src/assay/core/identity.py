"""What makes two things the same: canonical JSON, digests and the key of a request.

A key covers the model's fingerprint and every field of the request; never a task, run, batch or
device. `tests/core/test_identity.py` freezes golden keys, so a refactor cannot change them unseen.
"""

from __future__ import annotations

import hashlib
import json
import json.encoder
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from assay.core.documents import Document
from assay.core.requests import Loglikelihood, Request

KEY_VERSION = 1


def _plain(value: Any) -> Any:
    """Values that data files bring and JSON does not know: dates, bytes, numpy scalars, tuples."""
    if isinstance(value, bytes):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)


_encode: Callable[[Any], str] = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
).encode
_quote: Callable[[str], str] = json.encoder.encode_basestring
_encode_loose: Callable[[Any], str] = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=True, default=_plain
).encode


def canonical_json(value: Any) -> str:
    """One text per value: sorted keys, no blanks, no NaN."""
    return _encode(value)


def to_bytes(text: str) -> bytes:
    """UTF-8, also for lone surrogates, which real datasets contain."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def digest(value: Any) -> str:
    """sha256 of a value's canonical JSON, as 64 hex digits. Dates and the like become text first."""
    return hashlib.sha256(to_bytes(_encode_loose(value))).hexdigest()


def digest_all(values: Iterable[Any]) -> str:
    """sha256 over the canonical JSON of many values, as lists of a hundred: encoding one by one takes longer."""
    total = hashlib.sha256()
    remaining = iter(values)
    while some := list(islice(remaining, 100)):
        total.update(to_bytes(_encode_loose(some) + "\n"))
    return total.hexdigest()


def document_digest(document: Document) -> str:
    """64 hex digits that stand for what a document says, wherever it stands."""
    return digest(dict(document.fields))


def _request_bytes(request: Request) -> bytes:
    return to_bytes(_encode([KEY_VERSION, request.kind, *request.identity()]))


def request_digest(request: Request) -> bytes:
    """32 bytes that stand for a request, whoever answers it. All its fields count."""
    return hashlib.sha256(_request_bytes(request)).digest()


def response_key(fingerprint: str, request: Request) -> bytes:
    """The 32 bytes under which a model's answer to a request is stored.

    Args:
        fingerprint: the digest of the model's fingerprint.
        request: any request; all its fields count.
    """
    return hashlib.sha256(fingerprint.encode("ascii") + _request_bytes(request)).digest()


class ResponseKeyBuilder:
    """`response_key` for many requests in a row of one model. A prompt that several of them share is read once.

    Attributes:
        asked: running sha256 over all requests so far, free of the model.
    """

    def __init__(self, fingerprint: str) -> None:
        self.asked = hashlib.sha256()
        self._fingerprint = fingerprint.encode("ascii")
        self._prompt: str | None = None
        self._prefix_hash = hashlib.sha256()

    def key(self, request: Request) -> bytes:
        """The key of a request."""
        if type(request) is not Loglikelihood or type(request.prompt) is not str:
            content = _request_bytes(request)
            self.asked.update(content)
            return hashlib.sha256(self._fingerprint + content).digest()
        if request.prompt != self._prompt:
            self._prompt = request.prompt
            head = to_bytes(f'[{KEY_VERSION},"loglikelihood",{_quote(request.prompt)},')
            self.asked.update(head)
            self._prefix_hash = hashlib.sha256(self._fingerprint + head)
        tail = to_bytes(_quote(request.continuation) + "]")
        self.asked.update(tail)
        state = self._prefix_hash.copy()
        state.update(tail)
        return state.digest()
