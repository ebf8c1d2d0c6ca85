"""Model fingerprint (what identifies a model) and capabilities (what it can do); both are plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from assay.core.annotations import Plain
from assay.core.call_checks import checked_dataclass
from assay.core.identity import digest
from assay.core.secrets import redacted_identity


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
        """How two models differ: field or setting → (own, other's). A different name alone does not count."""
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


@checked_dataclass
@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do; checked before a run starts.

    Attributes:
        kinds: request kinds it answers.
        max_tokens: longest sequence it accepts; None if unknown.
        has_chat: whether it can render chat messages as text.
        can_tokenize: whether it also satisfies the `ExposesTokens` protocol.
        is_deterministic: whether the same request gives the same bits, whatever the rest of the batch.
        family: the kind of network, for messages.
        learns: request kinds that it can be trained to answer; a model with any also satisfies `Trainable`.
        labels: names of the outputs of its classification head, see `core.label_mapping`; empty without one.
    """

    kinds: frozenset[str]
    max_tokens: int | None = None
    has_chat: bool = False
    can_tokenize: bool = False
    is_deterministic: bool = True
    family: str = "model"
    learns: frozenset[str] = frozenset()
    labels: tuple[str, ...] = ()
