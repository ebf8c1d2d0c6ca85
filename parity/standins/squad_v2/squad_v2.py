"""Stands for `evaluate`'s metric squad_v2, whose script is on the Hub: the benchmark's exact match and F1, in per cent.

Answers are compared without case, punctuation, articles and surplus blanks. `best_*` is the best that any threshold of
the probability of "no answer" could give.
"""

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import datasets
import evaluate


class SquadV2(evaluate.Metric):
    def _info(self) -> Any:
        text = datasets.Value("string")
        answers = {"text": [text], "answer_start": [datasets.Value("int32")]}
        prediction = {"id": text, "prediction_text": text, "no_answer_probability": datasets.Value("float32")}
        features = datasets.Features({"predictions": prediction, "references": {"id": text, "answers": answers}})
        return evaluate.MetricInfo(description=__doc__, citation="", inputs_description="", features=features)

    def _compute(
        self, predictions: Sequence[Any], references: Sequence[Any], no_answer_threshold: float = 1.0
    ) -> dict[str, float]:
        rows = [_row(*pair, no_answer_threshold) for pair in zip(predictions, references, strict=True)]
        found: dict[str, float] = {}
        for prefix, chosen in (
            ("", rows),
            ("HasAns_", [row for row in rows if row["has_answer"]]),
            ("NoAns_", [row for row in rows if not row["has_answer"]]),
        ):
            if chosen:
                found |= {prefix + name: _percent(row[name] for row in chosen) for name in ("exact", "f1")}
                found[prefix + "total"] = len(chosen)
        return found | {f"best_{name}": _best(rows, name) for name in ("exact", "f1")}


def _row(prediction: Mapping[str, Any], reference: Mapping[str, Any], threshold: float) -> dict[str, Any]:
    golds = [text for text in reference["answers"]["text"] if _words(text)] or [""]
    said, doubt = prediction["prediction_text"], prediction["no_answer_probability"]
    raw = {
        "exact": max(float(_words(said) == _words(gold)) for gold in golds),
        "f1": max(_f1(_words(said), _words(gold)) for gold in golds),
    }
    has_answer = bool(reference["answers"]["text"])
    judged = {name: float(not has_answer) if doubt > threshold else value for name, value in raw.items()}
    return {**judged, "raw": raw, "has_answer": has_answer, "doubt": doubt, "is_silent": not _words(said)}


def _words(text: str) -> list[str]:
    bare = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return [word for word in bare.split() if word not in ("a", "an", "the")]


def _f1(said: list[str], gold: list[str]) -> float:
    if not said or not gold:
        return float(said == gold)
    common = sum((Counter(said) & Counter(gold)).values())
    return 2 * common / (len(said) + len(gold))


def _percent(values: Iterable[float]) -> float:
    items = list(values)
    return 100.0 * sum(items) / len(items)


def _best(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    """Silence everywhere to begin with; then answers are let through from the least doubtful on."""
    score = best = float(sum(not row["has_answer"] for row in rows))
    for row in sorted(rows, key=lambda row: row["doubt"]):
        score += row["raw"][name] if row["has_answer"] else -float(not row["is_silent"])
        best = max(best, score)
    return 100.0 * best / len(rows)
