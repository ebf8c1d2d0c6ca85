"""The audit of a finished task: which rule matched, what was cut off, where readings differ."""

from __future__ import annotations

import pytest

from assay.core.documents import Document
from assay.core.requests import Generation, Instance
from assay.core.responses import Text
from assay.core.results import AnsweredDocument, TaskResult
from assay.core.scores import Denominators, Extraction
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring, TaskCard
from assay.scoring.document_scorer import document_scorer
from assay.studies.audit.extraction_audit import TaskAudit, audit_run, audit_task, comparable, excerpt

TAKE = FilterSpec("take_first")
LETTER = PipelineSpec("letter", (FilterSpec("extract", {"using": "letter", "labels": "ABCD"}), TAKE))
FIRST = PipelineSpec("first", (FilterSpec("regex", {"regex_pattern": "[A-D]"}), TAKE))
PLAIN = PipelineSpec("plain", (TAKE,))
TEXTS = [
    Text("The answer is B."),
    Text("The answer is B, as C is wrong.\nBut what of A"),
    Text("D", "length"),
    Text("hm, maybe", "length"),
    Text("not A: B is correct"),
]


def finished(texts: list[Text], *pipelines: PipelineSpec, draws: int = 1) -> TaskResult:
    scorer = document_scorer(Scoring("generate_until", (MetricSpec("exact_match"),), pipelines), "t")
    answered = [
        AnsweredDocument(
            Document("t", number, {}),
            Instance("t", number, (Generation("?"),) * draws, draws=draws, target="B", gold="B"),
            tuple(texts[start : start + draws]),
        )
        for number, start in enumerate(range(0, len(texts), draws))
    ]
    samples = [s for item in answered for s in scorer.score(item.document, item.instance, item.outputs)]  # type: ignore[arg-type]
    card = TaskCard("t", 1, "t", "generate_until", 0, {}, "")
    counts = Denominators(len(answered), len(answered), len(answered))
    return TaskResult(card, (), counts, "", "", answered, samples, pipelines=pipelines)


def audited(texts: list[Text], *pipelines: PipelineSpec, draws: int = 1) -> TaskAudit:
    audit = audit_task(finished(texts, *pipelines, draws=draws))
    assert audit is not None
    return audit


def test_rules_are_counted_in_their_order() -> None:
    (audit,) = audited(TEXTS, LETTER, PLAIN).pipelines
    assert list(audit.matched.items()) == [
        ("letter_boxed", 0),
        ("letter_statement", 2),
        ("letter_verdict", 1),
        ("letter_lone", 1),
        ("letter_leading", 0),
        ("letter_last", 0),
    ]
    assert (audit.texts, audit.no_answer, audit.truncated, audit.truncated_with_answer) == (5, 1, 2, 1)


def test_extractors_that_disagree_are_listed() -> None:
    ((found,), between) = (audited(TEXTS, LETTER).pipelines[0].disagreements, audited(TEXTS, LETTER).between)
    assert (found.document_id, found.right, found.is_truncated) == (1, ("B",), False)
    assert found.answers == {"letter_statement": "B", "letter_last": "A"}
    assert found.excerpt == "The answer is B, as C is wrong. But what of A"
    assert between == ()


def test_pipelines_that_disagree_are_listed() -> None:
    audit = audited(TEXTS, LETTER, FIRST)
    assert [(found.document_id, found.answers) for found in audit.between] == [(4, {"letter": "B", "first": "A"})]
    assert [(each.pipeline, dict(each.matched).get("regex")) for each in audit.pipelines] == [
        ("letter", None),
        ("first", 4),
    ]


def test_draws_are_texts_of_their_own() -> None:
    (audit,) = audited(TEXTS[:4], LETTER, draws=2).pipelines
    assert audit.texts == 4
    assert [(found.document_id, found.draw) for found in audit.disagreements] == [(0, 1)]


def test_steps_before_the_extracting_one_are_gone_through_again() -> None:
    shouted = PipelineSpec("loud", (FilterSpec("uppercase"), LETTER.steps[0], TAKE))
    (audit,) = audited([Text("the answer is b. or what of c")], shouted).pipelines
    assert [found.answers for found in audit.disagreements] == [{"letter_statement": "B", "letter_last": "C"}]


def test_a_task_without_extraction_has_no_audit() -> None:
    assert audit_task(finished(TEXTS, PLAIN)) is None
    assert audit_run([finished(TEXTS, PLAIN)]) == ()


@pytest.mark.parametrize(
    ("one", "other"), [("(B)", "b."), ("$1,000", "1000.0"), ("50%", "50"), ("New  York", "new york")]
)
def test_the_same_answer_in_another_form_is_not_a_disagreement(one: str, other: str) -> None:
    assert comparable(one) == comparable(other)


def test_different_answers_differ() -> None:
    assert len({comparable(answer) for answer in ("A", "B", "1", "10", "1/2", "-1")}) == 6


def test_an_excerpt_is_short_and_says_where_it_was_cut() -> None:
    text = "x" * 100 + "B" + "y" * 100
    assert excerpt(text, Extraction("B", "r", 100, 101)) == "…" + "x" * 40 + "B" + "y" * 40 + "…"
    assert excerpt(text, Extraction()) == "…" + "y" * 80
    assert excerpt("a\r\n b", Extraction()) == "a b"


def test_every_question_of_a_document_is_looked_at() -> None:
    pipelines = (LETTER,)
    scorer = document_scorer(Scoring("generate_until", (MetricSpec("exact_match"),), pipelines), "t")
    instance = Instance("t", 0, (Generation("1"), Generation("2")), gold="B")
    item = AnsweredDocument(Document("t", 0, {}), instance, (Text("B", "length"), Text("Answer: B. Or\nC")))
    samples = scorer.score(item.document, instance, item.outputs)  # type: ignore[arg-type]
    card = TaskCard("t", 1, "t", "generate_until", 0, {}, "")
    audit = audit_task(TaskResult(card, (), Denominators(1, 1, 1), "", "", [item], samples, pipelines=pipelines))
    assert audit is not None
    assert [(each.draw, each.answers) for each in audit.pipelines[0].disagreements] == [
        (1, {"letter_statement": "B", "letter_last": "C"})
    ]
    assert audit.pipelines[0].truncated_with_answer == 1
