"""Win rates, shared ranks and letters by hand."""

from __future__ import annotations

import random
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from assay.stats.ranking import Average, RankRange, letters, rank_ranges, win_rates


def test_win_rates_by_hand() -> None:
    """First column: a beats both, b and c tie: 1, 0.25, 0.25. Second: b beats a; c has no score there."""
    columns = {"x": {"a": 0.9, "b": 0.5, "c": 0.5}, "y": {"a": 0.1, "b": 0.2}}
    a, b, c = win_rates("abc", columns).values()
    assert (a, b, c) == (Average(0.5, ("x", "y")), Average(0.625, ("x", "y")), Average(0.25, ("x",)))


def test_a_column_of_one_model_says_nothing() -> None:
    assert win_rates("ab", {"x": {"a": 0.9}}) == {"a": Average(None, ()), "b": Average(None, ())}


def shown(separated: set[tuple[str, str]], models: str = "abc") -> list[str]:
    return [ranks.text for ranks in rank_ranges(models, separated).values()]


def test_models_that_are_not_separable_share_a_rank() -> None:
    """b lies between a and c and is tied with both: it may be first, second or last."""
    assert shown({("a", "c")}) == ["1–2", "1–3", "2–3"]
    assert shown({("a", "b"), ("a", "c")}) == ["1", "2–3", "2–3"]
    assert shown(set()) == ["1–3", "1–3", "1–3"]
    assert shown({("a", "b"), ("a", "c"), ("b", "c")}) == ["1", "2", "3"]


def test_tests_that_contradict_each_other_leave_tied_ranks_overlapping() -> None:
    """a is better than b and c, both are better than d, but a and d are tied: 1 of 2 and 3 of 4 would not meet."""
    separated = {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}
    assert shown(separated, "abcd") == ["1–3", "2–3", "2–3", "3–4"]


Orders = st.sets(st.sampled_from(list(combinations("abcdef", 2))).flatmap(lambda p: st.sampled_from([p, p[::-1]])))


@given(Orders.map(lambda found: {(a, b) for a, b in found if a < b or (b, a) not in found}))
def test_tied_models_have_ranks_that_overlap(separated: set[tuple[str, str]]) -> None:
    """Whatever the tests say, transitive or not."""
    found = rank_ranges("abcdef", separated)
    for one, other in combinations("abcdef", 2):
        if (one, other) not in separated and (other, one) not in separated:
            assert found[one].overlaps(found[other])
    assert all(1 <= ranks.first <= ranks.last <= 6 for ranks in found.values())


@given(Orders.map(lambda found: {(a, b) for a, b in found if a < b or (b, a) not in found}))
def test_the_first_rank_alone_is_for_a_model_that_beats_all(separated: set[tuple[str, str]]) -> None:
    found = rank_ranges("abcdef", separated)
    alone = [model for model, ranks in found.items() if ranks == RankRange(1, 1)]
    assert all((model, other) in separated for model in alone for other in "abcdef" if other != model)


def test_letters_show_a_model_between_two_others() -> None:
    assert letters("abc", [("a", "c")]) == {"a": "a", "b": "ab", "c": "b"}
    assert letters("abc", []) == {"a": "a", "b": "a", "c": "a"}
    assert letters("abc", [("a", "b"), ("a", "c"), ("b", "c")]) == {"a": "a", "b": "b", "c": "c"}


@given(st.sets(st.sampled_from(list(combinations("abcdef", 2)))))
def test_two_models_share_a_letter_exactly_when_they_are_not_separable(separated: set[tuple[str, str]]) -> None:
    found = letters("abcdef", separated)
    shared = {pair for pair in combinations("abcdef", 2) if set(found[pair[0]]) & set(found[pair[1]])}
    assert shared == set(combinations("abcdef", 2)) - separated


def test_models_in_one_order_have_letters_however_many_they_are() -> None:
    """Different from all but their neighbours: every letter but the first and last model's is of two."""
    models = [f"m{place}" for place in range(60)]
    found = letters(models, [(models[i], models[j]) for i, j in combinations(range(60), 2) if j - i > 1])
    assert (found["m0"], found["m1"], found["m26"], found["m59"]) == ("a", "ab", "za'", "g''")


def test_tests_that_contradict_each_other_leave_models_without_letters() -> None:
    """Half of all pairs, at random: 40 models would need hundreds of letters."""
    models = [f"m{place}" for place in range(40)]
    draw = random.Random(1)
    separated = [pair for pair in combinations(models, 2) if draw.random() < 0.5]
    assert set(letters(models, separated).values()) == {""}
    assert len(rank_ranges(models, separated)) == 40
