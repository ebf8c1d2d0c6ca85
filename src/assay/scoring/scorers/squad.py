"""SQuAD exact match and token F1 of generated answers: words without case, punctuation and articles.

Rajpurkar et al. 2016 (section 6.1) and, for unanswerable questions, Rajpurkar et al. 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assay.scoring.scorers.generated_answer import AnswerView
from assay.stats.squad_tokens import normalised, word_f1


def squad_em(view: AnswerView, options: Mapping[str, Any]) -> float:
    """Whether the answer is one of the right answers."""
    return _best(view, options, lambda answer, gold: float(answer == gold))


def squad_f1(view: AnswerView, options: Mapping[str, Any]) -> float:
    """Token F1 with the closest right answer."""
    return _best(view, options, word_f1)


def _best(view: AnswerView, options: Mapping[str, Any], compare: Callable[[str, str], float]) -> float:
    """The best value over right answers; without any, an empty answer is right. Of several draws, the mean."""
    nothing = normalised(str(options.get("no_answer") or ""))
    golds = [normalised(gold) for gold in view.golds] or [""]
    answers = [normalised(text) for text in view.texts]
    values = [max(compare("" if text == nothing else text, gold) for gold in golds) for text in answers]
    return sum(values) / len(values) if values else 0.0
