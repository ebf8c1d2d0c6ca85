"""Few-shot draws: lm-eval's stream, kept by place so that neither limit nor order changes it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import DataError
from assay.tasks.fewshot import (
    SAMPLERS,
    BalancedSampler,
    FirstSampler,
    RandomSampler,
    Sampler,
    SamplerSettings,
    make_sampler,
    repeated_sample,
    sampler_fault,
)

Row = dict[str, Any]


def lm_eval_stream(pool: list[Row], n: int, seed: int, documents: Sequence[Row | None]) -> list[list[Row]]:
    """lm-eval's stateful default sampler, written out; a document of None is not kept out."""
    rng = random.Random(seed)
    found = []
    for document in documents:
        if document is None:
            found.append(rng.sample(pool, n))
            continue
        drawn = [row for row in rng.sample(pool, n + 1) if row != document][:n]
        if len(drawn) < n:
            drawn = rng.sample([row for row in pool if row != document], n)
        found.append(drawn)
    return found


def sampler(pool: list[Row], n: int, seed: int | None, documents: list[Row] | None) -> RandomSampler:
    return RandomSampler(pool, n, seed, documents.__getitem__ if documents is not None else None, "task toy")


def rows(values: Sequence[int]) -> list[Row]:
    return [{"x": value} for value in values]


# Values from a small range, so that the pool has duplicates and documents that are in it.
POOLS = st.lists(st.integers(0, 5), min_size=1, max_size=9).map(rows)


@given(POOLS, st.integers(1, 4), st.integers(0, 2000), st.integers(1, 6))
def test_draws_are_those_of_lm_eval(pool: list[Row], n: int, seed: int, count: int) -> None:
    if len(pool) < n:
        return
    drawn = sampler(pool, n, seed, None)
    expected = lm_eval_stream(pool, n, seed, [None] * count)
    assert [[pool[place] for place in drawn.places(number)] for number in range(count)] == expected


@given(POOLS, st.integers(1, 3), st.integers(0, 2000), st.lists(st.integers(0, 7), min_size=1, max_size=6))
def test_draws_without_the_document_are_those_of_lm_eval(pool: list[Row], n: int, seed: int, asked: list[int]) -> None:
    documents = rows(asked)
    fewest = min(sum(row != document for row in pool) for document in documents)
    if len(pool) < n + 1 or fewest < n:
        return
    drawn = sampler(pool, n, seed, documents)
    found = [[pool[place] for place in drawn.places(number)] for number in range(len(documents))]
    assert found == lm_eval_stream(pool, n, seed, documents)
    assert all(document not in examples for document, examples in zip(documents, found, strict=True))


@given(st.integers(1, 3000), st.integers(1, 40), st.integers(0, 2000))
def test_many_draws_are_those_of_python(size: int, count: int, seed: int) -> None:
    if size < count:
        return
    sample, plain = repeated_sample(random.Random(seed), size, count), random.Random(seed)
    assert [sample() for _ in range(300)] == [plain.sample(range(size), count) for _ in range(300)]


def test_a_python_that_draws_in_another_way_is_followed() -> None:
    class Backwards(random.Random):
        def sample(self, population: Any, k: int, **settings: Any) -> list[Any]:
            return super().sample(population, k, **settings)[::-1]

    sample, plain = repeated_sample(Backwards(1), 1000, 5), Backwards(1)
    assert [sample() for _ in range(9)] == [plain.sample(range(1000), 5) for _ in range(9)]


@given(st.permutations(range(6)), st.booleans())
def test_neither_order_nor_limit_changes_a_draw(order: list[int], is_excluding: bool) -> None:
    pool = rows(range(8))
    documents = pool if is_excluding else None
    in_order = sampler(pool, 3, 1234, documents)
    expected = [in_order.places(number) for number in range(6)]
    shuffled = sampler(pool, 3, 1234, documents)
    assert {number: shuffled.places(number) for number in order} == dict(enumerate(expected))
    assert sampler(pool, 3, 1234, documents).places(2) == expected[2]


def test_two_calls_give_the_same_examples() -> None:
    drawn = sampler(rows(range(9)), 3, 1234, None)
    assert drawn.places(4) == drawn.places(4)


def test_another_seed_gives_other_examples() -> None:
    pool = rows(range(50))
    assert sampler(pool, 5, 1, None).places(0) != sampler(pool, 5, 2, None).places(0)


def test_no_seed_means_entropy_but_still_one_draw_per_place() -> None:
    drawn = sampler(rows(range(1000)), 5, None, None)
    assert drawn.places(0) == drawn.places(0)
    assert drawn.places(0) != sampler(rows(range(1000)), 5, None, None).places(0)


def test_copies_of_the_document_are_drawn_around() -> None:
    pool = rows([1, 1, 1, 2, 3])
    drawn = sampler(pool, 2, 1234, rows([1] * 20))
    for number in range(20):
        assert {pool[place]["x"] for place in drawn.places(number)} == {2, 3}


def test_a_pool_too_small_is_an_error_with_advice() -> None:
    with pytest.raises(DataError, match="task toy: 3 few-shot examples are wanted, but the pool has 2 rows"):
        sampler(rows([1, 2]), 3, 1, None).places(0)
    with pytest.raises(DataError, match="2 few-shot examples and one to spare .* 2 rows. Lower --num_fewshot"):
        sampler(rows([1, 2]), 2, 1, rows([9])).places(0)
    with pytest.raises(DataError, match="2 few-shot examples are wanted, but the pool has 1 rows"):
        sampler(rows([1, 1, 1, 2]), 2, 1, rows([1])).places(0)


def test_first_takes_the_first_rows_without_the_document() -> None:
    pool = rows([1, 2, 3, 4])
    assert FirstSampler(pool, 2, None, "toy").places(0) == (0, 1)
    assert FirstSampler(pool, 2, pool.__getitem__, "toy").places(0) == (1, 2)
    with pytest.raises(DataError, match="4 few-shot examples are wanted, but the pool has 3 rows"):
        FirstSampler(pool, 4, pool.__getitem__, "toy").places(0)


def balanced(labels: list[str | None], count: int, excluded: Any = None) -> BalancedSampler:
    pool = [{"place": place, "label": label} for place, label in enumerate(labels)]
    return BalancedSampler(pool, lambda row: row["label"], count, 0, excluded, "t")


def test_balanced_examples_go_round_the_answers_from_the_most_frequent() -> None:
    labels: list[str | None] = ["no", "yes", "maybe", "yes", "no", "yes"]
    stream = random.Random(0)
    yes, no, maybe = [1, 3, 5], [0, 4], [2]
    expected = [rows.pop(stream.randrange(len(rows))) for rows in (yes, no, maybe, yes, no)]
    assert [labels[place] for place in expected] == ["yes", "no", "maybe", "yes", "no"]
    assert list(balanced(labels, 5).places(0)) == expected
    assert balanced(labels, 5).places(7) == tuple(expected)


def test_balanced_examples_of_equal_frequency_are_shuffled_from_their_sorted_texts() -> None:
    order = ["a", "b", "c", "d"]
    stream = random.Random(0)
    stream.shuffle(order)
    labels: list[str | None] = ["d", "b", "a", "c"]
    assert [labels[place] for place in balanced(labels, 3).places(0)] == order[:3]
    assert order != ["a", "b", "c", "d"]


def test_balanced_rows_without_an_answer_come_last() -> None:
    assert sorted(balanced([None, "a", None], 3).places(0)[1:]) == [0, 2]
    assert balanced([None, "a", None], 1).places(0) == (1,)


def test_balanced_examples_leave_the_document_out() -> None:
    sampler = balanced(["a", "b"], 1, excluded=lambda place: {"place": place, "label": "ab"[place]})
    assert [sampler.places(0), sampler.places(1)] == [(1,), (0,)]
    with pytest.raises(DataError, match="2 few-shot examples are wanted, but the pool has 1"):
        balanced(["a", "b"], 2, excluded=lambda place: {"place": 0, "label": "a"}).places(0)


def test_balanced_examples_are_the_same_for_all_documents_that_are_none_of_them() -> None:
    labels: list[str | None] = ["a", "b"] * 20
    common = balanced(labels, 4).places(0)
    sampler = balanced(labels, 4, excluded=lambda place: {"place": place, "label": labels[place]})
    assert {sampler.places(place) for place in range(40) if place not in common} == {common}
    assert all(place not in sampler.places(place) for place in common)


# Samplers by name


def named(name: str, pool: list[Row], count: int, seed: int | None = 7, documents: list[Row] | None = None) -> Sampler:
    """A sampler over documents that are rows of the pool, if given, and others if not."""
    excluded = documents.__getitem__ if documents is not None else None
    settings = SamplerSettings(count, seed, excluded, "task toy", excluded or (lambda place: {"x": -1 - place}))
    return make_sampler(name, pool, settings, lambda row: str(row["x"] % 2))


@given(st.integers(0, 40), st.integers(1, 5))
def test_catwalk_draws_one_more_by_the_documents_place_and_drops_the_document(place: int, count: int) -> None:
    pool = rows(range(41))
    drawn = random.Random(place).sample(pool, count + 1)
    expected = [row for row in drawn if row != pool[place]][:count]
    found = named("catwalk", pool, count, documents=pool).places(place)
    assert [pool[number] for number in found] == expected
    apart = named("catwalk", pool, count).places(place)
    assert [pool[number] for number in apart] == drawn[:count]


@given(st.integers(0, 2000), st.integers(0, 40))
def test_fixed_examples_are_one_draw_of_the_seed_for_all_documents(seed: int, place: int) -> None:
    pool = rows(range(41))
    drawn = random.Random(seed).sample(pool, 4)
    found = named("fixed", pool, 3, seed, pool).places(place)
    assert [pool[number] for number in found] == [row for row in drawn if row != pool[place]][:3]
    assert [pool[number] for number in named("fixed", pool, 3, seed).places(place)] == drawn[:3]


def test_examples_per_document_come_from_a_generator_of_seed_and_place() -> None:
    pool = rows(range(30))
    sampler = named("per_document", pool, 3, seed=7)
    expected = random.Random("7:12").sample(range(30), 4)[:3]
    assert list(sampler.places(12)) == expected
    assert sampler.places(11) != sampler.places(12)
    assert named("per_document", pool, 3, seed=8).places(12) != sampler.places(12)


@pytest.mark.parametrize("name", SAMPLERS)
def test_no_sampler_depends_on_the_order_or_number_of_documents_evaluated(name: str) -> None:
    pool = rows(range(9))
    sampler = named(name, pool, 3, documents=pool)
    expected = [sampler.places(place) for place in range(9)]
    backwards = named(name, pool, 3, documents=pool)
    assert [backwards.places(place) for place in reversed(range(9))] == expected[::-1]
    assert all(place not in found for place, found in enumerate(expected))


@pytest.mark.parametrize("name", ["fixed", "per_document", "catwalk"])
def test_a_document_that_is_in_the_pool_twice_is_not_an_example_of_itself(name: str) -> None:
    pool = rows([1, 1, 1, 2, 3])
    sampler = named(name, pool, 2, documents=rows([1] * 20))
    assert all({pool[place]["x"] for place in sampler.places(number)} == {2, 3} for number in range(20))


@pytest.mark.parametrize("name", ["fixed", "per_document"])
def test_a_pool_of_just_as_many_rows_will_do_where_it_has_no_document(name: str) -> None:
    pool = rows([1, 2, 3])
    assert sorted(named(name, pool, 3).places(0)) == [0, 1, 2]
    with pytest.raises(DataError, match="3 few-shot examples and one to spare are wanted, but the pool has 3"):
        named(name, pool, 3, documents=pool).places(0)
    with pytest.raises(DataError, match="2 few-shot examples are wanted, but the pool has 1"):
        named(name, rows([1, 1, 2]), 2, documents=rows([1])).places(0)


def test_without_a_seed_examples_are_unknown_but_stay_the_same() -> None:
    sampler = named("fixed", rows(range(10_000)), 5, None)
    assert sampler.places(0) == sampler.places(1)
    assert sampler.places(0) != named("fixed", rows(range(10_000)), 5, None).places(0)


def test_an_unknown_sampler_is_reported_with_the_nearest_name() -> None:
    assert sampler_fault("fixed", "x") is None
    fault = sampler_fault("per_doc", "--fewshot_sampler")
    assert fault is not None
    assert 'no sampler "per_doc" (did you mean "per_document"?)' in str(fault)
