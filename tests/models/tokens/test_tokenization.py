"""Golden vectors of lm-eval's rules, and laws that hold for every pair of texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.requests import Generation
from assay.models.tokens.tokenization import (
    EncodedText,
    Refused,
    TextPair,
    TokenRules,
    cut_at_stops,
    encode_pairs,
    encode_prompt,
    encode_rolling,
    encode_texts,
    join,
    rolling_windows,
    show_pieces,
)

BOS, EOS = 0, 1


Pair = Callable[..., Any]
Rules = Callable[..., TokenRules]


@pytest.fixture(scope="module")
def rules(tokenizers: dict[bool, Any]) -> Rules:
    """Rules by settings; the tokenizer adds BOS by default."""

    @cache
    def make(adds_bos: bool = True, max_length: int = 48, **changes: Any) -> TokenRules:
        settings = {"prefix_id": BOS, "prefix_text": "<s>", **changes}
        return TokenRules(tokenizers[adds_bos], max_length, **settings)

    return make


@pytest.fixture(scope="module")
def pair(rules: Rules) -> Pair:
    """Encodes one pair by rules with the given settings."""
    return lambda context, continuation, **changes: next(
        encode_pairs(rules(**changes), [TextPair(0, context, continuation)])
    )


@pytest.fixture(scope="module")
def scored_text(tokenizers: dict[bool, Any]) -> Callable[[EncodedText], str]:
    return lambda encoded: str(tokenizers[False].decode(encoded.ids[-encoded.scored :]))


def test_windows_are_lm_evals() -> None:
    windows = [(list(left), list(right)) for left, right in rolling_windows(range(10), 99, 4)]
    assert windows == [([99], [0, 1, 2, 3]), ([3], [4, 5, 6, 7]), ([5, 6, 7], [8, 9])]


@pytest.mark.parametrize("overlap", [1, 2, 3, 4, 9])
def test_windows_score_every_token_once_and_fit(overlap: int) -> None:
    windows = list(rolling_windows(list(range(23)), 99, 4, overlap))
    assert [token for _, scored in windows for token in scored] == list(range(23))
    assert all(len(context) + len(scored) - 1 <= 4 for context, scored in windows)
    assert all(len(context) >= min(overlap, 4) for context, _ in windows[1:])


@pytest.mark.parametrize("length", [0, 1, 4, 5])
def test_windows_of_short_texts(length: int) -> None:
    windows = list(rolling_windows(list(range(length)), 99, 4))
    assert len(windows) == {0: 0, 1: 1, 4: 1, 5: 2}[length]


def test_white_space_moves_to_the_continuation(pair: Pair, scored_text: Callable[[EncodedText], str]) -> None:
    encoded = pair("ab \n", "c", adds_bos=False)
    assert scored_text(encoded) == " \nc"


def test_pair_is_encoded_together(rules: Rules, pair: Pair, scored_text: Callable[[EncodedText], str]) -> None:
    encoded = pair("The answer is", " four")
    whole = rules().tokenizer(["The answer is four"])["input_ids"][0]
    assert isinstance(encoded, EncodedText) and list(encoded.ids) == whole
    assert scored_text(encoded) == " four" and encoded.notes == ()


def test_empty_context_starts_from_the_prefix(pair: Pair) -> None:
    encoded = pair("", "four")
    assert isinstance(encoded, EncodedText)
    assert encoded.ids[0] == BOS and encoded.context_length == 1 and encoded.notes == ("empty_prompt",)


def test_empty_context_uses_a_prefix_that_is_already_there(pair: Pair) -> None:
    encoded = pair("", "<s>four")
    assert isinstance(encoded, EncodedText)
    assert encoded.ids == pair("", "four").ids


def test_text_that_begins_with_bos_gets_no_second_one(pair: Pair) -> None:
    encoded = pair("<s>The answer is", " four")
    assert isinstance(encoded, EncodedText)
    assert encoded.ids == pair("The answer is", " four").ids and encoded.notes == ()


def test_double_bos_is_noted(pair: Pair) -> None:
    encoded = pair("<s>The answer", " is", prefix_text="")
    assert isinstance(encoded, EncodedText) and encoded.notes == ("double_bos",)


def test_white_space_alone_is_a_context_too(pair: Pair, scored_text: Callable[[EncodedText], str]) -> None:
    for adds_bos in (True, False):
        encoded = pair(" \n", "four", adds_bos=adds_bos)
        assert isinstance(encoded, EncodedText) and encoded.ids[0] == BOS
        assert scored_text(encoded) == " \nfour"


def test_token_across_the_join_is_scored_from_the_split_on(
    pair: Pair, scored_text: Callable[[EncodedText], str]
) -> None:
    encoded = pair("The ans", "wer")  # one token: " answer"
    assert isinstance(encoded, EncodedText) and encoded.notes == ("split_token",)
    assert scored_text(encoded) == " answer"


def test_join_keeps_lm_evals_ids_when_something_comes_after() -> None:
    assert join([5, 6], [5, 7, 8]) == ([5, 6, 8], 2, ("joined_token",))
    assert join([5, 6], [5, 6, 8]) == ([5, 6, 8], 2, ())
    assert join([5, 6], [5, 6]) == ([5, 6], 1, ("split_token",))
    assert join([5, 6, 7], [5, 9]) == ([5, 9], 1, ("split_token",))


@pytest.mark.parametrize("context", ["", "The answer", " "])
def test_empty_continuation_is_refused(pair: Pair, context: str) -> None:
    encoded = pair(context, "")
    assert isinstance(encoded, Refused) and encoded.failure.kind == "empty"


@pytest.mark.parametrize(("extra", "truncated"), [(-1, 0), (0, 0), (1, 1), (2, 2)])
def test_context_is_cut_from_the_left_past_max_plus_one(pair: Pair, extra: int, truncated: int) -> None:
    # A row reads all ids but the last, so max_length + 1 ids fit.
    encoded = pair("x" * (9 + extra) + "y", "z", adds_bos=False, max_length=10)
    assert isinstance(encoded, EncodedText)
    assert (len(encoded.inputs), encoded.truncated) == (10 + min(extra, 0), truncated)


def test_continuation_longer_than_the_model_is_refused(pair: Pair) -> None:
    fits, too_long = pair("y", "x" * 10, max_length=10), pair("y", "x" * 11, max_length=10)
    assert isinstance(fits, EncodedText) and fits.context_length == 1
    assert isinstance(too_long, Refused) and too_long.failure.kind == "too_long"


def test_no_prefix_token_is_a_refusal_that_helps(pair: Pair) -> None:
    refused = pair("", "four", prefix_id=None)
    assert isinstance(refused, Refused) and "prefix_token_id" in refused.failure.message


def test_batch_encoding_equals_one_by_one(rules: Rules) -> None:
    texts = ["", " ", "a", "The answer", "<s>The", "東京 🍐", "The answer", "x" * 600]
    encoded = encode_texts(rules(), texts)
    for text in texts:
        assert encoded[text] == rules().tokenizer.encode(text, add_special_tokens=text != "<s>The")


def test_lone_surrogates_do_not_stop_a_run(pair: Pair, scored_text: Callable[[EncodedText], str]) -> None:
    encoded = pair("a\ud800b", " c")
    assert isinstance(encoded, EncodedText) and scored_text(encoded) == " c"


def test_tokenizer_that_ignores_add_bos_gets_it_prepended(rules: Rules) -> None:
    encoded = encode_texts(rules(adds_bos=False, add_special_tokens=True, prepended=(BOS,)), ["a", "<s>a"])
    assert encoded["a"] == encoded["<s>a"] and encoded["a"][0] == BOS


def test_prompt_leaves_room_for_the_answer(rules: Rules) -> None:
    request = Generation("unused")
    for length, truncated in ((5, 0), (6, 0), (7, 1)):
        prompt = encode_prompt(rules(max_length=10), 0, request, list(range(2, 2 + length)), 4)
        assert not isinstance(prompt, Refused)
        assert (len(prompt.ids), prompt.truncated) == (length - truncated, truncated)
    refused = encode_prompt(rules(max_length=10), 0, request, [5], 10)
    assert isinstance(refused, Refused) and refused.failure.kind == "too_long"


def test_empty_prompt_becomes_the_prefix_token(rules: Rules) -> None:
    prompt = encode_prompt(rules(), 0, Generation(""), [], 4)
    assert not isinstance(prompt, Refused) and prompt.ids == (BOS,) and prompt.notes == ("empty_prompt",)


def test_rolling_text_after_bos_is_noted(rules: Rules) -> None:
    windows = encode_rolling(rules(), 0, [BOS, 5, 6], 1)
    assert isinstance(windows, list) and windows[0].notes == ("double_bos",)


def test_text_without_prefix_starts_from_its_first_token(rules: Rules) -> None:
    # Five tokens after the first, four to a window: the second window is filled up with context.
    windows = encode_rolling(rules(max_length=4, prefix_id=None), 7, [9, 2, 3, 4, 5, 6], 1, stands_on_prefix=False)
    assert windows == [EncodedText(7, (9, 2, 3, 4, 5), 4), EncodedText(7, (2, 3, 4, 5, 6), 1)]
    assert encode_rolling(rules(), 0, [9], 1, stands_on_prefix=False) == []
    assert encode_rolling(rules(), 0, [], 1, stands_on_prefix=False) == []


def test_stops_cut_in_order() -> None:
    assert cut_at_stops("abc STOP def END", ["END", "STOP"]) == "abc "
    assert cut_at_stops("think</think>\n ans STOP", ["STOP"], "</think>") == "ans "
    assert cut_at_stops("no thought STOP", ["STOP"], "</think>") == "no thought "
    assert cut_at_stops("STOP first", ["STOP"]) == ""
    assert cut_at_stops("kept whole", ["", "absent"]) == "kept whole"
    assert cut_at_stops("kept whole", []) == "kept whole"


def test_pieces_are_readable(rules: Rules) -> None:
    ids = encode_texts(rules(), ["The answer é"])["The answer é"]
    pieces = show_pieces(rules().tokenizer, ids)
    assert len(pieces) == len(ids) and pieces[0] == "<s>" and " answer" in pieces


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30), st.text(min_size=1, max_size=12), st.booleans())
def test_every_pair_has_something_to_score(
    rules: Rules, pair: Pair, context: str, continuation: str, adds_bos: bool
) -> None:
    encoded = pair(context, continuation, adds_bos=adds_bos, max_length=600)
    assert isinstance(encoded, EncodedText)
    assert encoded.scored >= 1 and encoded.context_length >= 1
    if "joined_token" not in encoded.notes:
        # Nothing is lost or doubled: the ids are those of the whole text, behind at most one prefix token.
        text = (context + continuation).encode("utf-8", "replace").decode()
        expected = rules(adds_bos=False).tokenizer([text])["input_ids"][0]
        assert [BOS, *expected][-len(encoded.ids) :] == list(encoded.ids)
