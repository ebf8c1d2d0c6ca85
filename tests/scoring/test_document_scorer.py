"""A document through its pipelines."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.documents import Document
from assay.core.errors import UnknownName, UserError
from assay.core.requests import Instance
from assay.core.responses import Logprob, Text
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.scoring.document_scorer import document_scorer

FIRST = PipelineSpec("first", (FilterSpec("take_first"),))
NUMBER = PipelineSpec("number", (FilterSpec("regex"), FilterSpec("take_first")))
VOTE = PipelineSpec("vote", (FilterSpec("regex"), FilterSpec("majority_vote"), FilterSpec("take_first")))
DOCUMENT = Document("t", 7, {"q": "?"})
MATCH = (MetricSpec("exact_match"),)


def generated(*pipelines: PipelineSpec) -> Scoring:
    return Scoring("generate_until", MATCH, pipelines)


def test_each_pipeline_starts_from_the_raw_outputs() -> None:
    scorer = document_scorer(generated(NUMBER, FIRST), "t")
    samples = scorer.score(DOCUMENT, Instance("t", 7, (), gold="5"), [Text("so #### 5")])
    assert [(s.filter, s.filtered, s.values) for s in samples] == [
        ("number", ("5",), {"exact_match": 1.0}),
        ("first", ("so #### 5",), {"exact_match": 0.0}),
    ]
    assert {sample.document_id for sample in samples} == {7}


def test_draws_of_a_question_stay_together() -> None:
    scorer = document_scorer(generated(VOTE), "t")
    texts = [Text("#### 4"), Text("#### 5"), Text("#### 5")]
    sample = scorer.score(DOCUMENT, Instance("t", 7, (), draws=3, gold="5"), texts)[0]
    assert (sample.filtered, sample.values) == (("5",), {"exact_match": 1.0})


def test_choices_are_one_question_each() -> None:
    scorer = document_scorer(Scoring("multiple_choice", (MetricSpec("acc"), MetricSpec("acc_norm"))), "t")
    logprobs = [Logprob(-6.0, 1, False), Logprob(-4.0, 1, False)]
    sample = scorer.score(DOCUMENT, Instance("t", 7, (), choices=("abcdef", "ab"), gold=0), logprobs)[0]
    assert sample.filtered == tuple(logprobs)
    assert sample.values == {"acc": 0.0, "acc_norm": 1.0}


def test_an_answer_that_was_not_found_is_known() -> None:
    scorer = document_scorer(generated(NUMBER, FIRST), "t")
    samples = scorer.score(DOCUMENT, Instance("t", 7, (), gold="5"), [Text("dunno")])
    assert scorer.extracting_pipelines == ("number",)
    assert [scorer.is_unparsed(sample) for sample in samples] == [True, False]


def test_a_fallback_of_its_own_is_known_too() -> None:
    own = PipelineSpec("own", (FilterSpec("regex", {"fallback": "none"}), FilterSpec("take_first")))
    scorer = document_scorer(generated(own), "t")
    instance = Instance("t", 7, (), gold="5")
    assert scorer.is_unparsed(scorer.score(DOCUMENT, instance, [Text("x")])[0])
    assert not scorer.is_unparsed(scorer.score(DOCUMENT, instance, [Text("#### 5")])[0])


@pytest.mark.parametrize(
    ("scoring", "error", "message"),
    [
        (Scoring("multiple_choice", (MetricSpec("acc_nrm"),)), UnknownName, 'unknown metric "acc_nrm".*acc_norm'),
        (Scoring("loglikelihood", (MetricSpec("acc_all"),)), UserError, "expected a task with process_results"),
        (
            Scoring("generate_until", (MetricSpec("acc"),)),
            UserError,
            'task t: metric "acc" cannot score generate_until',
        ),
        (Scoring("generate", MATCH), UserError, 'unknown scorer "generate"'),
        (
            Scoring("generate_until", (MetricSpec("exact_match", aggregation="meen"),)),
            UserError,
            'unknown aggregation "meen".*did you mean "mean"',
        ),
        (generated(PipelineSpec("p", (FilterSpec("regx"),))), UnknownName, 'task t, filter p: unknown filter "regx"'),
    ],
)
def test_wrong_names_are_the_users_error(scoring: Scoring, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        document_scorer(scoring, "task t")
