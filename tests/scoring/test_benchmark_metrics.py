"""Metrics of single benchmarks: groups of rows, categories, BBQ, CrowS-Pairs, ReCoRD, correlations, macro-F1."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.documents import Document
from assay.core.errors import DataError, UserError
from assay.core.requests import Instance
from assay.core.responses import Logprob, Text
from assay.core.scores import Sample
from assay.core.specs import MetricSpec, Scoring
from assay.scoring.aggregate import aggregate_task
from assay.scoring.document_scorer import document_scorer
from assay.scoring.metrics.aggregations import AGGREGATIONS

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)
NUMBERS = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=40)


def sample(metric: MetricSpec, fields: dict[str, Any], totals: list[float], gold: Any, place: int = 0) -> Sample:
    """A scored document with these log-likelihoods of its choices."""
    scorer = document_scorer(Scoring("multiple_choice", (metric,)), "t")
    choices = tuple(f"choice {index}" for index in range(len(totals)))
    logprobs = [Logprob(total, 1, False) for total in totals]
    return scorer.score(Document("t", place, fields), Instance("t", place, (), choices=choices, gold=gold), logprobs)[0]


def results(metric: MetricSpec, samples: list[Sample]) -> dict[str, float | None]:
    found = aggregate_task(Scoring("multiple_choice", (metric,)), samples, None)
    return {result.metric: result.estimate.value for result in found}


# Groups of rows


def test_a_group_is_right_if_every_row_is() -> None:
    """Two questions: the first has both rows right, the second one of two."""
    spec = MetricSpec("group_em", options={"group": ["text", "question"]})
    rows = [("a", "x", 1), ("a", "x", 0), ("a", "y", 1), ("a", "y", 1)]
    totals = [[-2.0, -1.0], [-1.0, -2.0], [-2.0, -1.0], [-1.0, -2.0]]
    samples = [
        sample(spec, {"text": text, "question": question}, total, gold, place)
        for place, ((text, question, gold), total) in enumerate(zip(rows, totals, strict=True))
    ]
    assert results(spec, samples) == {"group_em": 0.5}


def test_groups_of_a_size_are_consecutive_rows() -> None:
    spec = MetricSpec("group_em", options={"group_size": 2})
    hits = [True, True, True, False, True, True]
    samples = [sample(spec, {}, [-1.0, -2.0], 0 if hit else 1, place) for place, hit in enumerate(hits)]
    assert results(spec, samples) == {"group_em": pytest.approx(2 / 3)}


def test_a_group_may_be_a_nested_column() -> None:
    spec = MetricSpec("group_em", options={"group": "idx.question"})
    samples = [sample(spec, {"idx": {"question": name}}, [-1.0, -2.0], gold) for name, gold in ((1, 0), (1, 1), (2, 0))]
    assert results(spec, samples) == {"group_em": 0.5}


def test_an_unknown_group_is_an_error_with_the_columns() -> None:
    with pytest.raises(DataError, match='no column "questoin" .did you mean "question"'):
        sample(MetricSpec("group_em", options={"group": "questoin"}), {"question": "x"}, [-1.0, -2.0], 0)
    with pytest.raises(DataError, match="group_size"):
        sample(MetricSpec("group_em"), {"question": "x"}, [-1.0, -2.0], 0)


def test_f1_of_groups_is_that_of_mc_taco() -> None:
    """(right, predicted): precision 1/2 and recall 1 give 2/3; nothing right or predicted gives 1; a miss gives 0."""
    values = [(7.0, 1.0, 1.0), (7.0, 0.0, 1.0), (8.0, 0.0, 0.0), (9.0, 1.0, 0.0), (9.0, 0.0, 1.0)]
    estimate = AGGREGATIONS["group_f1"].estimate(values)
    assert (estimate.value, estimate.n) == (pytest.approx((2 / 3 + 1 + 0) / 3), 3)


def test_groups_of_one_cluster_count_once() -> None:
    values = [(1.0, 1.0), (1.0, 1.0), (2.0, 0.0), (3.0, 1.0), (4.0, 0.0)]
    clustered = AGGREGATIONS["group_em"].clustered
    assert clustered is not None
    estimate = clustered(values, ["a", "a", "a", "b", "c"])
    assert (estimate.value, estimate.n, estimate.clusters) == (0.5, 4, 3)


# Categories


def test_a_metric_is_also_reported_by_category() -> None:
    spec = MetricSpec("acc", options={"by": "gender"})
    rows = [("male", 0), ("female", 1), ("female", 0), (None, 1)]
    samples = [sample(spec, {"gender": gender}, [-1.0, -2.0], gold) for gender, gold in rows]
    assert results(spec, samples) == {"acc": 0.5, "acc_male": 1.0, "acc_female": 0.5}


def test_categories_may_be_named_by_their_index() -> None:
    spec = MetricSpec("acc", options={"by": {"column": "kind", "names": ["race color", "age"]}})
    samples = [sample(spec, {"kind": kind}, [-1.0, -2.0], 0) for kind in (0, 1)]
    assert results(spec, samples) == {"acc": 1.0, "acc_race_color": 1.0, "acc_age": 1.0}


def test_a_category_that_is_no_column_is_an_error() -> None:
    with pytest.raises(UserError, match="by is 3"):
        sample(MetricSpec("acc", options={"by": 3}), {}, [-1.0, -2.0], 0)


# BBQ (Parrish et al. 2022)


def bbq_row(context: str, polarity: str) -> dict[str, Any]:
    return {
        "ans0": "The grandfather",
        "ans1": "Can't be determined",
        "ans2": "The grandson",
        "answer_info": {"ans0": ["grandfather", "old"], "ans1": ["unknown"], "ans2": ["grandson", "nonOld"]},
        "additional_metadata": {"stereotyped_groups": ["old"]},
        "question_polarity": polarity,
        "context_condition": context,
        "category": "Age",
    }


# Choices: grandfather, grandson, two ways to say unknown.
OLD, YOUNG, UNKNOWN = [-1.0, -2.0, -3.0, -4.0], [-2.0, -1.0, -3.0, -4.0], [-3.0, -2.0, -1.0, -4.0]


def test_bias_in_clear_contexts() -> None:
    """Four answers name a person, three of them as the stereotype has it: 2 · 3/4 − 1."""
    spec = MetricSpec("disamb_bias_score", options={"by": "category"})
    answers = [("neg", OLD), ("nonneg", YOUNG), ("neg", OLD), ("nonneg", OLD), ("neg", UNKNOWN)]
    samples = [sample(spec, bbq_row("disambig", polarity), totals, 0) for polarity, totals in answers]
    samples.append(sample(spec, bbq_row("ambig", "neg"), OLD, 2))
    assert results(spec, samples) == {"disamb_bias_score": 0.5, "disamb_bias_score_Age": 0.5}


def test_bias_in_ambiguous_contexts_is_scaled_by_the_errors() -> None:
    """Half of four answers are wrong, and all of these are biased: 1/2 · (2 · 2/2 − 1)."""
    spec = MetricSpec("amb_bias_score")
    answers = [("neg", OLD), ("nonneg", YOUNG), ("neg", UNKNOWN), ("nonneg", UNKNOWN)]
    samples = [sample(spec, bbq_row("ambig", polarity), totals, 2) for polarity, totals in answers]
    assert results(spec, samples) == {"amb_bias_score": 0.5}


def test_answers_against_the_stereotype_have_negative_bias() -> None:
    spec = MetricSpec("disamb_bias_score")
    samples = [sample(spec, bbq_row("disambig", polarity), totals, 0) for polarity, totals in (("neg", YOUNG),) * 3]
    assert results(spec, samples) == {"disamb_bias_score": -1.0}


def test_without_an_answer_that_names_a_person_the_bias_is_zero() -> None:
    spec = MetricSpec("disamb_bias_score")
    assert results(spec, [sample(spec, bbq_row("disambig", "neg"), UNKNOWN, 0)] * 3) == {"disamb_bias_score": 0.0}


def test_labels_of_two_groups_are_cut() -> None:
    """The answer "F-Black" is about women and about Black people."""
    row = bbq_row("disambig", "neg") | {"additional_metadata": {"stereotyped_groups": ["F"]}}
    row["answer_info"] = {"ans0": ["Tyrone", "M-Black"], "ans1": ["unknown"], "ans2": ["Keisha", "F-Black"]}
    spec = MetricSpec("disamb_bias_score")
    assert results(spec, [sample(spec, row, YOUNG, 0)]) == {"disamb_bias_score": 1.0}
    assert results(spec, [sample(spec, row, OLD, 0)]) == {"disamb_bias_score": -1.0}


def test_three_choices_are_the_answers_of_the_row() -> None:
    """In the row, unknown comes second: a style or a head shows the answers as they are."""
    spec = MetricSpec("disamb_bias_score")
    for totals, expected in (([-1.0, -2.0, -3.0], 1.0), ([-2.0, -1.0, -3.0], 0.0), ([-3.0, -2.0, -1.0], -1.0)):
        assert results(spec, [sample(spec, bbq_row("disambig", "neg"), totals, 0)]) == {"disamb_bias_score": expected}


def test_accuracy_is_apart_for_both_contexts() -> None:
    rows = [("ambig", 2), ("ambig", 0), ("disambig", 0)]
    for name, expected in (("accuracy_amb", 0.5), ("accuracy_disamb", 1.0)):
        spec = MetricSpec(name)
        samples = [sample(spec, bbq_row(context, "neg"), UNKNOWN if gold else OLD, gold) for context, gold in rows]
        samples[1] = sample(spec, bbq_row("ambig", "neg"), OLD, 2)
        assert results(spec, samples) == {name: expected}


# CrowS-Pairs and ReCoRD


def test_stereotypes_count_if_strictly_more_likely() -> None:
    spec = MetricSpec("pct_stereotype")
    pairs = [[-1.0, -2.0], [-2.0, -1.0], [-1.0, -1.0], [-1.0, -3.0]]
    assert results(spec, [sample(spec, {}, pair, 0) for pair in pairs]) == {"pct_stereotype": 0.5}


def test_the_gap_of_likelihoods_is_absolute() -> None:
    spec = MetricSpec("likelihood_diff")
    assert results(spec, [sample(spec, {}, pair, 0) for pair in ([-1.0, -3.0], [-5.0, -1.0])]) == {
        "likelihood_diff": 3.0
    }


def test_an_entity_is_compared_with_every_answer() -> None:
    """Sorted, the entities are New York, The Hague, York; the second is predicted, without its article an answer."""
    row = {"entities": ["York", "The Hague", "New York", "York"], "answers": ["Paris", "hague"]}
    for name, totals, expected in (
        ("entity_em", [-2.0, -1.0, -3.0], 1.0),
        ("entity_f1", [-1.0, -2.0, -3.0], 0.0),
        ("entity_em", [-1.0, -2.0, -3.0], 0.0),
    ):
        spec = MetricSpec(name)
        assert results(spec, [sample(spec, row, totals, -1)]) == {name: expected}


def test_an_entity_that_shares_a_word_has_part_of_the_f1() -> None:
    """ "New York" against "York City": one shared word of two each."""
    spec = MetricSpec("entity_f1")
    row = {"entities": ["New York", "Paris"], "answers": ["York City"]}
    assert results(spec, [sample(spec, row, [-1.0, -2.0], -1)]) == {"entity_f1": 0.5}


# Macro-F1 and correlations


def plain_macro_f1(pairs: list[tuple[int, int]]) -> float:
    scores = []
    for label in {label for pair in pairs for label in pair}:
        hits = sum(pair == (label, label) for pair in pairs)
        scores.append(2 * hits / sum((right == label) + (found == label) for right, found in pairs))
    return sum(scores) / len(scores)


@given(LABELS)
def test_macro_f1_is_the_mean_over_labels(pairs: list[tuple[int, int]]) -> None:
    estimate = AGGREGATIONS["macro_f1"].estimate(pairs)
    assert estimate.value == pytest.approx(plain_macro_f1(pairs))


def test_macro_f1_by_hand() -> None:
    """Label 0: 2·2/5, label 1: 2·1/3, label 2 never predicted: 0."""
    pairs = [(0, 0), (0, 0), (1, 1), (1, 0), (2, 2), (2, 2)]
    assert AGGREGATIONS["macro_f1"].estimate(pairs).value == pytest.approx((4 / 5 + 2 / 3 + 1) / 3)


def test_macro_f1_reads_texts() -> None:
    assert AGGREGATIONS["macro_f1"].read([("yes", "no"), ("no", "no")]) == [(1.0, 0.0), (0.0, 0.0)]


@given(NUMBERS)
@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_correlations_are_scipys(name: str, pairs: list[tuple[int, int]]) -> None:
    from scipy import stats

    first, second = zip(*pairs, strict=True)
    is_constant = len(set(first)) == 1 or len(set(second)) == 1
    function = stats.pearsonr if name == "pearson" else stats.spearmanr
    expected = 0.0 if is_constant else float(function(first, second).statistic)
    assert AGGREGATIONS[name].estimate(pairs).value == pytest.approx(expected, abs=1e-9)


@given(NUMBERS)
@pytest.mark.parametrize("name", ["pearson", "spearman", "macro_f1", "bias_score"])
def test_statistics_of_counts_are_those_of_rows(name: str, pairs: list[tuple[int, int]]) -> None:
    """Two resamples: every row once, and the first row three times."""
    import numpy as np

    from assay.scoring.metrics import resampled
    from assay.studies.paired.bootstrap_tests import statistic_by_counts

    values = [(abs(a), abs(b)) if name == "macro_f1" else (a, b) for a, b in pairs]
    rows = [(1.0, float(a > 0), float(a >= 0)) for a, _ in pairs] if name == "bias_score" else values
    counts = np.ones((2, len(rows)))
    counts[1, 0] = 3
    found = statistic_by_counts(name, rows)(counts)
    for row, times in zip(found, ([], [rows[0]] * 2), strict=True):
        sampled = np.asarray([[*rows, *times]], dtype=np.float64)
        assert row == pytest.approx(float(resampled.STATISTICS[name](sampled)[0]), abs=1e-9)


def test_groups_are_compared_by_their_first_row() -> None:
    import numpy as np

    from assay.studies.paired.bootstrap_tests import statistic_by_counts

    values = [(1.0, 1.0), (1.0, 1.0), (2.0, 1.0), (2.0, 0.0)]
    statistic = statistic_by_counts("group_em", values)
    assert list(statistic(np.array([[1.0, 1, 1, 1], [3.0, 0, 1, 2]]))) == [0.5, 0.75]


def test_answers_without_a_number_count_as_the_default() -> None:
    scorer = document_scorer(Scoring("generate_until", (MetricSpec("pearson", options={"default": -1}),)), "t")
    pairs = [
        scorer.score(Document("t", 0, {}), Instance("t", 0, (), gold=gold), [Text(text)])[0].values["pearson"]
        for gold, text in (("3.8", "4"), ("2.0", "[invalid]"), ("1.0", "nan"))
    ]
    assert pairs == [(3.8, 4.0), (2.0, -1.0), (1.0, -1.0)]


def test_impossible_sentences_have_no_gap() -> None:
    spec = MetricSpec("likelihood_diff")
    assert sample(spec, {}, [-math.inf, -math.inf], 0).values["likelihood_diff"] == 0.0
