"""IFEval's checks, each followed by one text and not by another; sentence and word counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from assay.core.documents import Document
from assay.core.errors import DataError
from assay.scoring.instructions.checks import CHECKS
from assay.scoring.instructions.sentences import capital_word_count, sentence_count, word_count
from assay.scoring.scorers.generated_answer import AnswerView
from assay.scoring.scorers.instruction_following import InstructionsFollowed, PromptFollowed, followed

CASES: list[tuple[str, Mapping[str, Any], str, str]] = [
    ("keywords:existence", {"keywords": ["Cat", "dog"]}, "a dog, a cat", "a dog"),
    ("keywords:frequency", {"keyword": "cat ", "frequency": 2, "relation": "at least"}, "Cat cat", "cat"),
    ("keywords:frequency", {"keyword": "cat", "frequency": 2, "relation": "less than"}, "cat", "cat cat"),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "category", "a Cat!"),
    ("keywords:letter_frequency", {"letter": "A", "let_frequency": 2, "let_relation": "at least"}, "aA", "a"),
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": "at least"}, "#a #b", "#a"),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "less than"}, "One.", "One. Two."),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "one two-three", "one two"),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb\n***\n", "a\n***\n***\nb"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"},
        "One.\n\n'then, two",
        "One.\n\nNext then",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] [b]", "[a]"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye.\np. s. more", "Bye. PS more"),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "x\nP.P.S more", "x\nP.S. more"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a\n** b **"),
    ("detectable_format:constrained_response", {}, "My answer is no.", "No."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* *b*", "*a* * *"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1\na\nSection 2\nb",
        "Section one Section 2",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": [1]}\n```', "{a: 1}"),
    ("detectable_format:title", {}, "<<Joy>>\ntext", "<<  >>"),
    ("combination:two_responses", {}, "one ****** two", "one ****** one"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say hi."}, "say hi. Hi!", "Hi! Say hi."),
    ("startend:end_checker", {"end_phrase": "The end. "}, 'And so on. "the END."', "The end. Really."),
    ("startend:quotation", {}, ' "quoted" ', '"'),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        "NO WAY",
        "NO way",
    ),
    ("punctuation:no_comma", {}, "no comma", "one, two"),
]


@pytest.mark.parametrize(("name", "arguments", "right", "wrong"), CASES)
def test_check_tells_texts_apart(name: str, arguments: Mapping[str, Any], right: str, wrong: str) -> None:
    assert CHECKS[name](right, arguments) is True
    assert CHECKS[name](wrong, arguments) is False


def test_there_are_25_checks_and_all_but_those_of_language_are_covered() -> None:
    untested = {"language:response_language", "change_case:english_capital", "change_case:english_lowercase"}
    assert len(CHECKS) == 25
    assert set(CHECKS) - {case[0] for case in CASES} == untested


def test_languages_are_guessed_alike_in_every_run() -> None:
    pytest.importorskip("langdetect")
    german = "Das ist ein deutscher Satz über das Wetter von morgen."
    assert CHECKS["language:response_language"](german, {"language": "de"})
    assert CHECKS["change_case:english_lowercase"]("this is a sentence about the weather.", {})
    assert not CHECKS["change_case:english_capital"]("THIS is mixed", {})


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("No stop at all", 1),
        ("One. Two! Three?", 3),
        ("Dr. Smith met Mr. Jones at 3.5 p.m. on Monday.", 1),
        ('He said "Stop." Then he left.', 2),
        ("We saw cats, dogs, etc. in the yard.", 1),
        ("Wait... what? Yes.", 2),
        ("She lives in the U.S. She likes it.", 2),
        ("First line.\n\nSecond line", 2),
    ],
)
def test_sentences_by_hand(text: str, count: int) -> None:
    assert sentence_count(text) == count


def test_words_and_capital_words_by_hand() -> None:
    assert word_count("It's a well-known fact_1.") == 6
    assert capital_word_count("I DON'T like NASA, (USA) or U.S. laws: NO") == 7


ROW = Document(
    "ifeval",
    3,
    {
        "instruction_id_list": ["punctuation:no_comma", "startend:quotation"],
        "kwargs": [{"num_words": None}, {"num_words": None}],
    },
)


def test_strict_and_loose_values() -> None:
    text = 'Sure, here it is:\n"No comma here"'
    assert followed(text, ROW, is_loose=False) == [False, False]
    assert followed(text, ROW, is_loose=True) == [True, True]
    view = AnswerView((text, '"a, b"'), ())
    assert InstructionsFollowed(False)(view, {}, ROW) == (1.0, 4.0)
    assert PromptFollowed(True)(view, {}, ROW) == 0.5


def test_an_empty_text_follows_nothing() -> None:
    assert followed(" \n", ROW, is_loose=True) == [False, False]


def test_unknown_instruction_names_the_nearest() -> None:
    row = Document("ifeval", 0, {"instruction_id_list": ["punctuation:no_coma"], "kwargs": [{}]})
    with pytest.raises(DataError, match="punctuation:no_comma"):
        followed("text", row, is_loose=False)
