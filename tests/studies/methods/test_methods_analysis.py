"""What the cells of a study say, on numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.stats.means import mean_estimate
from assay.studies.methods import methods_analysis as study
from assay.studies.methods.methods_values import NO_PREDICTION, ChoiceQuestion, MethodsCell


def cell(
    method: str, predictions: list[int], right: list[int], model: str = "m", style: str = "own", first: int = 0
) -> MethodsCell:
    hits = tuple(float(pick == place) for pick, place in zip(predictions, right, strict=True))
    documents = tuple(f"t#{first + number}" for number in range(len(predictions)))
    return MethodsCell(model, "t", style, method, mean_estimate(hits), documents, tuple(predictions), hits)


def questions(right: list[int], lengths: tuple[int, ...] = (3, 5, 9)) -> dict[str, ChoiceQuestion]:
    return {f"t#{number}": ChoiceQuestion((place,), lengths) for number, place in enumerate(right)}


RIGHT = [0, 1, 2, 0]


def test_the_spread_is_highest_minus_lowest() -> None:
    cells = [cell("raw", [0, 1, 2, 1], RIGHT), cell("byte", [0, 0, 0, 1], RIGHT)]
    (found,) = study.spreads(cells, 1)
    assert (found.delta, found.lowest, found.highest, found.n) == (0.5, "byte@own", "raw@own", 4)


def test_cochrans_q_of_a_spread_by_hand() -> None:
    # Rights per method 3, 2, 0 (T = 5); per document 2, 2, 1, 0 (squares 9). Q = 2·(3·13 − 25)/(3·5 − 9) = 14/3,
    # whose upper tail under chi-square with 2 degrees is exp(−Q/2).
    cells = [cell("a", [0, 1, 2, 1], RIGHT), cell("b", [0, 1, 1, 1], RIGHT), cell("c", [1, 0, 1, 1], RIGHT)]
    (found,) = study.spreads(cells, 1)
    assert found.p == pytest.approx(2.718281828459045 ** (-7 / 3))


def test_a_spread_is_next_to_what_sampling_alone_gives() -> None:
    """Three methods that guess on 60 documents: nothing to find, and the spread that there is stays within chance."""
    right = [place % 4 for place in range(60)]
    cells = [cell(f"m{step}", [place * step // 7 % 4 for place in range(60)], right) for step in (3, 5, 9)]
    (found,) = study.spreads(cells, 1)
    assert found.chance is not None
    assert 0 < found.chance.expected < found.chance.reach
    assert 0 < found.delta < found.chance.reach


def test_clusters_widen_what_sampling_alone_gives() -> None:
    right = [0] * 60
    alone = [cell("a", [int(place < 30) for place in range(60)], right), cell("b", [0] * 60, right)]
    names = tuple(f"c{place // 5}" for place in range(60))
    (one,), (other,) = study.spreads(alone, 1), study.spreads([replace(own, clusters=names) for own in alone], 1)
    assert one.chance is not None and other.chance is not None
    assert other.chance.reach > 1.8 * one.chance.reach  # about √5


def test_several_styles_have_a_spread_each_and_one_over_all() -> None:
    cells = [
        cell("raw", [0, 1, 2, 0], RIGHT),
        cell("byte", [0, 1, 2, 1], RIGHT),
        cell("raw", [1, 0, 0, 1], RIGHT, style="letters"),
        cell("byte", [0, 0, 0, 1], RIGHT, style="letters"),
    ]
    found = {item.style: (item.delta, item.lowest, item.highest) for item in study.spreads(cells, 1)}
    assert found == {
        "own": (0.25, "byte@own", "raw@own"),
        "letters": (0.25, "raw@letters", "byte@letters"),
        None: (1.0, "raw@letters", "raw@own"),
    }


def test_a_mean_over_orders_has_a_spread_without_a_test() -> None:
    rotated = MethodsCell("m", "t", "own", "raw", mean_estimate([0.5]), ("t#0",), (0,), (0.5,))
    (found,) = study.spreads([rotated, cell("byte", [0], [0])], 1)
    assert (found.delta, found.p) == (0.5, None)


def test_changed_documents_and_pairs_of_methods() -> None:
    cells = [
        cell("raw", [0, 1, 2, 1], RIGHT),
        cell("byte", [0, 0, 2, 1], RIGHT),
        cell("token", [0, 0, 1, 1], RIGHT),
    ]
    (found,) = study.changes(cells, questions(RIGHT))
    assert [(change.document, dict(change.predictions), change.right) for change in found.changes] == [
        ("t#1", {"raw": 1, "byte": 0, "token": 0}, (1,)),
        ("t#2", {"raw": 2, "byte": 2, "token": 1}, (2,)),
    ]
    assert found.pairs == {("raw", "byte"): 1, ("raw", "token"): 2, ("byte", "token"): 1}
    assert found.n == 4


def test_documents_that_only_one_cell_has_do_not_count_as_changed() -> None:
    (found,) = study.changes([cell("raw", [0, 1], [0, 0]), cell("byte", [0, 1], [0, 0], first=1)], questions([0, 0, 0]))
    assert found.n == 1
    assert [change.document for change in found.changes] == ["t#1"]


def test_two_models_are_compared_on_the_documents_both_have() -> None:
    right = [0] * 12
    strong, weak = cell("raw", [0] * 12, right, "strong"), cell("raw", [0, 0] + [1] * 8, [0] * 10, "weak")
    (found,) = study.comparisons([strong, weak], 0)
    # Eight documents only the first has right, none the other way: two-sided p = 2 · 0.5⁸.
    assert (found.first, found.second, found.n, found.test) == ("strong", "weak", 10, "mcnemar")
    assert found.difference == pytest.approx(0.8)
    assert found.p == found.adjusted == pytest.approx(2 * 0.5**8)


def test_p_values_are_corrected_over_all_comparisons() -> None:
    right = [0] * 10
    cells = [
        cell(method, predictions, right, model)
        for method in ("raw", "byte")
        for model, predictions in (("a", [0] * 10), ("b", [1] * 10))
    ]
    found = study.comparisons(cells, 0)
    assert [item.p for item in found] == pytest.approx([2 * 0.5**10] * 2)
    assert [item.adjusted for item in found] == pytest.approx([4 * 0.5**10] * 2)


def models_that_swap(size: int) -> list[MethodsCell]:
    right, wrong = [0] * size, [1] * size
    return [
        cell("raw", right, right, "a"),
        cell("raw", wrong, right, "b"),
        cell("byte", wrong, right, "a"),
        cell("byte", right, right, "b"),
    ]


def test_a_changed_ranking_is_proven_or_not() -> None:
    (sure,) = study.rank_changes(study.comparisons(models_that_swap(10), 0))
    (unsure,) = study.rank_changes(study.comparisons(models_that_swap(3), 0))
    assert (sure.one.cell, sure.other.cell, sure.is_proven) == ("raw@own", "byte@own", True)
    assert not unsure.is_proven


def test_models_in_one_order_change_no_ranking() -> None:
    right = [0] * 4
    cells = [cell(method, [0] * 4, right, "a") for method in ("raw", "byte")]
    cells += [cell(method, [1] * 4, right, "b") for method in ("raw", "byte")]
    assert study.rank_changes(study.comparisons(cells, 0)) == ()


def test_lengths_where_a_method_errs() -> None:
    # Right choices of 3, 5, 9 and 3 characters beside wrong ones of median 7, 6, 4 and 7: −4, −1, +5, −4.
    (found,) = study.length_biases([cell("raw", [0, 0, 0, 0], RIGHT)], questions(RIGHT))
    assert found.everywhere.value == pytest.approx(-1.0)
    assert found.missed.value == pytest.approx(2.0)
    assert found.missed.n == 2


def test_a_method_errs_where_it_is_right_in_some_orders_only() -> None:
    rotated = MethodsCell("m", "t", "own", "raw", mean_estimate([0.75]), ("t#0", "t#1"), (0, 1), (0.75, 1.0))
    (found,) = study.length_biases([rotated], questions(RIGHT))
    assert (found.missed.n, found.missed.value) == (1, -4.0)


def test_lengths_of_documents_in_clusters_have_the_error_of_clusters() -> None:
    """Gaps of −4, −1, +5, −4 in pairs: means −2.5 and 0.5, so that the error is half their difference."""
    (found,) = study.length_biases([replace(cell("raw", [1] * 4, [0] * 4), clusters=tuple("ppqq"))], questions(RIGHT))
    assert (found.everywhere.stderr, found.everywhere.clusters) == (pytest.approx(1.5), 2)
    assert found.missed == found.everywhere


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (ChoiceQuestion((1,), (4, 10, 6, 8)), (10.0, 6.0)),
        (ChoiceQuestion((-1,), (4, 10)), None),
        (ChoiceQuestion((5,), (4, 10)), None),
        (ChoiceQuestion((), (4, 10)), None),
        (ChoiceQuestion((0,), (4,)), None),
        (ChoiceQuestion((0, 1), (4, 10, 6)), (4.0, 6.0)),
    ],
)
def test_lengths_are_compared_where_there_is_a_right_and_a_wrong_choice(
    question: ChoiceQuestion, expected: tuple[float, float] | None
) -> None:
    assert question.compared_lengths == expected


def test_places_predicted_and_right() -> None:
    (found,) = study.places([cell("strict", [0, 0, NO_PREDICTION, 2], RIGHT)], questions(RIGHT))
    assert (found.picked, found.right, found.none) == ((2, 0, 1), (2, 1, 1), 1)
