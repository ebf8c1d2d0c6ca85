"""Answers that stand in a text, compared as SQuAD does: words without case, punctuation and articles.

Rajpurkar et al. 2016 (section 6.1) and, for questions without an answer, Rajpurkar et al. 2018.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from assay.scoring.scorers.answer import AnswerView

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalised(text: str) -> str:
    """Lower case, without punctuation and the articles a, an, the; one space between words."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def squad_em(view: AnswerView, options: Mapping[str, Any]) -> float:
    """Is what was said one of the right answers?"""
    return _best(view, options, lambda said, gold: float(said == gold))


def squad_f1(view: AnswerView, options: Mapping[str, Any]) -> float:
    """F1 of the words that what was said shares with the right answer that is nearest to it."""
    return _best(view, options, _f1)


def _best(view: AnswerView, options: Mapping[str, Any], compare: Callable[[str, str], float]) -> float:
    """The best value over right answers; where there is none, saying nothing is right. Of several draws, the mean."""
    nothing = normalised(str(options.get("no_answer") or ""))
    golds = [normalised(gold) for gold in view.golds] or [""]
    said = [normalised(text) for text in view.said]
    values = [max(compare("" if text == nothing else text, gold) for gold in golds) for text in said]
    return sum(values) / len(values) if values else 0.0


def _f1(said: str, gold: str) -> float:
    ours, theirs = said.split(), gold.split()
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))
