"""Metrics of confidence and agreement on choices and on a head's scores, by hand and against scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from assay.core.documents import Document
from assay.core.requests import Instance
from assay.core.responses import Failure, LabelScores, Logprob
from assay.core.results import AnsweredDocument
from assay.core.scores import Estimate
from assay.core.specs import MetricSpec, Scoring
from assay.scoring.aggregate import aggregate_task
from assay.scoring.document_scorer import document_scorer
from assay.studies.calibration.reliability import task_reliability

CHOICES = ("a", "b", "c")
NAMES = ("ece_adaptive", "log_loss", "auroc", "aurc", "cohen_kappa")


def scored(
    rows: Sequence[tuple[Sequence[float], Any]], *metrics: MetricSpec, head: bool = False
) -> dict[str, Estimate]:
    """Documents as (probabilities or scores of the choices, right one)."""
    scoring = Scoring("label_scores" if head else "multiple_choice", metrics)
    scorer = document_scorer(scoring, "t")
    samples = []
    for place, (shares, gold) in enumerate(rows):
        logs = [math.log(share) for share in shares]
        outputs: list[Any] = [LabelScores(tuple(logs))] if head else [Logprob(log, 1, False) for log in logs]
        instance = Instance("t", place, (), choices=CHOICES[: len(shares)], gold=gold)
        samples += scorer.score(Document("t", place, {}), instance, outputs)
    return {found.metric: found.estimate for found in aggregate_task(scoring, samples, 1000)}


def made(n: int, seed: int) -> list[tuple[list[float], int]]:
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet([0.7, 0.7, 0.7], n)
    return [(own.tolist(), int(generator.choice(3, p=(own + 0.2) / (own + 0.2).sum()))) for own in shares]


@pytest.mark.parametrize("head", [False, True])
def test_three_documents_by_hand(head: bool) -> None:
    rows = [([0.6, 0.3, 0.1], 0), ([0.2, 0.7, 0.1], 0), ([0.2, 0.3, 0.5], 2)]
    found = scored(
        rows, *map(MetricSpec, NAMES), MetricSpec("selective_acc", options={"coverage": [0.5, 1]}), head=head
    )
    assert found["log_loss"].value == pytest.approx(-(math.log(0.6) + math.log(0.2) + math.log(0.5)) / 3)
    # Confidences 0.6, 0.7, 0.5; hits 1, 0, 1: the miss is the surest.
    assert found["auroc"].value == 0.0
    assert found["selective_acc@0.5"].value == 0.5 and found["selective_acc@1"].value == pytest.approx(2 / 3)
    assert found["aurc"].value == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert found["ece_adaptive"].value == pytest.approx((0.4 + 0.7 + 0.5) / 3)
    # Right 0, 0, 2; picked 0, 1, 2: agreement 2/3, by chance (2·1 + 0·1 + 1·1)/9 = 1/3.
    assert found["cohen_kappa"].value == pytest.approx((2 / 3 - 1 / 3) / (1 - 1 / 3))
    assert {item.n for item in found.values()} == {3}


def test_scikit_learn_says_the_same() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    rows = made(400, 1)
    found = scored(rows, *map(MetricSpec, NAMES))
    shares, golds = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    picked = shares.argmax(axis=1)
    assert found["log_loss"].value == pytest.approx(sklearn.log_loss(golds, shares))
    assert found["auroc"].value == pytest.approx(sklearn.roc_auc_score(picked == golds, shares.max(axis=1)))
    assert found["cohen_kappa"].value == pytest.approx(sklearn.cohen_kappa_score(golds, picked))
    for name in NAMES:
        low, high, value = found[name].low, found[name].high, found[name].value
        assert low is not None and high is not None and value is not None and low < high
        assert found[name].stderr is not None and low - 0.05 < value < high + 0.05


def test_intervals_are_the_same_each_time() -> None:
    assert scored(made(50, 2), *map(MetricSpec, NAMES)) == scored(made(50, 2), *map(MetricSpec, NAMES))


def test_several_right_choices_share_their_probability() -> None:
    found = scored([([0.5, 0.2, 0.3], (0, 2)), ([0.5, 0.2, 0.3], (1, 2))], MetricSpec("log_loss"))
    assert found["log_loss"].value == pytest.approx(-(math.log(0.8) + math.log(0.5)) / 2)


def test_a_document_without_a_known_right_choice_has_no_log_loss() -> None:
    found = scored([([0.5, 0.5], -100), ([0.25, 0.75], 1)], MetricSpec("log_loss"), MetricSpec("acc"))
    assert (found["log_loss"].n, found["acc"].n) == (1, 2)
    assert found["log_loss"].value == pytest.approx(-math.log(0.75))


def test_a_probability_too_small_for_a_float_has_its_loss() -> None:
    scoring = Scoring("multiple_choice", (MetricSpec("log_loss"),))
    outputs = [Logprob(-2000.0, 1, False), Logprob(-1.0, 1, False)]
    (sample,) = document_scorer(scoring, "t").score(
        Document("t", 0, {}), Instance("t", 0, (), choices=("a", "b"), gold=0), outputs
    )
    assert sample.values["log_loss"] == pytest.approx(1999.0)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_documents_give_honest_nulls(count: int) -> None:
    rows = [([0.6, 0.4], 0), ([0.7, 0.3], 0)][:count]
    found = scored(rows, *map(MetricSpec, NAMES))
    assert found["auroc"].value is None and found["cohen_kappa"].value is None
    assert [found[name].value is None for name in ("ece_adaptive", "aurc", "log_loss")] == [count == 0] * 3
    assert found["aurc"].stderr is None or count == 2


def test_a_tasks_reliability_counts_answered_choices_only() -> None:
    def item(place: int, logs: Sequence[float] | None, **more: Any) -> AnsweredDocument:
        outputs = (Failure("x", "y"),) * 2 if logs is None else tuple(Logprob(log, 1, False) for log in logs)
        return AnsweredDocument(Document("t", place, {}), Instance("t", place, (), **more), outputs)

    two = {"choices": ("a", "b"), "gold": 0}
    answered = [
        item(0, [math.log(0.8), math.log(0.2)], **two),
        item(1, [math.log(0.4), math.log(0.6)], **two),
        item(2, None, **two),
        item(3, [-1.0], gold="text"),
    ]
    found = task_reliability(answered)
    assert found is not None and found.n == 2
    assert [(round(one.confidence, 9), one.accuracy, one.n) for one in found.bins] == [(0.6, 0.0, 1), (0.8, 1.0, 1)]
    assert [(point.coverage, point.accuracy) for point in found.curve] == [(0.5, 1.0), (1.0, 0.5)]
    assert task_reliability(answered[2:]) is None


def test_a_long_curve_keeps_a_hundred_points_and_its_end() -> None:
    answered = []
    for place, (shares, gold) in enumerate(made(1234, 3)):
        outputs = tuple(Logprob(math.log(share), 1, False) for share in shares)
        answered.append(
            AnsweredDocument(Document("t", place, {}), Instance("t", place, (), choices=CHOICES, gold=gold), outputs)
        )
    found = task_reliability(answered)
    assert found is not None and 90 <= len(found.curve) <= 100
    hits = [row[1] == row[0].index(max(row[0])) for row in made(1234, 3)]
    assert found.curve[-1].coverage == 1.0 and found.curve[-1].accuracy == pytest.approx(sum(hits) / 1234)
