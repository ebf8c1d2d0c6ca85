"""Filters for sequence labelling: part-of-speech tags and named entities, parsed from free text."""

from __future__ import annotations

import re
from typing import Any

from assay.core.protocols import Filter
from assay.scoring.filters.text_filters import per_draw

_TAGGED = re.compile(r"\('([^']*)', '([^']*)'\)")

# Names that models use for an entity type → the label. The order matters: earlier names are matched first.
_LABELS = {
    "person": "PER",
    "location": "LOC",
    "organization": "ORG",
    "counties": "LOC",
    "places": "LOC",
    "people": "PER",
    "persons": "PER",
    "company": "ORG",
    "country": "LOC",
    "continent": "LOC",
    "time": "DATE",
    "date": "DATE",
    "per": "PER",
    "loc": "LOC",
    "org": "ORG",
}
_NAMED = [(re.compile(rf"\b{name}\s*:"), f"{label}:") for name, label in _LABELS.items()]
_SPAN = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")


def regex_pos(regex_pattern: str = r"\['(.*?)'\]", group_select: int = 0, fallback: Any = None) -> Filter:
    """Collects the tags of `('word', 'TAG')` pairs. As in lm-eval, the pattern and group are not used."""
    nothing = fallback if fallback is not None else ["invalid"]

    def tags(draw: Any) -> Any:
        pairs = _TAGGED.findall(draw) if isinstance(draw, str) else draw or ()
        return [tag for _, tag in pairs] or nothing

    return per_draw(tags)


def format_span() -> Filter:
    """Rewrites named entities as `per: a $ loc: b`, with lm-eval's names for labels, and without "none"."""
    return per_draw(lambda draw: _spans(draw) if isinstance(draw, str) else draw)


def _spans(text: str) -> str:
    text = text.lower()
    for pattern, label in _NAMED:
        text = pattern.sub(label, text)
    text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    found = []
    for label, entities in _SPAN.findall(text):
        names = [entity.strip() for entity in entities.split(",")]
        found += [f"{label.lower()}: {name}" for name in names if name != "none"]
    return " $ ".join(found)
