"""SQuAD normalisation and token F1 of short answers: words without case, punctuation and articles.

In: texts. Out: numbers from 0 to 1. Rajpurkar et al. 2016, section 6.1.
"""

from __future__ import annotations

import re
import string
from collections import Counter

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalised(text: str) -> str:
    """Lower case, without punctuation and the articles a, an, the; single spaces between words."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def word_f1(answer: str, gold: str) -> float:
    """Token F1 of two normalised answers; if one is empty, whether both are."""
    ours, theirs = answer.split(), gold.split()
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))
