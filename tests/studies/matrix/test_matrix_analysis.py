"""What cells say, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from assay.core.scores import Estimate
from assay.stats import paired
from assay.stats.correlation import Correlation
from assay.stats.ranking import Average
from assay.studies.matrix.matrix_analysis import make_matrix
from assay.studies.matrix.matrix_values import Matrix, MatrixCell, MissingCell


def cell(model: str, task: str, values: Sequence[float], asked: str = "d", baseline: float | None = 0.5) -> MatrixCell:
    value = sum(values) / len(values)
    estimate = Estimate(value, 0.1, value - 0.2, value + 0.2, len(values), "wilson")
    documents = tuple(f"{task}#{place}" for place in range(len(values)))
    return MatrixCell(model, task, "acc", "none", estimate, True, baseline, asked, documents, tuple(values))


def perplexity(model: str, value: float) -> MatrixCell:
    return MatrixCell(model, "text", "perplexity", "none", Estimate(value, None, None, None, 9, "delta"), False)


def made(*cells: MatrixCell, gaps: Sequence[MissingCell] = ()) -> Matrix:
    models = list(dict.fromkeys(item.model for item in cells))
    return make_matrix(models, list(dict.fromkeys(item.task for item in cells)), cells, gaps, (), (), seed=1)


def ranks(matrix: Matrix, place: int = 0) -> dict[str, str]:
    return {model: found.text for model, found in matrix.rankings[place].ranks.items()}


def test_relative_improvement_with_the_number_of_classes() -> None:
    """0.6 on three classes: (0.6 − 1/3)/(1/3) = 0.8, and (0.6 − 1/3)/(2/3) = 0.4."""
    found = cell("a", "t", [1, 1, 1, 0, 0], baseline=1 / 3)
    assert (found.relative, found.bounded) == (pytest.approx(0.8), pytest.approx(0.4))


def test_no_baseline_no_improvement() -> None:
    none, zero, one = (cell("a", "t", [1.0], baseline=b) for b in (None, 0.0, 1.0))
    assert (none.relative, none.bounded) == (None, None)
    assert (zero.relative, zero.bounded) == (None, 1.0)
    assert (one.relative, one.bounded) == (0.0, None)


def test_standings_by_hand() -> None:
    """Scores 0.75 and 0.25, so 0.5 in the mean whatever the sizes, with an error of √(0.1² + 0.1²)/2; the perplexity
    counts for wins only: b wins x, ties y, and loses the perplexity."""
    cells = [cell("a", "x", [1, 1, 1, 0]), cell("b", "x", [1, 1, 1, 1])]
    cells += [cell("a", "y", [1, 1, *[0] * 6], baseline=None), cell("b", "y", [0, 1, 1, *[0] * 5], baseline=None)]
    a, b = made(*cells, perplexity("a", 10.0), perplexity("b", 20.0)).standings
    assert (a.score.value, a.score.stderr, a.score_tasks) == (0.5, pytest.approx(0.0707107), ("x", "y"))
    assert (a.relative, a.bounded) == (Average(0.5, ("x",)), Average(0.5, ("x",)))
    assert (a.win_rate, b.win_rate) == (Average(0.5, ("x", "y", "text")), Average(0.5, ("x", "y", "text")))


def test_models_share_a_rank_until_the_data_separates_them() -> None:
    """Six wins without a loss: p = 2/64, the smallest of three, so 6/64 after Holm; nine: 2/512, so 6/512."""
    six = made(cell("a", "x", [1] * 6), cell("b", "x", [1] * 6), cell("c", "x", [0] * 6))
    nine = made(cell("a", "x", [1] * 9), cell("b", "x", [1] * 9), cell("c", "x", [0] * 9))
    assert ranks(six) == {"a": "1–3", "b": "1–3", "c": "1–3"}
    assert [item.adjusted for item in six.rankings[0].comparisons] == [
        1.0,
        pytest.approx(6 / 64),
        pytest.approx(6 / 64),
    ]
    assert ranks(nine) == {"a": "1–2", "b": "1–2", "c": "3"}
    assert nine.rankings[0].letters == {"a": "a", "b": "a", "c": "b"}


def test_less_is_better_where_the_column_says_so() -> None:
    low, high = (
        MatrixCell(
            name,
            "t",
            "error",
            "none",
            Estimate(v, None, None, None, 9, "t"),
            False,
            None,
            "d",
            tuple("abcdefghi"),
            (v,) * 9,
        )
        for name, v in (("low", 0.0), ("high", 1.0))
    )
    matrix = made(high, low)
    assert ranks(matrix) == {"low": "1", "high": "2"}
    assert [item.win_rate.value for item in matrix.standings] == [0.0, 1.0]


@given(st.lists(st.lists(st.booleans(), min_size=30, max_size=30), min_size=2, max_size=5))
def test_ranks_of_models_that_no_test_separates_overlap(rows: list[list[bool]]) -> None:
    """In the columns and over all of them; and a model with the first rank alone beats every other."""
    cells = [cell(f"m{row}", task, list(map(float, values))) for row, values in enumerate(rows) for task in "xy"]
    for ranking in made(*cells).rankings:
        for item in ranking.comparisons:
            one, other = ranking.ranks[item.first], ranking.ranks[item.second]
            is_told_apart = item.adjusted < 0.05 and bool(item.difference)
            assert is_told_apart or one.overlaps(other)
            assert is_told_apart is not bool(set(ranking.letters[item.first]) & set(ranking.letters[item.second]))


def clustered(model: str, task: str, values: Sequence[float], size: int = 2) -> MatrixCell:
    names = tuple(f"{task} {place // size}" for place in range(len(values)))
    return replace(cell(model, task, values), clusters=names)


def test_whole_clusters_are_flipped() -> None:
    """Ten wins without a loss, two in each of five clusters: 2/2^5, not 2/2^10. The interval is that of clusters."""
    alone = made(cell("a", "x", [1] * 10), cell("b", "x", [0] * 10)).rankings[0]
    both = made(clustered("a", "x", [1] * 10), clustered("b", "x", [0] * 10)).rankings[0]
    assert (alone.comparisons[0].p, alone.comparisons[0].test) == (pytest.approx(2 / 2**10), "mcnemar")
    found = both.comparisons[0]
    assert (found.p, found.test, found.n, found.clusters) == (pytest.approx(2 / 2**5), "cluster-sign-flip", 10, 5)


def test_clusters_count_over_all_columns_too() -> None:
    """Two columns of five clusters each: 2/2^10. Without clusters it would be 2/2^20."""
    cells = [clustered(model, task, [float(model == "a")] * 10) for model in "ab" for task in "xy"]
    found = made(*cells).rankings[-1].comparisons[0]
    assert (found.p, found.test) == (pytest.approx(2 / 2**10), "cluster-sign-flip")
    assert (found.difference, found.clusters) == (1.0, 10)


def test_a_comparison_is_that_of_assay_compare() -> None:
    """First less second, with the interval turned round."""
    one, other = [1.0] * 7 + [0.0] * 3, [1.0] * 2 + [0.0] * 7 + [1.0]
    found = made(cell("a", "x", one), cell("b", "x", other)).rankings[0].comparisons[0]
    assert (found.difference, found.p) == (pytest.approx(0.4), pytest.approx(paired.mcnemar_p(5, 1)))
    assert (found.low, found.high) == pytest.approx(paired.outcome_interval(5, 1, 10))


def test_other_documents_are_not_compared() -> None:
    assert made(cell("a", "x", [1] * 9), cell("b", "x", [0] * 9, asked="others")).rankings == ()


def test_the_overall_rank_counts_every_column_once() -> None:
    cells = [cell("a", "x", [1] * 5), cell("b", "x", [0] * 5), cell("a", "y", [1] * 5), cell("b", "y", [0] * 5)]
    matrix = made(*cells)
    overall = matrix.rankings[-1]
    assert [ranks(matrix, place) for place in (0, 1, 2)] == [{"a": "1–2", "b": "1–2"}] * 2 + [{"a": "1", "b": "2"}]
    assert (overall.task, overall.comparisons[0].difference) == (None, 1.0)
    assert overall.comparisons[0].p == pytest.approx(2 / 2**10)


def test_a_model_with_a_gap_has_no_overall_rank() -> None:
    cells = [cell(model, "x", [1, 0]) for model in "abc"] + [cell(model, "y", [1, 0]) for model in "ab"]
    overall = made(*cells, gaps=[MissingCell("c", "y", "no")]).rankings[-1]
    assert (overall.task, set(overall.ranks)) == (None, {"a", "b"})


def other(cell: MatrixCell, metric: str, filter: str = "none") -> MatrixCell:
    return replace(cell, metric=metric, filter=filter)


def test_a_column_holds_one_metric_and_the_task_counts_once() -> None:
    """x is acc for a and b, mcc for c: two columns, of which averages, wins and links know the first."""
    cells = [cell("a", "x", [1, 1]), cell("b", "x", [1, 0]), other(cell("c", "x", [1, 1]), "mcc")]
    matrix = made(*cells, *(cell(model, "y", [1, 0]) for model in "abc"))
    assert [column.label for column in matrix.columns] == ["x (acc)", "x (mcc)", "y"]
    assert [column.is_main for column in matrix.columns] == [True, False, True]
    assert [item.score_tasks for item in matrix.standings] == [("x (acc)", "y"), ("x (acc)", "y"), ("y",)]
    assert [item.win_rate for item in matrix.standings] == [
        Average(0.75, ("x (acc)", "y")),
        Average(0.25, ("x (acc)", "y")),
        Average(0.5, ("y",)),
    ]
    assert {name for link in matrix.task_correlations for name in (link.first, link.second)} == {
        "x (acc)",
        "x (mcc)",
        "y",
    }
    assert {(item.first, item.second, item.spearman.n) for item in matrix.task_correlations} == {
        ("x (acc)", "x (mcc)", 0),
        ("x (acc)", "y", 2),
        ("x (mcc)", "y", 1),
    }


def test_another_pipeline_is_another_column() -> None:
    cells = [other(cell("a", "x", [1]), "acc", "strict"), cell("b", "x", [0])]
    assert [column.label for column in made(*cells).columns] == ["x (acc, strict)", "x (acc)"]


def test_means_over_the_tasks_that_all_models_have() -> None:
    cells = [cell("a", "x", [1, 1]), cell("b", "x", [1, 0]), cell("a", "y", [0, 0])]
    matrix = made(*cells, gaps=[MissingCell("b", "y", "no")])
    assert matrix.common == ("x",)
    assert [(item.score.value, item.common.value) for item in matrix.standings] == [(0.5, 1.0), (0.5, 0.5)]


def test_a_model_without_any_score_takes_no_task_from_the_others() -> None:
    cells = [cell("a", "x", [1, 1]), cell("b", "x", [1, 0])]
    matrix = make_matrix("abc", ["x"], cells, [MissingCell("c", "x", "no")], (), (), seed=1)
    assert (matrix.common, matrix.standings[2].common.value) == (("x",), None)


def test_a_correlation_coefficient_is_not_a_share() -> None:
    """Two MCC between 0 and 1 are not percentages to be averaged with accuracies, whatever their values."""
    cells = [other(cell(model, "x", [1, 0]), "mcc") for model in "ab"] + [cell(model, "y", [1, 0]) for model in "ab"]
    matrix = made(*cells)
    assert [column.is_share for column in matrix.columns] == [False, True]
    assert matrix.standings[0].score_tasks == ("y",)


def test_a_score_over_other_documents_counts_nowhere() -> None:
    cells = [cell("a", "x", [1, 1]), cell("b", "x", [1, 0]), cell("c", "x", [0, 0], asked="others")]
    matrix = made(*cells)
    assert [item.win_rate.value for item in matrix.standings] == [1.0, 0.0, None]
    assert [set(ranking.ranks) for ranking in matrix.rankings] == [{"a", "b"}]
    (message,) = matrix.notices
    assert message.startswith("x: c answered different documents than the other models")


def test_correlations_between_columns_are_those_of_scipy() -> None:
    scores = {"a": (0.25, 30.0), "b": (0.5, 10.0), "c": (0.75, 20.0), "d": (1.0, 5.0)}
    cells = [cell(model, "x", [1] * int(4 * acc) + [0] * int(4 - 4 * acc)) for model, (acc, _) in scores.items()]
    (link,) = made(*cells, *(perplexity(model, value) for model, (_, value) in scores.items())).task_correlations
    expected = scipy.stats.spearmanr([0.25, 0.5, 0.75, 1.0], [-30.0, -10.0, -20.0, -5.0]).statistic
    assert (link.first, link.second, link.spearman.n) == ("x", "text", 4)
    assert link.spearman.value == pytest.approx(expected)
    assert link.kendall.value == pytest.approx(4 / 6)


def test_correlations_between_models_are_over_columns() -> None:
    cells = [cell("a", task, [1] * n + [0] * (4 - n)) for task, n in zip("xyz", (1, 2, 3), strict=True)]
    cells += [cell("b", task, [1] * n + [0] * (4 - n)) for task, n in zip("xyz", (2, 1, 0), strict=True)]
    (link,) = made(*cells, perplexity("a", 3.0), perplexity("b", 4.0)).model_correlations
    assert (link.first, link.second, link.spearman.value, link.spearman.n) == ("a", "b", pytest.approx(-1.0), 3)
    assert link.spearman_adjusted == pytest.approx(2 / 6)


def test_two_models_have_no_correlation() -> None:
    """Two points are always on a line: only n is reported."""
    cells = [cell(model, task, [1] * n + [0] * (4 - n)) for model, n in (("a", 1), ("b", 3)) for task in "xy"]
    (link,) = made(*cells).task_correlations
    assert (link.spearman, link.kendall) == (Correlation(None, None, 2, "none"),) * 2
    assert (link.spearman_adjusted, link.kendall_adjusted) == (None, None)


def test_models_of_equal_score_share_their_rank_in_correlations() -> None:
    """x: 1, 2, 2, 3; y: 1, 2, 3, 4. Five of six pairs in the same order, one tied in x: τ-b = 5/√(5·6)."""
    scores = {"a": (1, 1), "b": (2, 2), "c": (2, 3), "d": (3, 4)}
    cells = [cell(m, t, [1] * n + [0] * (4 - n)) for m, own in scores.items() for t, n in zip("xy", own, strict=True)]
    (link,) = made(*cells).task_correlations
    assert (link.kendall.value, link.kendall.n) == (pytest.approx(5 / 30**0.5), 4)
    # Mean ranks 1, 2.5, 2.5, 4 against 1 to 4: Pearson's r.
    assert link.spearman.value == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    # Of 24 orders, two keep both sides' order and two turn it round.
    assert (link.kendall.p, link.kendall.method) == (pytest.approx(4 / 24), "permutation")


def test_a_task_on_which_all_are_equal_has_no_correlation() -> None:
    cells = [cell(model, "x", [1, 0]) for model in "abc"] + [
        cell(m, "y", [1] * n + [0] * (2 - n)) for n, m in enumerate("abc")
    ]
    (link,) = made(*cells).task_correlations
    assert (link.spearman.value, link.spearman.p, link.spearman.n) == (None, None, 3)


def test_a_document_that_failed_in_one_variant_does_not_shift_the_others() -> None:
    """The last of four failed in one way, the first in the other: four signs turn, 2/2^4, each with its document."""

    def asked(model: str, task: str, first: int) -> MatrixCell:
        documents = tuple(f"t#{place}" for place in range(first, first + 3))
        return replace(cell(model, task, [float(model == "a")] * 3), documents=documents)

    cells = [asked(model, task, first) for task, first in (("t@one", 0), ("t@two", 1)) for model in "ab"]
    found = made(*cells).rankings[-1].comparisons[0]
    assert (found.p, found.n) == (pytest.approx(2 / 2**4), 4)


def test_correlations_are_corrected_over_all_links() -> None:
    """Four models in the order of x and y: 2/24, three times that by Holm. z: ρ = 0.8, 8 of 24."""
    scores = {"x": (1, 2, 3, 4), "y": (1, 2, 3, 4), "z": (1, 3, 2, 4)}
    cells = [cell(m, t, [1] * n + [0] * (5 - n)) for t, own in scores.items() for m, n in zip("abcd", own, strict=True)]
    links = made(*cells).task_correlations
    assert [link.spearman.p for link in links] == pytest.approx([2 / 24, 8 / 24, 8 / 24])
    assert [link.spearman_adjusted for link in links] == pytest.approx([6 / 24, 16 / 24, 16 / 24])
    assert [link.kendall_adjusted for link in links] == pytest.approx([6 / 24, 16 / 24, 16 / 24])


def test_very_many_columns_have_no_correlations_and_a_notice() -> None:
    tasks = [f"t{place}" for place in range(101)]
    cells = [cell(model, task, [1, n]) for task in tasks for model, n in (("a", 0), ("b", 1))]
    whole, part = made(*cells), made(*cells[:-2])
    assert (whole.task_correlations, len(part.task_correlations), part.notices) == ((), 100 * 99 // 2, ())
    assert whole.notices == ("no correlations between tasks: computed for at most 100, and there are 101",)
    assert len(whole.model_correlations) == 1
