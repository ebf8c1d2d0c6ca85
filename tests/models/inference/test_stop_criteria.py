"""Stop strings: those of the whole text, whatever its last tokens say by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from assay.models.inference.stop_criteria import StopCriteria, StopRule, StopState

NEWLINE = "<0x0A>"
QUOTE = ("<0xE2>", "<0x80>", "<0x99>")


@pytest.fixture(scope="module")
def byte_pieces() -> Any:
    """A tokenizer with SentencePiece's byte pieces: a run of them that is not UTF-8 decodes to one `�` per byte."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    words = ["<s>", "</s>", "<unk>", "▁the", "▁sky", ".", "</think>", *(f"<0x{byte:02X}>" for byte in range(256))]
    backend = Tokenizer(models.BPE({word: place for place, word in enumerate(words)}, [], unk_token="<unk>"))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def ended_after(tokenizer: Any, pieces: tuple[str, ...], **settings: Any) -> list[int | None]:
    """After how many pieces an answer ends, alone and as a row of transformers' `generate`."""
    import torch

    ids = tokenizer.convert_tokens_to_ids(list(pieces))
    rule = StopRule(tokenizer, ("\n",), (1,), **settings)
    state, watch = StopState(rule), StopCriteria(rule, 0)
    counts = range(1, len(ids) + 1)
    alone = [count for count in counts if state.ending(ids[:count][-rule.width :], lambda n=count: ids[:n])]
    for count in counts:
        watch(torch.tensor([ids[:count]]), None)
    return [alone[0] if alone else None, watch.lengths.get(0)]


def test_bytes_that_are_a_line_end_only_by_themselves_do_not_stop(byte_pieces: Any) -> None:
    pieces = ("▁the", "<0xE2>", *("<0x41>",) * 6, NEWLINE, "<0x41>", "<0x41>", NEWLINE)
    text = byte_pieces.decode(byte_pieces.convert_tokens_to_ids(list(pieces)))
    assert "\n" not in text
    assert ended_after(byte_pieces, (*pieces, "▁sky")) == [None, None]


@pytest.mark.parametrize("quotes", [1, 2, 3, 5])
def test_a_line_end_behind_many_bytes_stops_at_once(byte_pieces: Any, quotes: int) -> None:
    pieces = ("▁the", *QUOTE * quotes, NEWLINE, *QUOTE, "▁sky")
    place = 2 + 3 * quotes
    assert ended_after(byte_pieces, pieces) == [place, place]


def test_stops_count_only_after_thinking_that_the_whole_text_ends(byte_pieces: Any) -> None:
    thinking = ("▁the", NEWLINE, "▁sky", "</think>", ".", ".", ".", ".", ".", ".", NEWLINE)
    for end in ("</think>", byte_pieces.convert_tokens_to_ids("</think>")):
        assert ended_after(byte_pieces, thinking, think_end=end) == [11, 11]
    assert ended_after(byte_pieces, thinking[:3], think_end="</think>") == [None, None]
