"""Generated answers: how they compare with the right one."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from assay.core.requests import Instance

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIGITS = str.maketrans("", "", string.digits)


@dataclass(frozen=True, slots=True)
class AnswerView:
    """What was said, and every answer that counts as right. Several draws may be left by a pipeline."""

    said: tuple[str, ...]
    golds: tuple[str, ...]


def answer_view(instance: Instance, results: Sequence[Any]) -> AnswerView:
    """The view of one document."""
    said = results[0] if isinstance(results[0], (list, tuple)) else [results[0]]
    golds = instance.gold if isinstance(instance.gold, tuple) else (instance.gold,)
    return AnswerView(tuple("" if text is None else str(text) for text in said), tuple(map(str, golds)))


def exact_match(view: AnswerView, options: Mapping[str, Any]) -> float:
    """Is what was said equal to a right answer, after what the options ignore is taken away?"""
    normalise = _normaliser(
        tuple(options.get("regexes_to_ignore") or ()),
        bool(options.get("ignore_case", False)),
        bool(options.get("ignore_punctuation", False)),
        bool(options.get("ignore_numbers", False)),
    )
    golds = {normalise(gold) for gold in view.golds}
    hits = [normalise(text) in golds for text in view.said]
    return sum(hits) / len(hits) if hits else 0.0


@lru_cache(maxsize=64)
def _normaliser(regexes: tuple[str, ...], case: bool, punctuation: bool, numbers: bool) -> Any:
    patterns = [re.compile(regex) for regex in regexes]

    def normalise(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub("", text)
        text = text.lower() if case else text
        text = text.translate(_PUNCTUATION) if punctuation else text
        return text.translate(_DIGITS) if numbers else text

    return normalise
