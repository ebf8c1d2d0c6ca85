"""The names under which numbers of a run's model may be published, and whether a published name is one of them.

In: the specification and fingerprint of a run. Out: names, each with its origin. Only the name decides: a model trained
further, or at another revision than the published one, has no names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.identity import Fingerprint
from assay.models.download.named import NAMED_MODELS

_CACHED = re.compile(r"models--([^/\\]+)--([^/\\]+)")
_JOINED = re.compile(r"__|--")
_SPACES = re.compile(r"[\s_]+")
_MAIN = (None, "", "main")


@dataclass(frozen=True, slots=True)
class ModelName:
    """A name of the run's model.

    Attributes:
        text: the name, `OWNER/NAME` or `NAME`.
        origin: what it rests on, if it is not the name that the user gave.
    """

    text: str
    origin: str = ""


def model_names(model: str, args: Mapping[str, Any], fingerprint: Fingerprint) -> list[ModelName]:
    """The names of a run's model, the most certain first.

    Args:
        model: the model of the specification.
        args: its arguments.
        fingerprint: of the opened model.
    """
    if fingerprint.parent is not None or args.get("revision") not in _MAIN:
        return []
    named = NAMED_MODELS.get(model)
    if named is not None:
        return [ModelName(name, f"{model} has {named.form_text}") for name in filter(None, [named.published_as])]
    given = [str(text) for text in (args.get("pretrained"), fingerprint.name) if text]
    found = {name.text.lower(): name for text in reversed(given) for name in reversed(list(_names_of(text)))}
    return list(found.values())[::-1]


def _names_of(text: str) -> Iterator[ModelName]:
    path = Path(text).expanduser()
    if not path.is_dir():
        yield ModelName(text)
        return
    cached = _CACHED.search(path.as_posix())
    if cached is not None:
        yield ModelName("/".join(cached.groups()))
        return
    yield ModelName(_JOINED.sub("/", path.resolve().name, count=1), "by the name of its folder")
    stated = _stated_name(path / "config.json")
    if stated:
        yield ModelName(stated, "by _name_or_path in its config.json")


def _stated_name(path: Path) -> str:
    """The name that transformers wrote into a configuration; empty if it is another folder, or there is none."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    stated = config.get("_name_or_path") if isinstance(config, dict) else None
    return stated if isinstance(stated, str) and not stated.startswith((".", "/", "~")) else ""


def matching_name(published: str, names: list[ModelName]) -> ModelName | None:
    """The name of the run's model that a published number is about; None if it is about another model."""
    return next((name for name in names if is_same_model(published, name.text)), None)


def is_same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: owners count if both have one; `Llama 2 7B` is `Llama-2-7b-hf`."""
    (owner, name), (other_owner, other_name) = _parts(one), _parts(other)
    return name == other_name and (not owner or not other_owner or owner == other_owner)


def _parts(text: str) -> tuple[str, str]:
    owner, _, name = text.strip().strip("/").lower().rpartition("/")
    name = _SPACES.sub("-", name)
    return owner, name.removesuffix("-hf").removeprefix("meta-")
