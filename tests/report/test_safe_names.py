"""Names for files and screens."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.report.safe_names import broken_name, file_name, model_name, printable, shortened

NASTY = st.text(st.characters(codec=None) | st.sampled_from("./\\:\x00\n"), max_size=300)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/model-7b", "org__model-7b"),
        ('a"<b>:c|\\?*[d]', "a__b__c__d__"),
        ("../../etc/passwd", "__..__etc__passwd"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("/", "__"),
        (".hidden", "hidden"),
        ("two words\n", "two__words__"),
        ("half \ud800 pair", "half__pair"),
        ("naïve 世界", "naïve__世界"),
    ],
)
def test_a_name_becomes_part_of_a_file_name(text: str, expected: str) -> None:
    assert file_name(text) == expected


@given(NASTY)
def test_a_name_can_neither_leave_its_folder_nor_be_too_long(text: str) -> None:
    name = file_name(text)
    assert name
    assert name not in (".", "..")
    assert os.path.basename(name) == name  # noqa: PTH119 - a text, not a path
    assert "\x00" not in name and "\\" not in name
    assert len(os.fsencode(name)) <= 120


def test_the_end_of_a_long_name_is_kept() -> None:
    assert file_name("x" * 500 + "-7b").endswith("x-7b")
    assert len(file_name("世" * 500)) == 40


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"pretrained": "a/b", "peft": "c/d"}, "c/d"),
        ({"pretrained": "a/b", "model": "x"}, "a/b"),
        ({"path": "/m"}, "/m"),
        ({"dtype": "auto", "pretrained": ""}, "hf"),
    ],
)
def test_a_model_is_called_by_lm_evals_rule(arguments: dict[str, str], expected: str) -> None:
    assert model_name("hf", arguments) == expected


def test_control_characters_and_direction_marks_are_neutralised() -> None:
    assert printable("a\x1b[31mred\x07\r\x9b\u202eevil\u2066") == "a�[31mred����evil�"
    assert printable("tab\tline\nü 世界 🙂") == "tab\tline\nü 世界 🙂"


@given(NASTY)
def test_what_is_printable_can_be_written(text: str) -> None:
    shown = printable(text)
    assert len(shown.encode("utf-8")) >= len(text)
    assert "\x1b" not in shown


def test_a_long_name_is_broken_at_its_joints() -> None:
    assert broken_name("arc_challenge", 16) == "arc_challenge"
    assert broken_name("mmlu_high_school_history", 12) == "mmlu_high_\nschool_\nhistory"
    assert broken_name("Qwen2.5-0.5B", 8) == "Qwen2.5-\n0.5B"


def test_a_name_without_joints_is_broken_anyway_and_cut_at_the_last_line() -> None:
    assert broken_name("abcdefgh", 3) == "abc\ndef\ngh"
    assert broken_name("abcdefghijk", 3) == "abc\ndef\ngh…"
    assert broken_name("", 3) == ""


def test_a_shortened_name_keeps_both_ends() -> None:
    assert shortened("HuggingFaceTB/SmolLM2", 11) == "Huggi…olLM2"
    assert shortened("short", 5) == "short"
