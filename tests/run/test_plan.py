"""The plan: duplicates once, known ones subtracted, the order kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.core.identity import Fingerprint, response_key
from assay.core.requests import Generation, Instance, Loglikelihood, Message, RollingLoglikelihood
from assay.run.plan import find_keys, make_plan, work

MODEL = Fingerprint("m").digest
A, B, C = Loglikelihood("q", " a"), Loglikelihood("q", " b"), Loglikelihood("q", " c")


def instances(*asked: tuple[Loglikelihood, ...]) -> list[Instance]:
    return [Instance("t", place, requests) for place, requests in enumerate(asked)]


def test_keys_are_those_of_model_and_request() -> None:
    keys = find_keys(instances((A, B)), MODEL)
    assert keys.by_instance == [tuple(response_key(MODEL, request) for request in (A, B))]


def test_duplicates_are_requested_once_but_keep_their_places() -> None:
    keys = find_keys(instances((A, B), (B, A), (C, A)), MODEL)
    plan = make_plan(keys.built, keys.requests, set())
    assert list(plan.missing.values()) == [A, B, C]
    assert (plan.built, plan.unique, plan.known) == (6, 3, 0)
    assert keys.by_instance[0] == keys.by_instance[1][::-1]


def test_what_is_known_is_subtracted() -> None:
    keys = find_keys(instances((A, B), (C,)), MODEL)
    known = {keys.by_instance[0][1], b"a key of another run"}
    plan = make_plan(keys.built, keys.requests, known)
    assert list(plan.missing.values()) == [A, C]
    assert (plan.built, plan.unique, plan.known) == (3, 3, 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20), st.sets(st.integers(0, 9)))
def test_missing_are_the_first_occurrences_of_unknown_requests(numbers: list[tuple[int, int]], old: set[int]) -> None:
    asked = [tuple(Loglikelihood("q", str(number)) for number in pair) for pair in numbers]
    keys = find_keys(instances(*asked), MODEL)
    known = {response_key(MODEL, Loglikelihood("q", str(number))) for number in old}
    plan = make_plan(keys.built, keys.requests, known)
    in_order = dict.fromkeys(number for pair in numbers for number in pair)
    assert [r.continuation for r in plan.missing.values()] == [str(n) for n in in_order if n not in old]  # type: ignore[union-attr]
    assert len(plan.works) == len(plan.missing)


def test_prompts_have_one_digest_for_two_models_and_two_sets_of_keys() -> None:
    one, two = (find_keys(instances((A, B)), Fingerprint(name).digest) for name in "xy")
    assert one.prompts == two.prompts
    assert set(one.requests).isdisjoint(two.requests)


def test_another_prompt_or_order_has_another_digest() -> None:
    digests = {find_keys(instances(asked), MODEL).prompts for asked in ((A, B), (B, A), (A, C), (A,))}
    assert len(digests) == 4


def test_work_counts_reading_and_more_for_writing() -> None:
    talk = (Message("system", "ab"), Message("user", "cde"))
    assert work(Loglikelihood("abc", " d")) == 5
    assert work(Loglikelihood(talk, " d")) == 7
    assert work(RollingLoglikelihood("abcd")) == 4
    assert work(Generation("abc", max_tokens=10)) == 3 + 10 * 10
    assert work(Generation(talk)) == 5 + 256 * 10
