"""Identity of models, requests and values: fingerprints, canonical JSON, digests and response keys.

A key covers the model's fingerprint and every field of the request, and never a task, run, batch or device.
`tests/core/test_identity.py` freezes golden keys, so that no refactoring can change them unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import json.encoder
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from assay.core.annotations import Plain
from assay.core.call_checks import checked_dataclass
from assay.core.documents import Document
from assay.core.requests import Loglikelihood, Request
from assay.core.secrets import redacted_identity

_CHUNK = 1 << 20

KEY_VERSION = 1


def _plain(value: Any) -> Any:
    """Values that occur in data files and not in JSON: dates, bytes, numpy scalars, tuples."""
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
    """Canonical JSON of a value: sorted keys, no white space, no NaN."""
    return _encode(value)


def to_bytes(text: str) -> bytes:
    """UTF-8 bytes; also encodes lone surrogates, which occur in real datasets."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def digest(value: Any) -> str:
    """sha256 of a value's canonical JSON, as 64 hex digits. Dates and the like are converted to text first."""
    return hashlib.sha256(to_bytes(_encode_loose(value))).hexdigest()


def digest_all(values: Iterable[Any]) -> str:
    """sha256 over the canonical JSON of many values, in lists of a hundred, which is faster than one by one."""
    total = hashlib.sha256()
    remaining = iter(values)
    while some := list(islice(remaining, 100)):
        total.update(to_bytes(_encode_loose(some) + "\n"))
    return total.hexdigest()


def document_digest(document: Document) -> str:
    """64 hex digits that identify a document's content, independent of its position."""
    return digest(dict(document.fields))


@checked_dataclass
@dataclass(frozen=True)
class Fingerprint:
    """Everything about a model that may change its answers.

    The digest leaves out `name` and `revision` when the weights' hash is known: the same weights in two folders are one
    model. Everything else counts, so an unknown setting leads to a new model rather than to a wrong cache hit. Secrets
    (a login in a URL, an `api_key` among the settings) are redacted on construction, so they are not part of it.
    Attributes:
        name: the user's name for it: a path, a Hub id, a registered name.
        revision: the resolved commit of a Hub model.
        weights: hash of the weight files, or of the source code of a model without weights.
        precision: number format of weights and arithmetic.
        tokenizer: hash of the tokenizer's files.
        template: hash of the chat template.
        adapter: hash of an adapter on top of the weights.
        parent: digest of the model that this one was trained from.
        settings: further settings that change answers (maximum length, BOS rule, …).
    """

    name: str
    revision: str | None = None
    weights: str | None = None
    precision: str | None = None
    tokenizer: str | None = None
    template: str | None = None
    adapter: str | None = None
    parent: str | None = None
    settings: Mapping[str, Plain] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("name", "revision", "settings"):
            object.__setattr__(self, name, redacted_identity(getattr(self, name)))

    def to_json(self) -> dict[str, Any]:
        """All fields and the digest, for the run manifest."""
        return {**asdict(self), "settings": dict(self.settings), "digest": self.digest}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fingerprint:
        """The fingerprint that `to_json` wrote, also after a round trip through a file."""
        found = cls(**{entry.name: data[entry.name] for entry in fields(cls) if entry.name in data})
        # The digest is part of the stored keys, so it stays as written even if a setting came back as another type.
        found.__dict__["digest"] = data["digest"]
        return found

    def differences(self, other: Fingerprint) -> dict[str, tuple[Any, Any]]:
        """The differences of two models: field or setting → (own, other's). A different name does not count."""
        if self.digest == other.digest:
            return {}
        mine, others = self._parts(), other._parts()
        # Compared by digest: a tuple that has been through a file is a list, and the same setting.
        names = [name for name in {**mine, **others} if digest(mine.get(name)) != digest(others.get(name))]
        if self.weights is not None and other.weights is not None:
            names = [name for name in names if name not in ("name", "revision")]
        found = {name: (mine.get(name), others.get(name)) for name in names}
        return found or {"digest": (self.digest, other.digest)}

    def _parts(self) -> dict[str, Any]:
        own = {key: value for key, value in self.to_json().items() if key not in ("settings", "digest")}
        return {**own, **{f"settings.{key}": value for key, value in self.settings.items()}}

    @cached_property
    def digest(self) -> str:
        """64 hex digits that identify the model in every key."""
        data = {**asdict(self), "settings": dict(self.settings)}
        if self.weights is not None:
            del data["name"], data["revision"]
        return digest(data)


def _request_bytes(request: Request) -> bytes:
    return to_bytes(_encode([KEY_VERSION, request.kind, *request.identity()]))


def request_digest(request: Request) -> bytes:
    """32 bytes that identify a request, independent of the model. All fields count."""
    return hashlib.sha256(_request_bytes(request)).digest()


def response_key(fingerprint: str, request: Request) -> bytes:
    """The 32-byte key under which a model's answer to a request is stored.

    Args:
        fingerprint: the digest of the model's fingerprint.
        request: any request; all its fields count.
    """
    return hashlib.sha256(fingerprint.encode("ascii") + _request_bytes(request)).digest()


class ResponseKeyBuilder:
    """`response_key` for many requests to one model in a row. A prompt shared by consecutive requests is hashed once.

    Attributes:
        asked: running sha256 over all requests so far, independent of the model.
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


def file_sha256(path: Path) -> str:
    """Hash of a file's content, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()
