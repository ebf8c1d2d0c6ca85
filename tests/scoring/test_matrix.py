"""What cells say, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import scipy.stats

from assay.core.matrices import Gap, Matrix, MatrixCell, WinRate
from assay.core.scores import Estimate
from assay.scoring.matrix import make_matrix


def cell(model: str, task: str, values: Sequence[float], asked: str = "d", baseline: float | None = 0.5) -> MatrixCell:
    value = sum(values) / len(values)
    estimate = Estimate(value, 0.1, value - 0.2, value + 0.2, len(values), "wilson")
    documents = tuple(f"{task}#{place}" for place in range(len(values)))
    return MatrixCell(model, task, "acc", "none", estimate, True, baseline, asked, documents, tuple(values))


def perplexity(model: str, value: float) -> MatrixCell:
    return MatrixCell(model, "text", "perplexity", "none", Estimate(value, None, None, None, 9, "delta"), False)


def made(*cells: MatrixCell, gaps: Sequence[Gap] = ()) -> Matrix:
    models = list(dict.fromkeys(item.model for item in cells))
    return make_matrix(models, list(dict.fromkeys(item.task for item in cells)), cells, gaps, (), (), seed=1)


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
    assert (a.score.value, a.score.stderr, a.score_columns) == (0.5, pytest.approx(0.0707107), 2)
    assert (a.relative, a.bounded, a.baseline_columns) == (0.5, 0.5, 1)
    assert (a.win_rate, b.win_rate) == (WinRate(0.5, 3), WinRate(0.5, 3))


def test_models_share_a_rank_until_the_data_tells_them_apart() -> None:
    """Six wins without a loss: p = 2/64, the smallest of three, so 6/64 after Holm; nine: 2/512, so 6/512."""
    six = made(cell("a", "x", [1] * 6), cell("b", "x", [1] * 6), cell("c", "x", [0] * 6))
    nine = made(cell("a", "x", [1] * 9), cell("b", "x", [1] * 9), cell("c", "x", [0] * 9))
    assert six.rankings[0].ranks == {"a": 1, "b": 1, "c": 1}
    assert [item.adjusted for item in six.rankings[0].comparisons] == [
        1.0,
        pytest.approx(6 / 64),
        pytest.approx(6 / 64),
    ]
    assert nine.rankings[0].ranks == {"a": 1, "b": 1, "c": 3}
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
    assert matrix.rankings[0].ranks == {"low": 1, "high": 2}
    assert [item.win_rate.value for item in matrix.standings] == [0.0, 1.0]


def test_other_documents_are_not_compared() -> None:
    assert made(cell("a", "x", [1] * 9), cell("b", "x", [0] * 9, asked="others")).rankings == ()


def test_the_overall_rank_counts_every_column_once() -> None:
    cells = [cell("a", "x", [1] * 5), cell("b", "x", [0] * 5), cell("a", "y", [1] * 5), cell("b", "y", [0] * 5)]
    *columns, overall = made(*cells).rankings
    assert [ranking.ranks for ranking in columns] == [{"a": 1, "b": 1}] * 2
    assert (overall.task, overall.ranks) == (None, {"a": 1, "b": 2})
    assert overall.comparisons[0].p == pytest.approx(2 / 2**10)


def test_a_model_with_a_gap_has_no_overall_rank() -> None:
    cells = [cell(model, "x", [1, 0]) for model in "abc"] + [cell(model, "y", [1, 0]) for model in "ab"]
    overall = made(*cells, gaps=[Gap("c", "y", "no")]).rankings[-1]
    assert (overall.task, set(overall.ranks)) == (None, {"a", "b"})


def test_correlations_between_columns_are_those_of_scipy() -> None:
    scores = {"a": (0.25, 30.0), "b": (0.5, 10.0), "c": (0.75, 20.0), "d": (1.0, 5.0)}
    cells = [cell(model, "x", [1] * int(4 * acc) + [0] * int(4 - 4 * acc)) for model, (acc, _) in scores.items()]
    (link,) = made(*cells, *(perplexity(model, value) for model, (_, value) in scores.items())).task_links
    expected = scipy.stats.spearmanr([0.25, 0.5, 0.75, 1.0], [-30.0, -10.0, -20.0, -5.0]).statistic
    assert (link.first, link.second, link.spearman.n) == ("x", "text", 4)
    assert link.spearman.value == pytest.approx(expected)
    assert link.kendall.value == pytest.approx(4 / 6)


def test_correlations_between_models_are_over_columns() -> None:
    cells = [cell("a", task, [1] * n + [0] * (4 - n)) for task, n in zip("xyz", (1, 2, 3), strict=True)]
    cells += [cell("b", task, [1] * n + [0] * (4 - n)) for task, n in zip("xyz", (2, 1, 0), strict=True)]
    (link,) = made(*cells, perplexity("a", 3.0), perplexity("b", 4.0)).model_links
    assert (link.first, link.second, link.spearman.value, link.spearman.n) == ("a", "b", pytest.approx(-1.0), 3)
    assert link.spearman_adjusted == pytest.approx(2 / 6)
