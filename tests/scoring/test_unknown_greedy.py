"""Models that do not say whether an answer is the most likely one: exact greedy matches have no value, others have."""

from __future__ import annotations

from assay import evaluate
from assay.core.responses import GREEDY_UNKNOWN, Logprob
from assay.testing import ScriptedModel


def test_exact_greedy_matches_have_no_value_where_the_model_does_not_say() -> None:
    model = ScriptedModel(lambda request: Logprob(-1.5, 2, is_greedy=False, notes=(GREEDY_UNKNOWN,)))
    result = evaluate(model, ["demo_cloze", "demo_questions"], store=":memory:", limit=10, bootstrap_iters=0)
    cloze, questions = (
        {metric.metric: metric.estimate.value for metric in result.task(name).metrics}
        for name in ("demo_cloze", "demo_questions")
    )
    assert cloze["acc"] is None and cloze["perplexity"] is not None
    assert questions["acc"] is not None
    assert "demo_cloze: acc has no value for 10 of 10 scored documents, so the task has none either" in result.notices


def test_a_model_that_says_has_a_value() -> None:
    model = ScriptedModel(lambda request: Logprob(-1.5, 2, is_greedy=True))
    result = evaluate(model, "demo_cloze", store=":memory:", limit=10, bootstrap_iters=0)
    assert result.task("demo_cloze").metric("acc").estimate.value == 1.0
