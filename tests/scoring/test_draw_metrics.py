"""Metrics over several draws of a question, by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from assay.core.documents import Document
from assay.core.errors import UserError
from assay.core.requests import Instance
from assay.core.responses import Text
from assay.core.scores import Sample
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.scoring.aggregate import aggregate_task
from assay.scoring.document_scorer import document_scorer

DOCUMENT = Document("t", 7, {"q": "?"})
PLAIN = PipelineSpec("none", (FilterSpec("take_first"),))
NUMBER = PipelineSpec("number", (FilterSpec("regex"), FilterSpec("take_first")))
VOTE = PipelineSpec("vote", (FilterSpec("regex"), FilterSpec("majority_vote"), FilterSpec("take_first")))
FIRST_TWO = PipelineSpec("two", (FilterSpec("take_first_k", {"k": 2}), FilterSpec("regex"), FilterSpec("take_first")))
# Two of four draws are right, one is wrong, one has no answer.
TEXTS = ("#### 5", "#### 4", "#### 5", "dunno")


def spec(name: str, **options: Any) -> MetricSpec:
    return MetricSpec(name, options=options)


def sample(metrics: Sequence[MetricSpec], texts: Sequence[str], pipeline: PipelineSpec = NUMBER, **more: Any) -> Sample:
    scorer = document_scorer(Scoring("generate_until", tuple(metrics), (pipeline,), **more), "task t")
    instance = Instance("t", 7, (), draws=len(texts), gold="5")
    return scorer.score(DOCUMENT, instance, [Text(text) for text in texts])[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pass@1", 1 / 2),
        ("pass@2", 5 / 6),  # only the pair (wrong, none) of six has no right one
        ("pass@3", 1.0),
        ("pass^1", 1 / 2),
        ("pass^2", 1 / 6),
        ("pass^3", 0.0),
        ("mean@1", 1 / 2),
        ("mean@4", 1 / 2),
        ("gpass@2:1", 1 / 6),
        ("gpass@2:0.5", 5 / 6),
        ("gpass@3:0.5", 1 / 2),  # two right of three: (5, 5, 4) and (5, 5, none) of four sets
        ("maj@1", 1 / 2),
        ("maj@3", 3 / 4),  # (5, 5, 4), (5, 5, none), and twice a tie of 5 and 4
        ("maj@4", 1.0),
    ],
)
def test_four_draws_by_hand(name: str, value: float) -> None:
    assert sample([spec(name)], TEXTS).values == {name: pytest.approx(value)}


def test_a_vote_of_many_draws_is_drawn_the_same_each_time() -> None:
    # Too many to count: 40 of 70 draws are right, so nearly every set of 50 has a right majority.
    texts = ["#### 5"] * 40 + ["#### 4"] * 30
    first, again = (sample([spec("maj@50")], texts).values["maj@50"] for _ in range(2))
    assert first == again and 0.95 < first <= 1


def test_a_draw_without_an_answer_is_wrong_and_casts_no_vote() -> None:
    found = sample([spec("pass@k", k=[1, 2]), spec("maj@2")], ["dunno", "#### 5"])
    assert found.values == {"pass@1": 0.5, "pass@2": 1.0, "maj@2": 1.0}
    assert found.draws == (None, 1.0)
    assert sample([spec("maj@2"), spec("pass@2")], ["dunno", "?"]).values == {"maj@2": 0.0, "pass@2": 0.0}


def test_fewer_draws_than_k_give_no_value_even_where_all_are_right() -> None:
    names = ("pass@3", "pass^3", "maj@3", "mean@3", "gpass@3:0.5")
    assert sample([spec(name) for name in names], ["#### 5", "#### 5"]).values == dict.fromkeys(names)


@pytest.mark.parametrize("pipeline", [NUMBER, VOTE])
def test_filters_that_choose_among_draws_are_behind_the_metric(pipeline: PipelineSpec) -> None:
    found = sample([spec("exact_match"), spec("pass@1"), spec("pass@4")], ["#### 4", "#### 4", "#### 5", "x"], pipeline)
    assert found.values == {"exact_match": 0.0, "pass@1": 0.25, "pass@4": 1.0}
    assert found.filtered == ("4",)


def test_take_first_k_leaves_as_many_draws() -> None:
    found = sample([spec("mean@k"), spec("pass@3")], ["#### 5", "#### 4", "#### 4", "#### 4"], FIRST_TWO)
    assert found.values == {"mean@1": 0.5, "pass@3": None}
    assert found.draws == (1.0, 0.0)


def test_options_are_those_of_exact_match() -> None:
    texts = ["FIVE.", "five"]
    metrics = [spec("pass@2", ignore_case=True, ignore_punctuation=True), spec("mean@2")]
    scorer = document_scorer(Scoring("generate_until", tuple(metrics), (PLAIN,)), "t")
    (found,) = scorer.score(DOCUMENT, Instance("t", 7, (), draws=2, gold="five"), [Text(text) for text in texts])
    assert found.values == {"pass@2": 1.0, "mean@2": 0.5}


def test_a_listed_exact_match_lends_its_options() -> None:
    found = sample([spec("exact_match", ignore_punctuation=True), spec("mean@2")], ["5.", "5"], PLAIN)
    assert found.values == {"exact_match": 1.0, "mean@2": 1.0}


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"ignore_case": True}, 1.0),
        # By squad_em "five" and "FIVE" are both right, but they stay two answers: two of three tied ones are right.
        ({"of": "squad_em"}, 2 / 3),
    ],
)
def test_equal_answers_vote_together_whatever_exact_match_ignores(options: dict[str, Any], value: float) -> None:
    scorer = document_scorer(Scoring("generate_until", (spec("maj@3", **options),), (PLAIN,)), "t")
    texts = [Text("six"), Text("five"), Text("FIVE")]
    (found,) = scorer.score(DOCUMENT, Instance("t", 7, (), draws=3, gold="five"), texts)
    assert found.values == {"maj@3": pytest.approx(value)}


def test_another_metric_can_judge() -> None:
    texts = ["the 5", "5!", "6"]
    assert sample([spec("pass@k", k=1, of="squad_em")], texts, PLAIN).values == {"pass@1": pytest.approx(2 / 3)}


def test_only_the_mean_takes_values_between_0_and_1() -> None:
    texts = ["5 or 6", "5"]
    f1 = 2 / 4  # one of three words, one of one: precision 1/3, recall 1
    assert sample([spec("mean@2", of="squad_f1")], texts, PLAIN).values == {"mean@2": pytest.approx((f1 + 1) / 2)}
    with pytest.raises(UserError, match=r"squad_f1.*returned 0\.5 for a draw.*0 or 1.*mean@k"):
        sample([spec("pass@2", of="squad_f1")], texts, PLAIN)


def test_a_function_of_the_task_can_judge() -> None:
    own = MetricSpec("odd", function=lambda references, predictions: float(int(predictions[0]) % 2))
    found = sample([own, spec("pass@k", k=2, of="odd")], ["2", "3", "4"], PLAIN)
    assert found.values == {"odd": 0.0, "pass@2": pytest.approx(2 / 3)}


def test_the_tasks_own_scoring_can_judge() -> None:
    def process(fields: dict[str, Any], results: list[Any]) -> dict[str, Any]:
        return {"long": float(len(results[0]) > 3), "pass@1": 0.25}

    metrics = [spec("long"), spec("pass@1"), spec("pass@k", k=2, of="long")]
    found = sample(metrics, ["a", "long enough", "b"], PLAIN, process=process)
    # A value that the task itself gives under such a name stays the task's.
    assert found.values == {"long": 0.0, "pass@1": 0.25, "pass@2": pytest.approx(2 / 3)}
    with pytest.raises(UserError, match='no "short"'):
        sample([spec("pass@2", of="short")], ["a", "b"], PLAIN, process=process)


@pytest.mark.parametrize("of", ["pass@2", 3])
def test_a_judge_judges_single_answers(of: Any) -> None:
    with pytest.raises(UserError, match="a metric of a single answer"):
        sample([spec("pass@1", of=of)], TEXTS)


def test_a_misspelt_draw_metric_is_reported_without_network_access() -> None:
    with pytest.raises(UserError, match=r'"pass@1" is of "exact_mach".*did you mean "exact_match"'):
        sample([spec("pass@1", of="exact_mach")], TEXTS)


def test_choices_have_no_draws() -> None:
    with pytest.raises(UserError, match="cannot score multiple_choice"):
        document_scorer(Scoring("multiple_choice", (spec("pass@1"),)), "t")


def estimate(rows: Sequence[Sequence[str]], *metrics: MetricSpec) -> Any:
    scoring = Scoring("generate_until", metrics, (NUMBER,))
    scorer = document_scorer(scoring, "t")
    samples = []
    for texts in rows:
        instance = Instance("t", len(samples), (), draws=len(texts), gold="5")
        samples += scorer.score(Document("t", len(samples), {}), instance, [Text(text) for text in texts])
    return {result.metric: result.estimate for result in aggregate_task(scoring, samples, 1000)}


def test_the_error_is_that_over_documents() -> None:
    rows = [["#### 5", "#### 5"], ["#### 5", "#### 4"], ["#### 4", "#### 4"], ["#### 5", "#### 4"]]
    found = estimate(rows, spec("pass@1"))["pass@1"]
    # Document means 1, 1/2, 0, 1/2: mean 1/2, variance 1/6, standard error √(1/24).
    assert (found.value, found.n, found.stderr) == (0.5, 4, pytest.approx((1 / 24) ** 0.5))
    assert found.low < 0.5 < found.high


def test_documents_with_too_few_draws_are_left_out_of_n() -> None:
    rows = [["#### 5", "#### 4"], ["#### 5"]]
    found = estimate(rows, MetricSpec("pass@k", "mean", options={"k": [1, 2, 3]}))
    assert [(item.value, item.n) for item in found.values()] == [(0.75, 2), (1.0, 1), (None, 0)]
    assert (found["pass@3"].stderr, found["pass@3"].low) == (None, None)


def test_an_interval_of_shares_stays_between_0_and_1() -> None:
    rows = [["#### 5", "#### 4"], *[["#### 4", "#### 4"]] * 9]
    found = estimate(rows, spec("mean@2"))["mean@2"]
    # Mean 0.05 with standard error 0.05: Student's interval would begin below 0. As of .05 · .95/.05² = 19 outcomes.
    assert (found.value, found.stderr, found.method) == (0.05, pytest.approx(0.05), "wilson-t")
    scale = 1 + 2.262157**2 / 19
    reach = 2.262157 * math.sqrt(0.05 * 0.95 / 19 + 2.262157**2 / (4 * 19**2)) / scale
    centre = (0.05 + 2.262157**2 / 38) / scale
    assert (found.low, found.high) == pytest.approx((centre - reach, centre + reach), abs=1e-6)
    assert centre - reach > 0
