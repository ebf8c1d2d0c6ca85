"""The language of a text, by the package langdetect (an n-gram classifier of 55 languages).

In: a text and a language's code. Out: whether that is the most likely one. The classifier samples; a fixed seed makes
its answer the same in every run.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from assay.core.packages import require

PACKAGE, EXTRA = "langdetect", "tasks"


def is_in_language(text: str, code: str) -> bool:
    """Whether a text is in a language; true for a text without letters, which has none, as for IFEval's authors."""
    found = _language(text)
    return found is None or found == code


@lru_cache(maxsize=1024)
def _language(text: str) -> str | None:
    detect, no_language = _detector()
    try:
        return str(detect(text))
    except no_language:
        return None


@lru_cache(maxsize=1)
def _detector() -> tuple[Any, type[Exception]]:
    require(PACKAGE, "task ifeval", EXTRA)
    from langdetect import DetectorFactory, LangDetectException, detect

    DetectorFactory.seed = 0
    return detect, LangDetectException
