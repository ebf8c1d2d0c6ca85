"""Generated answers to questions about a passage: DROP's exact match and F1 (Dua et al. 2019), and CoQA's (Reddy et al.
2019).

In: an answer view; DROP also reads its document. Out: a number from 0 to 1, or the mean over several draws.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from assay.core.documents import Document
from assay.scoring.scorers.generated_answer import AnswerView
from assay.scoring.scorers.row_values import row_value
from assay.stats.squad_tokens import normalised, word_f1

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)

Spans = tuple[str, ...]


def drop_em(view: AnswerView, options: Mapping[str, Any], document: Document) -> float:
    """Whether the answer equals all spans of a right one, in DROP's normalisation."""
    return _best_for_drop(view, document, _is_equal)


def drop_f1(view: AnswerView, options: Mapping[str, Any], document: Document) -> float:
    """DROP's F1 with the closest right answer: 0 if that has numbers and the answer none of them."""
    return _best_for_drop(view, document, _bag_f1)


def _best_for_drop(view: AnswerView, document: Document, compare: Callable[[str, Spans], float]) -> float:
    golds = [spans for spans in drop_answers(document) if spans[0].strip()]
    values = [max((compare(text, spans) for spans in golds), default=0.0) for text in view.texts]
    return sum(values) / len(values) if values else 0.0


def drop_answers(document: Document) -> list[Spans]:
    """The right answers of a DROP row: its own, then those of the validation, each once."""
    validated = row_value(document, "validated_answers")
    listed = [dict(zip(validated, values, strict=True)) for values in zip(*validated.values(), strict=True)]
    return list(dict.fromkeys(map(_spans, [row_value(document, "answer"), *listed])))


def _spans(answer: Mapping[str, Any]) -> Spans:
    """A number, one or more spans, or a date."""
    if answer["number"] != "":
        return (str(answer["number"]),)
    if answer["spans"]:
        return tuple(answer["spans"])
    return (" ".join(answer["date"][part] for part in ("day", "month", "year")).strip(),)


def _is_equal(text: str, gold: Spans) -> float:
    return float(list(map(drop_normalised, gold)) == [drop_normalised(text)])


def _bag_f1(text: str, gold: Spans) -> float:
    """F1 of the words of the answer and of the closest span, over the number of spans, in two decimals.

    The official score aligns several predicted spans with the right ones; a generated text is one span.
    """
    found = set(drop_normalised(text).split())
    best = max(_overlap(found, set(drop_normalised(span).split())) for span in gold)
    return round(best / len(gold), 2)


def _overlap(found: set[str], right: set[str]) -> float:
    numbers = {word for word in right if _is_number(word)}
    if numbers and numbers.isdisjoint(found):
        return 0.0
    shared = len(found & right)
    precision, recall = shared / len(found) if found else 1.0, shared / len(right) if right else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def drop_normalised(text: str) -> str:
    """Words between blanks and hyphens, without case, articles and punctuation; numbers as floats, so 5 is 5.0."""
    return " ".join(word for word in map(_word, re.split(" |-", text)) if word)


def _word(token: str) -> str:
    token = token.lower()
    token = token if _is_number(token) else token.translate(_PUNCTUATION)
    token = str(float(token)) if _is_number(token) else token
    return " ".join(_ARTICLES.sub(" ", token).split())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def coqa_em(view: AnswerView, options: Mapping[str, Any]) -> float:
    """Exact match with SQuAD's normalisation, averaged over all but one of the right answers at a time."""
    return _mean_without_one(view, lambda answer, gold: float(answer == gold))


def coqa_f1(view: AnswerView, options: Mapping[str, Any]) -> float:
    """Token F1 in the same way, so that a person, who cannot be compared with the own answer, is scored alike."""
    return _mean_without_one(view, word_f1)


def _mean_without_one(view: AnswerView, compare: Callable[[str, str], float]) -> float:
    golds = [normalised(gold) for gold in view.golds]
    values = [
        _mean(max(compare(normalised(_first_line(text)), gold) for gold in others) for others in _each_left_out(golds))
        for text in view.texts
    ]
    return _mean(values)


def _each_left_out(golds: Sequence[str]) -> Iterator[Sequence[str]]:
    if len(golds) == 1:
        yield golds
    else:
        yield from ([*golds[:place], *golds[place + 1 :]] for place in range(len(golds)))


def _first_line(text: str) -> str:
    return text.strip().split("\n")[0]


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
