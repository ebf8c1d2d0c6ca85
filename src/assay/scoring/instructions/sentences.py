"""Sentences and words of English texts, for counting them.

In: a text. Out: the number of its sentences and words. Sentences end as by Punkt (Kiss and Strunk 2006), with lists of
abbreviations and rules instead of its trained statistics: no data to download.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")
_PUNCTUATION = re.compile(r"([;@#$%&?!\[\](){}<>\"“”]|--|\.\.\.|[:,](?!\d))")
_CONTRACTION = re.compile(r"('(?:s|m|d|ll|re|ve)|n't)\b", re.IGNORECASE)
# A stop, perhaps with quotes or brackets after it, before white space and the next token.
_STOP = re.compile(r"(?P<token>\S*?[.?!])(?P<closing>[\"'”’)\]*]*)(?=\s+(?P<next>\S+))")
_OPENING = "\"'“‘([*_#"
# fmt: off
_TITLES = frozenset((
    "adm", "brig", "capt", "cmdr", "col", "dr", "gen", "gov", "hon", "lt", "maj", "messrs", "mr", "mrs", "ms", "prof",
    "rep", "rev", "sen", "sgt", "st", "vs", "v", "fr", "mt", "ft",
))
_ABBREVIATIONS = frozenset((
    "al", "apr", "aug", "ave", "bros", "ca", "cf", "co", "corp", "dec", "dept", "ed", "eq", "est", "etc",
    "feb", "fig", "inc", "jan", "jr", "jul", "jun", "ltd", "mar", "nov", "oct", "p", "pp", "sep", "sept",
    "sr", "vol", "a.m", "p.m", "e.g", "i.e", "u.s", "u.k", "u.n", "d.c", "ph.d", "b.a", "m.a", "m.d", "n.y",
))
# fmt: on
_INITIAL = re.compile(r"[A-Za-z]")
_ACRONYM = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_ELLIPSIS = re.compile(r"\.{2,}$")
# Words with which a sentence often starts: after them an abbreviation was the end of a sentence.
_STARTERS = frozenset(
    ("the", "this", "that", "he", "she", "it", "we", "they", "i", "in", "but", "however", "if", "as", "at", "these")
)


def word_count(text: str) -> int:
    """The number of words: runs of letters, digits and underscores."""
    return len(_WORD.findall(text))


def sentence_count(text: str) -> int:
    """The number of sentences; a text without any stop is one, a blank text none."""
    if not text.strip():
        return 0
    return 1 + sum(_ends_sentence(match) for match in _STOP.finditer(text))


def _ends_sentence(match: re.Match[str]) -> bool:
    """Whether a sentence ends at a stop that white space follows."""
    token, following = match["token"], match["next"].lstrip(_OPENING)
    if token[-1] != ".":
        return True
    if _ELLIPSIS.search(token):
        return following[:1].isupper()
    word = token[:-1].lstrip(_OPENING).lower()
    if word in _TITLES:
        return False
    if word in _ABBREVIATIONS or _ACRONYM.fullmatch(word) or (_INITIAL.fullmatch(word) and word != "i"):
        return following[:1].isupper() and re.sub(r"\W.*", "", following, flags=re.DOTALL).lower() in _STARTERS
    return True


def capital_word_count(text: str) -> int:
    """The number of tokens in capital letters, as the Penn Treebank splits them: DON'T is the two tokens DO and N'T."""
    split = _CONTRACTION.sub(r" \1", _PUNCTUATION.sub(r" \1 ", text))
    return sum(token.isupper() for token in split.split())
