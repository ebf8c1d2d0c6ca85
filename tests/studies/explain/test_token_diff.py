"""Two requests token by token."""

from __future__ import annotations

from assay.core.protocols import TokenView
from assay.studies.explain.token_diff import token_lines


def view(context: list[int], scored: list[int]) -> TokenView:
    def pieces(ids: list[int]) -> tuple[str, ...]:
        return tuple(f"t{number}" for number in ids)

    return TokenView(tuple(context), tuple(scored), pieces(context), pieces(scored))


def test_the_same_tokens_have_nothing_to_tell() -> None:
    assert token_lines(view([1, 2], [3]), view([1, 2], [3])) == []


def test_a_missing_bos_is_named() -> None:
    lines = token_lines(view([9, 1, 2], [3]), view([1, 2], [3]))
    assert lines[0] == "the first begins with token 9 and the other does not"
    assert lines[1] == "4 → 3 tokens, the same up to token 0"


def test_a_second_bos_is_named() -> None:
    assert (
        token_lines(view([9, 1], [3]), view([9, 9, 1], [3]))[0]
        == "the second begins with token 9 twice, the other once"
    )


def test_the_first_tokens_that_differ_are_shown() -> None:
    lines = token_lines(view([1, 2, 3], [4]), view([1, 2, 5], [4]))
    assert lines == ["4 → 4 tokens, the same up to token 2", "first:  3:'t3' 4:'t4'", "second: 5:'t5' 4:'t4'"]


def test_one_that_ends_earlier_is_shown() -> None:
    assert token_lines(view([1, 2], [3]), view([1, 2], [3, 4]))[1:] == ["first:  (its end)", "second: 4:'t4'"]
