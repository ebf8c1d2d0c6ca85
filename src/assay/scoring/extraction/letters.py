"""Multiple-choice labels in generated text: B, (B), **B**, "the answer is B", \\boxed{B}.

A label is never part of a word. "A" before another word is an article, and a bare "I" is a pronoun, unless the form
says otherwise. Every quantifier is bounded, so that matching is fast on any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from assay.scoring.extraction.extractors import WITHOUT_BLANKS, FoundAnswer, boxes

Find = Callable[[str], "FoundAnswer | None"]

_WORD = rf"[^\W{WITHOUT_BLANKS}]"
# Not in "P(A)", "vitamin-C", "°C", "U.S.A", "C++", "A-level", "I'm".
_BEFORE = rf"(?<!{_WORD})(?<!{_WORD}[-–.'’&(\[])(?<![_^]\{{)(?<![°\\@#])"
_AFTER = rf"(?!{_WORD})(?![-–'’.&]{_WORD})(?![+#°(])"
# Markup around a label: emphasis, quotes, brackets, mathematics.
_OPEN = r"(?:[*_`\"'“‘«(\[$（【「]|\\[(\[]\s?|\\(?:text|textbf|mathrm|mathbf|boxed)\s?\{){0,8}"
_CLOSE = r"[*_`\"'”’»)\]}$）】」.:,;!。，：]{0,8}"
_SAID = (
    rf"(?:(?<!{_WORD})(?:answer(?:\s{{1,3}}(?:choice|option|letter))?|(?:correct|right|best)\s{{1,3}}(?:option|choice))"
    r"(?:\s{1,3}(?:to|for)\s{1,3}(?:this|the)\s{1,3}question)?"
    r"[*_]{0,3}\s{0,3}(?:is|would\s{1,3}be|should\s{1,3}be|must\s{1,3}be|:|：|=)|答案(?:是|为|為|：|:)?)"
    r"[\s*_:：]{0,10}(?:(?:therefore|thus|hence|likely|probably|clearly)\s{1,3})?(?:(?:the\s{1,3})?(?:option|choice|letter|answer)[\s:]{1,3})?"
)
# Words before which A or I is a label although it could be an article or a pronoun.
_GOES_ON = r"because|since|as|and|but|which|for|from|due|based|by|so|rather|instead|not|here"
_ITEM_END = rf"(?:[.):：][*_]{{0,2}}(?=\s|$)|\.(?!{_WORD}))"

_DENIED = re.compile(r"(?i:\bnot|n['’]t|\bneither|\bnor|\bexcept|\bthan)\s(?i:option\s|choice\s)?[(\[*_]{0,4}$")


class _Patterns:
    """The patterns for one set of labels."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        exact = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
        label = rf"(?P<label>{exact})"
        either = rf"(?P<either>(?i:{exact}))"
        self.given = {label.casefold(): label for label in labels}
        # "A or B" and "A, B" are not a single answer.
        alone = (
            rf"(?!{_CLOSE}\s{{0,3}}(?:or|and|/|,|&|\|)\s{{0,3}}{_OPEN}(?!\b[AI][ \t]{{1,3}}[a-z])(?:{exact}){_AFTER}"
            r"(?!\s{1,3}is\b))"
        )
        article = rf"(?!(?<=\b[AI])[ \t]{{1,3}}(?!(?:{_GOES_ON})\b){_WORD})"
        line_end = r"(?=[)\].:*_`}$\"'”’]{0,8}[ \t]{0,8}(?:\r?\n|$))"
        self.statement = re.compile(
            rf"(?i:{_SAID}){_OPEN}(?:{label}{_AFTER}{article}{alone}|{either}{_AFTER}{line_end}"
            rf"|(?P<bracketed>(?i:{exact}))(?=[)\]）】]))"
        )
        self.verdict = re.compile(
            rf"{_BEFORE}{label}{_CLOSE}\s{{1,3}}(?i:is|would\s{{1,3}}be|must\s{{1,3}}be)\s{{1,3}}"
            r"(?i:(?:the|my)\s{1,3})?(?i:(?:most|only|single)\s{1,3})?(?i:final\s{1,3})?(?i:correct|right|best|answer)\b"
        )
        self.lone = re.compile(rf"\s*{_OPEN}{either}{_CLOSE}\s*")
        self.leading = re.compile(
            rf"\s*{_OPEN}{label}(?:{_ITEM_END}|(?<![I]),(?=\s)|[*_)\]}}）】]{{1,4}}[.:,]?(?=\s|$)|\s[-–—](?=\s))"
            rf"(?!\s?[A-Z]\.){alone}"
        )
        self.item = re.compile(rf"^[ \t]{{0,8}}[-*•]?[ \t]{{0,3}}{_OPEN}{label}{_ITEM_END}", re.MULTILINE)
        marked = rf"(?<=[(\[*`$（【{{])(?<!{_WORD}[(\[])(?<![_^]\{{){label}(?=[)\]*`$）】}}])"
        # A line "A: Paris" may also be the answer in a dialogue of Q and A.
        bare = rf"{_BEFORE}(?P<bare>(?!I(?!\w))(?:{exact})){_AFTER}(?!(?<=\bA)(?:[:：]|[ \t]{{1,3}}{_WORD}))"
        self.joined = re.compile(
            rf"{_BEFORE}(?:{exact})[)\]*_]{{0,4}}"
            r"(?:\s{0,3}(?:or|and|,|/|&)\s{0,3}|[ \t]{1,3})[(\[*_]{0,4}$"
        )
        self.standing = re.compile(rf"{marked}|{bare}")
        box = rf"{_OPEN}{either}"
        self.box = re.compile(rf"\s*{box}(?:{_CLOSE}\s*|[.):]\s.*)", re.DOTALL)

    def found(self, match: re.Match[str]) -> FoundAnswer:
        """The label as listed, and its offsets."""
        name = match.lastgroup or "label"
        return FoundAnswer(self.given[match.group(name).casefold()], match.start(name), match.end(name))


_patterns = lru_cache(maxsize=256)(_Patterns)


def boxed(labels: Sequence[str]) -> Find:
    r"""The last `\boxed{B}`, also `\boxed{\text{(B)}}` and `\boxed{B. Paris}`."""
    patterns = _patterns(tuple(labels))

    def find(text: str) -> FoundAnswer | None:
        matches = (patterns.box.fullmatch(text, start, end) for start, end in boxes(text))
        return next((patterns.found(match) for match in matches if match), None)

    return find


def statement(labels: Sequence[str]) -> Find:
    """The last "the answer is B" or "Answer: B": models correct themselves."""
    patterns = _patterns(tuple(labels))
    return lambda text: _last(patterns, patterns.statement.finditer(text))


def verdict(labels: Sequence[str]) -> Find:
    """The last "B is correct" or "(B) is the right answer"."""
    patterns = _patterns(tuple(labels))
    return lambda text: _last(patterns, patterns.verdict.finditer(text))


def _last(patterns: _Patterns, matches: Iterator[re.Match[str]]) -> FoundAnswer | None:
    found = None
    for match in matches:
        found = match
    return None if found is None else patterns.found(found)


def lone(labels: Sequence[str]) -> Find:
    """A first line that is only a label, in either case."""
    patterns = _patterns(tuple(labels))

    def find(text: str) -> FoundAnswer | None:
        start, end = first_line(text)
        match = patterns.lone.fullmatch(text, start, end)
        return None if match is None else patterns.found(match)

    return find


def leading(labels: Sequence[str]) -> Find:
    """A label followed by punctuation at the start: "B. Paris", "(B) Paris". Not a list of the choices."""
    patterns = _patterns(tuple(labels))

    def find(text: str) -> FoundAnswer | None:
        match = patterns.leading.match(text, first_line(text)[0])
        if match is None or _lists_choices(patterns, text):
            return None
        return patterns.found(match)

    return find


def last(labels: Sequence[str]) -> Find:
    """The last free-standing label anywhere.

    Labels of a list of choices and negated ones ("not B") do not count, and "A or B" is not an answer.
    """
    patterns = _patterns(tuple(labels))

    def find(text: str) -> FoundAnswer | None:
        skipped = set()
        if _lists_choices(patterns, text):
            skipped = {match.start("label") for match in patterns.item.finditer(text)}
        # Offsets, not matches: a million matches held at once cost more than finding the last of them again.
        starts = [match.start() for match in patterns.standing.finditer(text)]
        for start in reversed(starts):
            before = max(0, start - 20), start
            if start not in skipped and not _DENIED.search(text, *before):
                match = patterns.standing.match(text, start)
                return None if match is None or patterns.joined.search(text, *before) else patterns.found(match)
        return None

    return find


def _lists_choices(patterns: _Patterns, text: str) -> bool:
    """Whether several labels begin a line like list items."""
    return len(set(patterns.item.findall(text))) > 1


def first_line(text: str) -> tuple[int, int]:
    """Start and end of the first nonblank line."""
    start = len(text) - len(text.lstrip())
    end = text.find("\n", start)
    return start, len(text) if end < 0 else end
