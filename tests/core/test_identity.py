"""Identity: canonical JSON, frozen digests and keys. A failure here means that every store is forgotten."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.fingerprints import Fingerprint
from assay.core.identity import (
    KEY_VERSION,
    ResponseKeyBuilder,
    canonical_json,
    digest,
    digest_all,
    request_digest,
    response_key,
)
from assay.core.requests import (
    ChoiceSelection,
    Classification,
    Demonstrated,
    Generation,
    Loglikelihood,
    Message,
    Request,
    RollingLoglikelihood,
    Sampling,
    SpanExtraction,
    Windows,
)

ANY_TEXT = st.text(st.characters(codec=None), max_size=30)

GOLDEN: list[tuple[Request, str]] = [
    (Loglikelihood("The sky is", " blue"), "bb3b8152d19a640d9a2c113ff4a655ec40852ed807310ecbbc26f4c743e773fa"),
    (Loglikelihood("", "Once"), "2ffa44aa00a3249d6c9d4e6bca16b65073311f3e82c631898c14cc877d2a2ee9"),
    (Loglikelihood('a\n\t"b\\', " c\u2028"), "ce12a4ec8a79c3b6178004219882b63d5fe367f9be990f2a4dc84435cc6a039b"),
    (Loglikelihood("Grüße, 世界 🙂", " ja"), "b3015645ead071430ea58823d500b8c8df14d9fbb887fa704e6a8c8763c048ee"),
    (Loglikelihood("lone \ud800 high", " \udfff"), "2c0941715a7465dcd01d00eefdf32e1f063040db4a5f4be634926e3f146e74dd"),
    (
        Loglikelihood((Message("system", "Be brief."), Message("user", "2+2?")), "4"),
        "e219eb2ec146ef1298ddcda87b8e40a0280a477fef1927447adf148ac5cd6807",
    ),
    # Changed once, with the rule by which over-long prompts are cut: answers by the former rule must not be found.
    (
        Loglikelihood(Demonstrated((("2+2?", "4"),), "3+3?", ("5", "6")), "\n6"),
        "6138da182c6da1cd652df2ac328ebb44b53eb7e164f761669afeaf8323ee8027",
    ),
    (
        RollingLoglikelihood("It snowed all night."),
        "5d32d5cebc8ca371683190df66e698c1ae06836a21dc58c4a7e663a68725dc18",
    ),
    (
        RollingLoglikelihood("It snowed all night.", overlap=16),
        "c5764e7503cabf4b0a1c2c6723c32e2917e0d1e848557afc279ebbe79a9a400d",
    ),
    (
        RollingLoglikelihood("It snowed all night.", stands_on_prefix=False),
        "fbfb89d19a6dfc83982f08b6bbff0e53fe161f6ff3713189c4d50b4dfd0ce5ee",
    ),
    (
        RollingLoglikelihood("It snowed all night.", windows=Windows(512, 256)),
        "42c29015f7e73162ccdec9b83364ff4776fb211033e5b24b210883b401cf1b21",
    ),
    (
        Classification("A fine film.", ("bad", "good")),
        "c9d76c472d02b1f3209e4cb09990d1c04f797b93702185451d51d55dc475a27a",
    ),
    (
        Classification("It rains.", ("yes", "no"), "It is wet."),
        "53a920ecdb4f4925dce52135f928c15ffc9cb48ea0c18cad76455ab6b755d8c5",
    ),
    (
        ChoiceSelection("The sky is", ("blue", "loud")),
        "4c91826e123cd71bbfa77409c5f2452ea4af939aa14543137024946c90aa4e7a",
    ),
    (
        SpanExtraction("Who?", "Ada wrote it.", may_lack=True),
        "4d31fecb0861b39b8e16983eb445de0b3f9e90f026f3563d1d5a0a22c62b8810",
    ),
    (Generation("Once upon a time"), "9862f0ff6ceff81dacb1b419d8e1d81d98bc7e98bed18b98f8ed06d56c838489"),
    (
        Generation("Q: 2+2?\nA:", stop=("\n", "Q:"), max_tokens=16),
        "21c0927f66ee2cbc587186796175f464a515a85dabfddf015852c0f26f999094",
    ),
    (
        Generation((Message("user", "Hi"),), max_tokens=8),
        "8171ac4623c47515a8408889ab18cfc275d40405324ad9bccd52206e5c13d860",
    ),
    (
        Generation("x", sampling=Sampling(0.7, 1234, (("top_k", 40), ("top_p", 0.95))), draw=3),
        "14adb8776ca77585f7f0836eb1edd9c48dc4ac5427625a08a5c7190a3194a4e0",
    ),
    (
        Generation("x", sampling=Sampling(temperature=1.0), draw=1),
        "4c35f1889c5d2fbb5a233ba7f010f265e7c7d187d7ce55a5772c4cdf383d0f34",
    ),
]


@pytest.mark.parametrize(("request_", "expected"), GOLDEN, ids=range(len(GOLDEN)))
def test_request_digests_are_frozen(request_: Request, expected: str) -> None:
    assert request_digest(request_).hex() == expected


def test_response_keys_are_frozen() -> None:
    key = response_key(Fingerprint("m").digest, GOLDEN[0][0])
    assert key.hex() == "eb348ef60bcb788a883687c80e2ae556991862efa3ec8f10b18fa3b922f9fe2d"


def test_fingerprint_digests_are_frozen() -> None:
    known = Fingerprint("m", weights="w", settings={"max_length": 2048})
    assert known.digest == "506bc5213289202926a03a75032385e62ebd089331eed6b66e6cd6115fa7c47f"
    assert Fingerprint("m").digest == "b63089cfc5d28b0d1778499d8f6b4988d091f11c60f1b4343f15fb1d0a869d1d"


def test_canonical_json_has_sorted_keys_no_blanks_and_plain_letters() -> None:
    value = {"b": [1, 2.5, None, True], "a": {"z": "ü", "y": '"\n\u2028'}}
    assert canonical_json(value) == '{"a":{"y":"\\"\\n\u2028","z":"ü"},"b":[1,2.5,null,true]}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_canonical_json_refuses_numbers_that_json_lacks(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json([value])


@given(st.dictionaries(ANY_TEXT, st.integers() | ANY_TEXT, max_size=5))
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: dict[str, int | str]) -> None:
    backwards = dict(reversed(list(value.items())))
    assert canonical_json(value) == canonical_json(backwards)
    assert json.loads(canonical_json(sorted(value))) == [json.loads(json.dumps(key)) for key in sorted(value)]


@given(ANY_TEXT, ANY_TEXT)
def test_a_digest_is_that_of_the_canonical_json(prompt: str, continuation: str) -> None:
    text = canonical_json([KEY_VERSION, "loglikelihood", prompt, continuation])
    expected = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    assert request_digest(Loglikelihood(prompt, continuation)) == expected


def test_the_fast_path_gives_the_frozen_digests() -> None:
    ring = ResponseKeyBuilder("f")
    assert [ring.key(request) for request, _ in GOLDEN * 2] == [response_key("f", request) for request, _ in GOLDEN * 2]


REQUESTS = st.one_of(
    st.builds(Loglikelihood, st.sampled_from(["", "a", "shared \ud800"]) | ANY_TEXT, ANY_TEXT),
    st.builds(Loglikelihood, st.just((Message("user", "a"),)), ANY_TEXT),
    st.builds(RollingLoglikelihood, ANY_TEXT, st.integers(1, 9), st.booleans()),
    st.builds(Generation, ANY_TEXT),
)


@given(st.lists(REQUESTS, max_size=8))
def test_the_fast_path_of_a_digest_equals_the_general_one(requests: list[Request]) -> None:
    ring = ResponseKeyBuilder("f")
    assert [ring.key(request) for request in requests] == [response_key("f", request) for request in requests]


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_two_requests_share_a_digest_only_when_equal(a: str, b: str, c: str, d: str) -> None:
    one, two = Loglikelihood(a, b), Loglikelihood(c, d)
    assert (request_digest(one) == request_digest(two)) == (one == two)


BASE = Generation("p", ("s",), 5, Sampling(0.5, 1, (("top_p", 0.9),)), 1)
TALK = (Message("user", "p"),)
SHOWN = Demonstrated((("i", "o"),), "p", ("c",))
VARIANTS: list[Request] = [
    Loglikelihood("p", "c"),
    Loglikelihood("p2", "c"),
    Loglikelihood("p", "c2"),
    Loglikelihood("pc", ""),
    Loglikelihood("", "pc"),
    Loglikelihood(TALK, "c"),
    Loglikelihood((Message("system", "p"),), "c"),
    Loglikelihood((Message("user", "p2"),), "c"),
    Loglikelihood((*TALK, *TALK), "c"),
    Loglikelihood('[["user","p"]]', "c"),
    Loglikelihood(SHOWN, "c"),
    Loglikelihood(replace(SHOWN, demonstrations=(("i", "o2"),)), "c"),
    Loglikelihood(replace(SHOWN, demonstrations=(("i2", "o"),)), "c"),
    Loglikelihood(replace(SHOWN, demonstrations=()), "c"),
    Loglikelihood(replace(SHOWN, question="p2"), "c"),
    Loglikelihood(replace(SHOWN, options=("c", "d")), "c"),
    Loglikelihood(replace(SHOWN, limit=255), "c"),
    Loglikelihood(replace(SHOWN, between=" "), "c"),
    Loglikelihood(replace(SHOWN, after="\n"), "c"),
    Loglikelihood(replace(SHOWN, opening="o"), "c"),
    RollingLoglikelihood("p"),
    RollingLoglikelihood("p2"),
    RollingLoglikelihood("p", 2),
    RollingLoglikelihood("p", stands_on_prefix=False),
    RollingLoglikelihood("p", 2, stands_on_prefix=False),
    RollingLoglikelihood("p", windows=Windows(8)),
    RollingLoglikelihood("p", windows=Windows(8, 4)),
    RollingLoglikelihood("p", windows=Windows(stride=4)),
    RollingLoglikelihood("p", windows=Windows(4)),
    RollingLoglikelihood("p", stands_on_prefix=False, windows=Windows(8, 4)),
    BASE,
    Generation("p2", BASE.stop, 5, BASE.sampling, 1),
    Generation(TALK, BASE.stop, 5, BASE.sampling, 1),
    Generation("p", (), 5, BASE.sampling, 1),
    Generation("p", ("s", "t"), 5, BASE.sampling, 1),
    Generation("p", ("t", "s"), 5, BASE.sampling, 1),
    Generation("p", BASE.stop, 6, BASE.sampling, 1),
    Generation("p", BASE.stop, None, BASE.sampling, 1),
    Generation("p", BASE.stop, 5, BASE.sampling, 2),
    Generation("p", BASE.stop, 5, Sampling(0.6, 1, BASE.sampling.options), 1),
    Generation("p", BASE.stop, 5, Sampling(0.5, 2, BASE.sampling.options), 1),
    Generation("p", BASE.stop, 5, Sampling(0.5, None, BASE.sampling.options), 1),
    Generation("p", BASE.stop, 5, Sampling(0.5, 1, (("top_p", 0.8),)), 1),
    Generation("p", BASE.stop, 5, Sampling(0.5, 1, (("top_k", 0.9),)), 1),
    Generation("p", BASE.stop, 5, Sampling(0.5, 1), 1),
]


def test_every_field_of_every_kind_changes_the_digest() -> None:
    digests = {request_digest(request) for request in VARIANTS}
    assert len(digests) == len(VARIANTS)


def test_equal_temperatures_are_one_request() -> None:
    one, two = Generation("p", sampling=Sampling(1)), Generation("p", sampling=Sampling(1.0))
    assert one == two
    assert request_digest(one) == request_digest(two)


def test_a_request_with_a_setting_that_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError):
        request_digest(Generation("p", sampling=Sampling(1.0, options=(("x", object()),))))


def test_two_models_have_two_keys_for_one_request() -> None:
    assert response_key(Fingerprint("a").digest, BASE) != response_key(Fingerprint("b").digest, BASE)


@given(st.lists(REQUESTS, max_size=4), st.lists(REQUESTS, max_size=4))
def test_what_was_requested_is_the_same_only_for_the_same_requests(one: list[Request], two: list[Request]) -> None:
    def asked(fingerprint: str, requests: list[Request]) -> str:
        ring = ResponseKeyBuilder(fingerprint)
        for request in requests:
            ring.key(request)
        return ring.asked.hexdigest()

    assert (asked("a", one) == asked("b", two)) == (one == two)


def test_data_of_files_has_a_digest() -> None:
    row = {"day": date(2024, 2, 29), "raw": b"\x00\xff", "score": np.float32(0.5), "labels": np.array([1, 2])}
    same = {"labels": [1, 2], "raw": {"bytes": hashlib.sha256(b"\x00\xff").hexdigest()}, "score": 0.5}
    assert digest(row) == digest({**same, "day": "2024-02-29"})


def test_sets_and_missing_numbers_have_a_digest() -> None:
    assert digest({"a": {"y", "x"}}) == digest({"a": ["x", "y"]})
    assert digest([float("nan")]) == digest([float("nan")]) != digest([None])


def test_many_values_are_distinguished_by_their_limits() -> None:
    assert digest_all(["ab", "c"]) != digest_all(["a", "bc"])
    assert digest_all([]) == hashlib.sha256().hexdigest()
