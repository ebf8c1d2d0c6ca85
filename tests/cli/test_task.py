"""`assay task new`: what it saw, the file, prompts, the contract and the next commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.cli.main import main


@pytest.fixture
def quiz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"What is {n} plus 20?", "choices": [f"{n + 20}", f"{n}"], "answer": n % 2} for n in range(8)]
    Path("sums.jsonl").write_text("".join(json.dumps({**row, "id": 1}) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def test_a_new_task_is_shown_checked_and_explained(quiz: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["task", "new", "sums.jsonl", "-o", "mine.yaml"]) == 0
    said = capsys.readouterr()
    assert "format: multiple_choice; certain" in said.out and "wrote mine.yaml" in said.out
    assert said.out.count("prompt: Question: What is") == 3
    assert "mine@letters" in said.out and "8 tasks, styles and heads: 0 faults" in said.out
    assert "assay run --model ngram --tasks mine.yaml" in said.out
    assert main(["run", "--model", "dummy", "--tasks", "mine.yaml", "--store", "s.db"]) == 0


def test_a_task_that_breaks_the_contract_is_written_all_the_same(
    quiz: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"question": f"It is colour{n}. What is it?", "answer": f"colour{n}"} for n in range(8)]
    Path("leaks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert main(["task", "new", "leaks.jsonl"]) == 2
    assert "leak: the question contains the right answer" in capsys.readouterr().err
    assert Path("leaks.yaml").exists()


def test_corrections_are_options(quiz: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--kind", "text_to_text", "--source", "question", "--target", "{{choices[0]}}", "--rows", "4"]
    assert main(["task", "new", "sums.jsonl", *words]) == 0
    said = capsys.readouterr().out
    assert "format: text_to_text" in said and "Question: {{question}}" in said
    assert main(["check", "sums.yaml"]) == 0
    assert "note: sums.yaml:" in capsys.readouterr().out


def test_doubts_go_to_standard_error(quiz: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["task", "new", "sums.jsonl", "--kind", "classification", "--text", "question"]) == 0
    assert "doubt: the classes of answer have no names: say --labels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sums.jsonl", "--kind", "quiz"], 'error: --kind: is "quiz"'),
        (["sum.jsonl"], 'does not exist (did you mean "sums.jsonl"?)'),
        (["sums.jsonl", "--answer", "anser"], 'has no column "anser" (did you mean "answer"?)'),
    ],
)
def test_mistakes_are_errors(quiz: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["task", "new", *words]) == 2
    assert message in capsys.readouterr().err and not list(quiz.glob("*.yaml"))
