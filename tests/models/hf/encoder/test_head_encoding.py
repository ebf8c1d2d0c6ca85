"""Requests for heads as rows: special tokens as the tokenizer sets them, nothing of a long context unread."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.requests import ChoiceSelection, Classification, SpanExtraction
from assay.models.hf.encoder.head_encoding import HeadInput, HeadRow, encode_head, pad_rows

QUESTION = "What colour is the sky?"
CONTEXT = "Once upon a time there was a little girl.  The sky is blue, said the girl, and the answers were right. " * 3


@pytest.fixture(params=["bert_tokenizer", "roberta_tokenizer"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def bare(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_a_bert_pair_has_its_separators_and_types(bert_tokenizer: Any) -> None:
    row = encode_head(bert_tokenizer, Classification("the girl", ("a", "b"), "the sky"), 48).rows[0]
    tokens = bert_tokenizer.convert_ids_to_tokens(list(row.ids))
    assert tokens == ["[CLS]", "the", "girl", "[SEP]", "the", "sky", "[SEP]"]
    assert row.type_ids == (0, 0, 0, 0, 1, 1, 1)


def test_a_roberta_pair_has_two_separators(roberta_tokenizer: Any) -> None:
    row = encode_head(roberta_tokenizer, ChoiceSelection("the girl", ("the sky",)), 48).rows[0]
    assert roberta_tokenizer.decode(list(row.ids)) == "<s>the girl</s></s>the sky</s>"
    assert set(row.type_ids) == {0}


def test_what_fits_is_what_the_tokenizer_gives(tokenizer: Any) -> None:
    request = ChoiceSelection(QUESTION, ("blue", "the lazy dog"))
    found = encode_head(tokenizer, request, 48)
    assert [list(row.ids) for row in found.rows] == [
        tokenizer(QUESTION, choice)["input_ids"] for choice in request.choices
    ]
    assert found.truncated == 0


def test_an_empty_question_leaves_the_choice_alone(tokenizer: Any) -> None:
    found = encode_head(tokenizer, ChoiceSelection("", ("the sky",)), 48)
    assert list(found.rows[0].ids) == tokenizer("the sky")["input_ids"]


def test_the_longer_text_of_a_pair_is_cut_first(bert_tokenizer: Any) -> None:
    found = encode_head(bert_tokenizer, Classification("the girl the girl the girl the girl", ("a",), "the sky"), 8)
    # Three special tokens leave room for five: three of the first text's eight, and both of the second's.
    tokens = bert_tokenizer.convert_ids_to_tokens(list(found.rows[0].ids))
    assert tokens == ["[CLS]", "the", "girl", "the", "[SEP]", "the", "sky", "[SEP]"]
    assert found.truncated == 5


def test_a_question_is_cut_before_its_choices(tokenizer: Any) -> None:
    choice = "the quick brown fox"
    found = encode_head(tokenizer, ChoiceSelection(QUESTION * 3, (choice,)), 24)
    assert found.rows[0].length == 24
    assert list(found.rows[0].ids[-1 - len(bare(tokenizer, choice)) : -1]) == bare(tokenizer, choice)
    assert found.truncated == len(tokenizer(QUESTION * 3, choice)["input_ids"]) - 24


def test_a_choice_that_is_too_long_alone_is_cut_as_well(tokenizer: Any) -> None:
    found = encode_head(tokenizer, ChoiceSelection("the girl", (CONTEXT, "blue")), 24)
    assert [row.length for row in found.rows] == [24, len(tokenizer("the girl", "blue")["input_ids"])]
    assert found.truncated == len(tokenizer("the girl", CONTEXT)["input_ids"]) - 24


def covered(found: HeadInput) -> set[tuple[int, int]]:
    return {offset for row in found.rows for offset in row.offsets if offset is not None}


def test_windows_read_all_of_a_long_context(tokenizer: Any) -> None:
    found = encode_head(tokenizer, SpanExtraction(QUESTION, CONTEXT), 48)
    assert len(found.rows) > 2 and found.truncated == 0
    offsets = tokenizer(CONTEXT, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert covered(found) == set(offsets)
    for row in found.rows:
        assert row.length <= 48 and row.null_token == 0
        assert row.offsets[row.first_context_token] is not None
        assert all(offset is None for offset in row.offsets[: row.first_context_token])
        assert list(row.ids[1:]).index(bare(tokenizer, QUESTION)[0]) == 0


def test_windows_overlap(tokenizer: Any) -> None:
    found = encode_head(tokenizer, SpanExtraction(QUESTION, CONTEXT), 48)
    first, second = ([offset for offset in row.offsets if offset is not None] for row in found.rows[:2])
    assert first[-1] in second and first[0] not in second


def test_offsets_point_into_the_context_as_it_was_written(tokenizer: Any) -> None:
    # Lone surrogates are replaced, one character by one.
    context = "a \ud800\udc00 girl SAID blue"
    row = encode_head(tokenizer, SpanExtraction("who", context), 48).rows[0]
    assert context[row.offsets[-2][0] : row.offsets[-2][1]].strip() in "blue"  # type: ignore[index]


def test_a_question_that_is_too_long_leaves_half_the_room_to_the_context(tokenizer: Any) -> None:
    request = bare(tokenizer, QUESTION * 9)
    found = encode_head(tokenizer, SpanExtraction(QUESTION * 9, CONTEXT), 40)
    room = 40 - tokenizer.num_special_tokens_to_add(pair=True)
    kept = len(request) - found.truncated
    assert room // 2 - 3 <= kept <= room // 2
    assert list(found.rows[0].ids[1 : kept + 1]) == request[:kept]
    # Where both fit, nothing is cut, however long the question is.
    assert encode_head(tokenizer, SpanExtraction(QUESTION, "blue"), 24).truncated == 0


def test_a_context_without_tokens_has_a_row_all_the_same(tokenizer: Any) -> None:
    (row,) = encode_head(tokenizer, SpanExtraction("who", ""), 24).rows
    assert row.first_context_token == row.length and set(row.offsets) == {None}


def test_no_room_for_text_is_an_error(tokenizer: Any) -> None:
    with pytest.raises(ModelError, match="max_length: 4 tokens leave no room"):
        encode_head(tokenizer, Classification("a", ("x", "y")), 4)


def test_rows_are_padded_on_the_right() -> None:
    rows = [HeadRow((7, 8, 9), (0, 1, 1)), HeadRow((5,), (1,))]
    assert pad_rows(rows, 2, takes_types=True, pad_type_id=4) == {
        "input_ids": [[7, 8, 9], [5, 2, 2]],
        "attention_mask": [[1, 1, 1], [1, 0, 0]],
        "token_type_ids": [[0, 1, 1], [1, 4, 4]],
    }
    assert "token_type_ids" not in pad_rows(rows, 2, takes_types=False)
