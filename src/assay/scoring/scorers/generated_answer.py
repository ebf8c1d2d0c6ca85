"""Generated answers: exact match, SQuAD exact match and token F1, ROUGE, and pairs for corpus-level metrics."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from assay.core.packages import require
from assay.core.requests import Instance
from assay.guard.regex import check_search_time
from assay.guard.time_limit import ResourceLimit
from assay.stats.squad_tokens import normalised as squad_normalised
from assay.stats.squad_tokens import word_f1

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIGITS = str.maketrans("", "", string.digits)
# Not an option of task files: ignores surrounding white space, to count the errors that it alone causes.
STRIPS = "strips"


@dataclass(frozen=True, slots=True)
class AnswerView:
    """A generated answer and every answer that counts as right.

    Attributes:
        texts: the generated answers; a pipeline may leave several draws.
        golds: the right answers.
        result: the pipeline's output, unchanged.
        is_multiple: whether the task states a list of right answers.
    """

    texts: tuple[str, ...]
    golds: tuple[str, ...]
    result: Any = None
    is_multiple: bool = False


def answer_view(instance: Instance, results: Sequence[Any]) -> AnswerView:
    """The view of one document."""
    result = results[0]
    draws = result if isinstance(result, (list, tuple)) else [result]
    is_multiple = isinstance(instance.gold, tuple)
    golds = instance.gold if is_multiple else (instance.gold,)
    texts = tuple(["" if text is None else str(text) for text in draws])
    return AnswerView(texts, tuple(map(str, golds)), result, is_multiple)


def without_patterns(patterns: Sequence[re.Pattern[str]], text: str) -> str:
    """A text without the matches of some patterns."""
    with ResourceLimit():
        for pattern in patterns:
            check_search_time(pattern, text)
            text = pattern.sub("", text)
    return text


def cast_like(gold: str, result: Any) -> Any:
    """The right answer in the result's type, so that "3" equals the 3 of a `map` filter; as in lm-eval."""
    if isinstance(result, (str, list)) or result is None:
        return gold
    try:
        return type(result)(gold)
    except (TypeError, ValueError):
        return gold


def exact_match(view: AnswerView, options: Mapping[str, Any]) -> float:
    """Whether the answer equals a right one, after removing what the options ignore."""
    normalise = _chosen_normaliser(options)
    if options.get("compares_lists"):
        # lm-eval 0.4.13 with an empty `regexes_to_ignore` compares the list of copies with the list of right answers.
        return float(all(list(view.texts) == [gold] for gold in view.golds))
    golds = {normalise(gold) for gold in view.golds}
    hits = [normalise(text) in golds for text in view.texts]
    return sum(hits) / len(hits) if hits else 0.0


def normalised(view: AnswerView, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The answers without what the options of `exact_match` ignore: equal ones are the same answer."""
    return tuple(map(_chosen_normaliser(options), view.texts))


def label_pair(view: AnswerView, options: Mapping[str, Any]) -> list[Any]:
    """[right, predicted], for F1 and MCC; of several right answers the predicted one, or the first."""
    golds = [cast_like(gold, view.result) for gold in view.golds] or [""]
    return [view.result if view.result in golds else golds[0], view.result]


def text_pair(view: AnswerView, options: Mapping[str, Any]) -> list[Any]:
    """[right, predicted], for corpus-level scores.

    Several right answers stay several references. lm-eval turns them into 1.0, on which its corpus scores then fail.
    """
    return [list(view.golds) if view.is_multiple else view.golds[0], view.result]


def number_pair(view: AnswerView, options: Mapping[str, Any]) -> tuple[float, float]:
    """(right, generated) as numbers; an answer that is not a finite number counts as the option `default`, or 0."""
    default = float(options.get("default", 0.0))
    right, found = _finite(view.golds[0] if view.golds else ""), _finite(view.texts[0] if view.texts else "")
    return (default if right is None else right), (default if found is None else found)


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _chosen_normaliser(options: Mapping[str, Any]) -> Any:
    return _normaliser(
        tuple(options.get("regexes_to_ignore") or ()),
        bool(options.get("ignore_case", False)),
        bool(options.get("ignore_punctuation", False)),
        bool(options.get("ignore_numbers", False)),
        bool(options.get(STRIPS, False)),
    )


@lru_cache(maxsize=64)
def _normaliser(regexes: tuple[str, ...], case: bool, punctuation: bool, numbers: bool, strips: bool) -> Any:
    patterns = [re.compile(regex) for regex in regexes]

    def normalise(text: str) -> str:
        text = text.strip() if strips else text
        text = without_patterns(patterns, text) if patterns else text
        text = text.lower() if case else text
        text = text.translate(_PUNCTUATION) if punctuation else text
        return text.translate(_DIGITS) if numbers else text

    return normalise


def squad_em(view: AnswerView, options: Mapping[str, Any]) -> float:
    """SQuAD exact match: whether the answer is a right one, ignoring case, punctuation and articles.

    Rajpurkar et al. 2016 (section 6.1) and, for unanswerable questions, Rajpurkar et al. 2018.
    """
    return _best_over_golds(view, options, lambda answer, gold: float(answer == gold))


def squad_f1(view: AnswerView, options: Mapping[str, Any]) -> float:
    """SQuAD token F1 with the closest right answer."""
    return _best_over_golds(view, options, word_f1)


def set_f1(view: AnswerView, options: Mapping[str, Any]) -> float:
    """F1 of the sets of items in two lists: each once, in any order, without surrounding white space."""
    separator = str(options.get("separator") or ",")
    right, *found = (
        {item.strip() for item in text.split(separator)} - {""} for text in (separator.join(view.golds), *view.texts)
    )
    values = [2 * len(items & right) / (len(items) + len(right)) if items or right else 1.0 for items in found]
    return sum(values) / len(values) if values else 0.0


def _best_over_golds(view: AnswerView, options: Mapping[str, Any], compare: Callable[[str, str], float]) -> float:
    """The best value over right answers; without any, an empty answer is right. Of several draws, the mean."""
    nothing = squad_normalised(str(options.get("no_answer") or ""))
    golds = [squad_normalised(gold) for gold in view.golds] or [""]
    answers = [squad_normalised(text) for text in view.texts]
    values = [max(compare("" if text == nothing else text, gold) for gold in golds) for text in answers]
    return sum(values) / len(values) if values else 0.0


@dataclass(frozen=True, slots=True)
class Rouge:
    """The value function of one kind of ROUGE: `rouge1`, `rouge2`, `rougeL` or `rougeLsum`."""

    package: ClassVar[str] = "rouge_score"
    kind: str

    def __call__(self, view: AnswerView, options: Mapping[str, Any]) -> float:
        """F-measure from 0 to 1 with the best matching right answer; the mean over several draws."""
        scorer = rouge_scorer(self.kind, bool(options.get("use_stemmer", False)))
        best = [
            max((scorer.score(gold, text)[self.kind].fmeasure for gold in view.golds), default=0.0)
            for text in view.texts
        ]
        return float(sum(best) / len(best)) if best else 0.0


@lru_cache(maxsize=16)
def rouge_scorer(kind: str, use_stemmer: bool) -> Any:
    """The scorer of the package rouge-score for one kind of ROUGE."""
    require("rouge_score", f"metric {kind}")
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([kind], use_stemmer=use_stemmer)
