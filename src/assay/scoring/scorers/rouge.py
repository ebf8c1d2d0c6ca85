"""ROUGE of generated answers, through the package rouge-score."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from assay.core.packages import require
from assay.scoring.scorers.generated_answer import AnswerView


class Rouge:
    """The value function of one kind of ROUGE: `rouge1`, `rouge2`, `rougeL` or `rougeLsum`."""

    package = "rouge_score"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, view: AnswerView, options: Mapping[str, Any]) -> float:
        """F-measure from 0 to 1 with the best matching right answer; the mean over several draws."""
        scorer = _scorer(self.kind, bool(options.get("use_stemmer", False)))
        best = [
            max((scorer.score(gold, text)[self.kind].fmeasure for gold in view.golds), default=0.0)
            for text in view.texts
        ]
        return float(sum(best) / len(best)) if best else 0.0


@lru_cache(maxsize=16)
def _scorer(kind: str, use_stemmer: bool) -> Any:
    require("rouge_score", f"metric {kind}")
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([kind], use_stemmer=use_stemmer)
