"""Two answers compared by their words."""

from __future__ import annotations

import pytest

from assay.models.training.validation_metrics import span_metrics
from assay.stats.squad_tokens import normalised, word_f1


def test_case_punctuation_and_articles_do_not_count() -> None:
    assert normalised("The  Eiffel Tower, in a park!") == "eiffel tower in park"


@pytest.mark.parametrize(
    ("said", "gold", "value"), [("x y", "y z", 0.5), ("x x", "x", 2 / 3), ("", "", 1.0), ("", "x", 0.0)]
)
def test_f1_counts_shared_words(said: str, gold: str, value: float) -> None:
    assert word_f1(said, gold) == pytest.approx(value)


def test_spans_are_worth_what_the_metrics_of_the_task_say() -> None:
    found = span_metrics([("the sky", "Sky."), ("blue sky", "sky"), ("", "")])
    assert found == {"accuracy": pytest.approx(2 / 3), "squad_f1": pytest.approx((1 + 2 / 3 + 1) / 3)}
