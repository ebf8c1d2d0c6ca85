"""`assay show`: a document as it would be evaluated."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from assay.core.documents import Document
from assay.core.requests import ChoiceSelection, Classification, Instance, Request, SpanExtraction
from assay.report.document_view import print_document

Cli = Callable[..., Any]


def test_prompt_answers_and_target(cli: Cli, task_folder: Path) -> None:
    done = cli("show", "colours", "--doc", "4", "--include_path", task_folder)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("colours, document 4")
    assert lines[1:] == [
        "prompt: Colour 4?",
        "continuation 0: ' red'",
        "continuation 1: ' green'",
        "continuation 2: ' blue'",
        "target: 1",
        "gold: 1",
    ]


def test_what_is_odd_about_a_document_is_shown(cli: Cli, task_folder: Path) -> None:
    words = ["--include_path", task_folder, "--num_fewshot", "9"]
    found = [cli("show", "colours", "--doc", str(place), *words).out for place in range(9)]
    assert any("note: documents were drawn among their own few-shot examples" in out for out in found)
    assert "note" not in cli("show", "colours", "--include_path", task_folder).out


def test_a_generation_shows_its_settings(cli: Cli) -> None:
    done = cli("show", "demo_scramble_cycle", "--gen_kwargs", "do_sample=true,temperature=0.5,max_gen_toks=9")
    assert "generation: at most 9 tokens, temperature 0.5, stops: '\\n'" in done.out


def test_a_whole_text_is_shown(cli: Cli) -> None:
    assert "\ntext: " in cli("show", "demo_text").out


def test_a_group_shows_a_document_of_each_task(cli: Cli) -> None:
    out = cli("show", "demo_arithmetic").out
    assert [f"demo_arithmetic_{n}d, document 0" in out for n in (2, 3, 4, 5)] == [True] * 4


def test_a_file_may_be_named(cli: Cli, task_folder: Path) -> None:
    assert "Colour 0?" in cli("show", task_folder / "colours.yaml").out


def test_a_conversation_shows_its_roles(cli: Cli, task_folder: Path) -> None:
    words = ["--num_fewshot", "1", "--apply_chat_template", "--system_instruction", "Be brief.", "--model", "dummy"]
    out = cli("show", "colours", "--include_path", task_folder, *words).out
    assert "<system> Be brief.\n<user> Colour " in out
    assert "\n<assistant> " in out


def test_data_that_looks_like_markup_is_shown_as_it_is(cli: Cli, task_folder: Path) -> None:
    path = task_folder / "colours.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("{{q}}", "{{note}}"), encoding="utf-8")
    assert "prompt: [red]x[/red]" in cli("show", path).out


def test_a_model_without_tokens_shows_none(cli: Cli, task_folder: Path) -> None:
    words = ["show", "colours", "--include_path", task_folder]
    for model in ("dummy", "ngram"):
        assert cli(*words, "--model", model).out == cli(*words).out


def test_a_model_with_tokens_shows_them(process: Cli, task_folder: Path) -> None:
    done = process("show", "colours", "--include_path", task_folder, "--model", "acme/words")
    assert done.code == 0, done.err
    assert "  context, 2 tokens: 0:'Colour' 1:'0?'" in done.out
    assert "  scored, 1 tokens: 0:'Colour' 1:'0?' ‖ 0:'blue'" in done.out


@pytest.mark.parametrize("place", ["20", "-1"])
def test_a_place_outside_is_reported(cli: Cli, task_folder: Path, place: str) -> None:
    done = cli("show", "colours", f"--doc={place}", "--include_path", task_folder)
    assert done.code == 2
    assert f"error: task colours: has no document {place}; expected a place from 0 to 19\n" == done.err


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Classification("Wet.", ("yes", "no"), "Dry."), "classification: Wet.\npair: Dry.\nlabels: yes, no\n"),
        (ChoiceSelection("Which?", ("red", "blue")), "choosing: Which?\nchoice 0: red\nchoice 1: blue\n"),
        (SpanExtraction("Who?", "Ann.", True), "span: Who?\ncontext: Ann.\nmay lack: an empty answer is an answer\n"),
    ],
)
def test_requests_to_heads_are_shown_part_by_part(request_: Request, expected: str) -> None:
    written = StringIO()
    instance = Instance("toy", 0, (request_,), target=1)
    print_document(Console(file=written), Document("toy", 0, {}), instance)
    assert expected in written.getvalue()


def test_a_card_of_each_task_named(cli: Cli, task_folder: Path) -> None:
    done = cli("show", "hellaswag,colours", "--card", "--include_path", task_folder)
    assert (done.code, done.err) == (0, "")
    assert "  chance     0.25" in done.out and "published numbers" in done.out
    assert any(line.startswith("colours") for line in done.out.splitlines())
    assert cli("show", "helaswag", "--card").code == 2
