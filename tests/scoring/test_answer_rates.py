"""The rates of generated answers."""

from __future__ import annotations

import pytest

from assay.core.documents import Document
from assay.core.requests import Generation, Instance
from assay.core.responses import Failure, Logprob, Output, Text
from assay.core.results import AnsweredDocument
from assay.core.scores import Estimate, MetricResult
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.scoring.answer_rates import answer_rates
from assay.scoring.document_scorer import document_scorer

TAKE = FilterSpec("take_first")
LETTER = PipelineSpec("letter", (FilterSpec("extract", {"using": "letter"}), TAKE))
PLAIN = PipelineSpec("plain", (TAKE,))


def rates(*outputs: Output | Failure, draws: int = 1, kind: str = "generate_until") -> tuple[MetricResult, ...]:
    scorer = document_scorer(Scoring(kind, (MetricSpec("exact_match"),), (LETTER, PLAIN)), "t")
    answered, samples = [], []
    for number, start in enumerate(range(0, len(outputs), draws)):
        own = outputs[start : start + draws]
        instance = Instance("t", number, (Generation("?"),) * draws, draws=draws, gold="B")
        answered.append(AnsweredDocument(Document("t", number, {}), instance, own))
        good = [output for output in own if not isinstance(output, Failure)]
        samples += scorer.score(answered[-1].document, instance, good) if len(good) == len(own) else []
    return answer_rates(kind, scorer, answered, samples)


def test_each_rate_is_a_share_of_the_scored_documents() -> None:
    no_answer, truncated = rates(
        Text("B"), Text("dunno"), Text("(A)", "length"), Text("hm", "length"), Failure("error", "")
    )
    assert (no_answer.metric, no_answer.filter, no_answer.higher_is_better) == ("no_answer", "letter", False)
    assert (truncated.metric, truncated.filter, truncated.higher_is_better) == ("truncated", "none", False)
    for rate in (no_answer, truncated):
        assert (rate.estimate.value, rate.estimate.n, rate.estimate.method) == (0.5, 4, "wilson")
        # Wilson's interval of 2 out of 4.
        assert rate.estimate.low == pytest.approx(0.1500, abs=1e-4)
        assert rate.estimate.high == pytest.approx(0.8500, abs=1e-4)


def test_several_draws_count_by_their_share() -> None:
    no_answer, truncated = rates(Text("B"), Text("?"), Text("?"), Text("?", "length"), draws=2)
    assert (no_answer.estimate.value, no_answer.estimate.n) == (0.75, 2)
    assert (truncated.estimate.value, truncated.estimate.n) == (0.25, 2)


def test_no_documents_give_no_number() -> None:
    assert [rate.estimate for rate in rates()] == [Estimate(None, None, None, None, 0, "wilson")] * 2


def test_other_tasks_have_no_rates() -> None:
    scoring = Scoring("multiple_choice", (MetricSpec("acc"),))
    item = AnsweredDocument(Document("t", 0, {}), Instance("t", 0, ()), (Logprob(-1.0, 1, False),))
    assert answer_rates("multiple_choice", document_scorer(scoring, "t"), [item], []) == ()
