"""Counts of perplexities, perplexities per token and document, and groups over all texts, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from assay import Read, evaluate, task
from assay.core.documents import Document
from assay.core.requests import Instance, Loglikelihood, RollingLoglikelihood
from assay.core.responses import Failure, Logprob
from assay.core.results import AnsweredDocument, RunResult
from assay.core.scores import Sample, TextCounts
from assay.scoring.answer_counts import text_counts
from assay.scoring.scorers.text_likelihood import LikelihoodView, per_byte, per_word
from assay.testing import ScriptedModel

METRICS = ["token_perplexity", "nats_per_token", "document_perplexity", "document_perplexity_median"]
KIND = "loglikelihood_rolling"
# Text → (log-likelihood, tokens): 2, 1 and 4 nats per token.
ANSWERS = {"one two": (-4.0, 2), "café": (-3.0, 3), "x": (-4.0, 1)}


def answer(request: Any) -> Logprob:
    total, count = ANSWERS[request.text]
    return Logprob(total, count, False, windows=count)


def scored(*texts: str) -> RunResult:
    asked = task("texts", rows=[{"text": text} for text in texts], metrics=METRICS)(lambda row: Read(row["text"]))
    return evaluate(ScriptedModel(answer), asked, store=":memory:")


def value(result: RunResult, name: str) -> float:
    found = result.task("texts").metric(name).estimate.value
    assert found is not None
    return found


def test_perplexities_by_hand() -> None:
    result = scored(*ANSWERS)
    assert value(result, "nats_per_token") == pytest.approx(11 / 6)
    assert value(result, "token_perplexity") == pytest.approx(math.exp(11 / 6))
    assert value(result, "document_perplexity") == pytest.approx((math.exp(2) + math.exp(1) + math.exp(4)) / 3)
    assert value(result, "document_perplexity_median") == pytest.approx(math.exp(2))


def test_the_median_of_two_lies_between_them() -> None:
    assert value(scored("one two", "x"), "document_perplexity_median") == pytest.approx((math.exp(2) + math.exp(4)) / 2)


def test_counts_by_hand_and_in_the_record() -> None:
    result = scored(*ANSWERS)
    # Bytes, not characters: the é of café takes two.
    assert result.task("texts").texts == TextCounts(documents=3, windows=6, tokens=6, words=4, bytes=7 + 5 + 1)
    message = result.summary()["tasks"]["texts"]["texts"]
    assert message == {"documents": 3, "windows": 6, "tokens": 6, "words": 4, "bytes": 13}


def answered(place: int, *outputs: Logprob | Failure, text: str = "a b") -> AnsweredDocument:
    instance = Instance("t", place, (RollingLoglikelihood(text),), target=text)
    return AnsweredDocument(Document("t", place, {}), instance, outputs)


def test_failed_documents_do_not_count() -> None:
    items = [answered(0, Logprob(-1.0, 2, False, windows=1)), answered(1, Failure("error", "no"))]
    assert text_counts(KIND, items, []) == TextCounts(1, 1, 2, 2, 3)


def test_windows_that_a_model_does_not_report_are_unknown() -> None:
    message, untold = Logprob(-1.0, 2, False, windows=1), Logprob(-1.0, 2, False)
    assert text_counts(KIND, [answered(0, message), answered(1, untold)], []) == TextCounts(2, None, 4, 4, 6)
    nothing = Logprob(0.0, 0, True)
    assert text_counts(KIND, [answered(0, nothing, text="")], []) == TextCounts(1, 0, 0, 1, 0)


def test_words_and_bytes_are_those_that_the_metrics_divide_by() -> None:
    items = [answered(0, Logprob(-1.0, 2, False, windows=1))]
    samples = [Sample(0, "none", (), {"word_perplexity": (-1.0, 7), "bits_per_byte": (-1.0, 50)})]
    assert text_counts(KIND, items, samples) == TextCounts(1, 1, 2, 7, 50)


def test_other_tasks_have_no_counts() -> None:
    instance = Instance("t", 0, (Loglikelihood("a", "b"),))
    item = AnsweredDocument(Document("t", 0, {}), instance, (Logprob(-1.0, 1, False),))
    assert text_counts("loglikelihood", [item], []) is None


def test_a_text_without_tokens_has_no_perplexity_of_its_own() -> None:
    model = ScriptedModel(lambda request: Logprob(-2.0, 1, False) if request.text else Logprob(0.0, 0, True))
    asked = task("texts", rows=[{"text": "x"}, {"text": ""}], metrics=METRICS)(lambda row: Read(row["text"]))
    result = evaluate(model, asked, store=":memory:")
    for name in ("document_perplexity", "document_perplexity_median"):
        assert result.task("texts").metric(name).estimate.n == 1
        assert value(result, name) == pytest.approx(math.exp(2))


def test_a_hopeless_text_has_an_infinite_perplexity() -> None:
    model = ScriptedModel(lambda request: Logprob(-1000.0 if request.text == "x" else -2.0, 1, False))
    asked = task("texts", rows=[{"text": text} for text in "xyz"], metrics=METRICS)(lambda row: Read(row["text"]))
    result = evaluate(model, asked, store=":memory:")
    assert value(result, "document_perplexity") == math.inf
    assert value(result, "document_perplexity_median") == pytest.approx(math.exp(2))
    assert result.task("texts").metric("document_perplexity").estimate.stderr is None


def test_words_and_bytes_of_another_column() -> None:
    view = LikelihoodView(Logprob(-4.0, 2, False), "a-b")
    document = Document("wikitext", 0, {"page": "a @-@ b"})
    assert per_word(view, {"counted": "page"}, document) == (-4.0, 3)
    assert per_byte(view, {"counted": "page"}, document) == (-4.0, 7)
    assert per_word(view, {}, document) == (-4.0, 1)
