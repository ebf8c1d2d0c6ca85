"""Two short answers compared as SQuAD does: words without case, punctuation and articles.

In: texts. Out: numbers from 0 to 1. Rajpurkar et al. 2016, section 6.1.
"""

from __future__ import annotations

import re
import string
from collections import Counter

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def normalised(text: str) -> str:
    """Lower case, without punctuation and the articles a, an, the; one space between words."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def word_f1(answer: str, gold: str) -> float:
    """F1 of the words that two normalised answers share; where one has no words, whether both have none."""
    ours, theirs = answer.split(), gold.split()
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))
