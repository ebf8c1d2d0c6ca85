"""The data and task files of the `demo` group, checked as files.

Takes the folder `library/demo` and the script that generates part of it; needs no model.
"""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "src/assay/tasks/library/demo"
SCRIPT = ROOT / "scripts/make_demo_data.py"
YAML_FILES = sorted(DEMO.glob("*.yaml"))
SCRAMBLES = ["cycle", "anagram1", "anagram2", "insertion", "reversed"]


def rows(name: str) -> list[dict[str, Any]]:
    lines = (DEMO / "data" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def merged(path: Path) -> dict[str, Any]:
    """Read the task file with its include chain, where the file's own keys win."""
    config: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "include" in config:
        return merged(path.parent / config.pop("include")) | config
    return config


def scramble_fits(kind: str, scrambled: str, word: str) -> bool:
    """Whether the scramble could have been made from the word in this way."""
    if kind == "cycle":
        fits = len(scrambled) == len(word) and scrambled in word + word
    elif kind == "insertion":
        marks = scrambled[1::2]
        fits = scrambled[::2] == word and not any(mark.isalnum() for mark in marks)
    elif kind == "reversed":
        fits = scrambled == word[::-1]
    else:
        kept = int(kind[-1])
        ends = (word[:kept], word[-kept:])
        fits = sorted(scrambled) == sorted(word) and (scrambled[:kept], scrambled[-kept:]) == ends
    return fits and scrambled != word


def wrong_choices(row: dict[str, Any]) -> list[str]:
    return [choice for i, choice in enumerate(row["choices"]) if i != row["answer"]]


def test_regenerating_gives_the_same_bytes(tmp_path: Path) -> None:
    runpy.run_path(str(SCRIPT))["write_all"](tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert len(written) == 9
    for name in written:
        assert (tmp_path / name).read_bytes() == (DEMO / "data" / name).read_bytes()


@pytest.mark.parametrize("digits", [2, 3, 4, 5])
def test_arithmetic_answers_are_right(digits: int) -> None:
    documents = rows(f"arithmetic_{digits}d.jsonl")
    for row in documents:
        left, word, right = row["question"].removeprefix("What is ").rstrip("?").split()
        a, b = int(left), int(right)
        assert row["answer"] == str(a + b if word == "plus" else a - b)
        assert row["operation"] == {"plus": "addition", "minus": "subtraction"}[word]
        assert max(a, b) < 10**digits
    assert Counter(row["operation"] for row in documents) == {"addition": 30, "subtraction": 30}
    assert len({row["question"] for row in documents}) == 60


@pytest.mark.parametrize("kind", SCRAMBLES)
def test_scrambles_belong_to_their_words(kind: str) -> None:
    documents = rows(f"scramble_{kind}.jsonl")
    assert all(scramble_fits(kind, row["scrambled"], row["word"]) for row in documents)
    assert len({row["word"] for row in documents}) == 40


@pytest.mark.parametrize("kind", SCRAMBLES)
def test_scramble_examples_fit_and_are_not_tested(kind: str) -> None:
    config = merged(DEMO / f"demo_scramble_{kind}.yaml")
    examples = config["fewshot_config"]["samples"]
    assert len(examples) == config["num_fewshot"] == 3
    assert all(scramble_fits(kind, row["scrambled"], row["word"]) for row in examples)
    tested = {row["word"] for row in rows(f"scramble_{kind}.jsonl")}
    assert not tested & {row["word"] for row in examples}


def test_no_two_words_share_their_letters() -> None:
    words = runpy.run_path(str(SCRIPT))["WORDS"]
    assert all(5 <= len(word) <= 10 for word in words)
    assert len({"".join(sorted(word)) for word in words}) == len(words)


def test_questions_are_well_formed() -> None:
    questions = rows("questions.jsonl")
    assert len(questions) == len({row["id"] for row in questions}) == 120
    assert len({row["question"] for row in questions}) == 120
    assert set(Counter(row["subject"] for row in questions).values()) == {10}
    assert all(len(set(row["choices"])) == len(row["choices"]) == 4 for row in questions)
    positions = Counter(row["answer"] for row in questions)
    assert positions == {0: 30, 1: 30, 2: 30, 3: 30}


def test_right_answers_are_not_given_away_by_length() -> None:
    questions = rows("questions.jsonl")
    right = [len(row["choices"][row["answer"]]) for row in questions]
    wrong = [[len(choice) for choice in wrong_choices(row)] for row in questions]
    assert mean(right) == pytest.approx(mean(map(mean, wrong)), rel=0.1)
    longest = mean(own > max(others) for own, others in zip(right, wrong, strict=True))
    assert 0.2 <= longest <= 0.3


def test_cloze_contexts_stop_before_the_word() -> None:
    passages = rows("cloze.jsonl")
    assert len({row["context"] for row in passages}) == 60
    for row in passages:
        assert row["word"].isalpha()
        assert row["context"] == row["context"].strip()
        assert row["context"].split()[-1].strip('".,:').lower() != row["word"].lower()


def test_texts_have_the_promised_length() -> None:
    texts = rows("text.jsonl")
    assert len({row["register"] for row in texts}) == len(texts) == 8
    assert all(180 <= len(row["text"].split()) <= 260 for row in texts)
    assert all(row["text"] == row["text"].strip() for row in texts)


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.stem)
def test_task_files_parse_and_name_existing_data(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")
    config = merged(path)
    named = config.get("dataset_kwargs", {}).get("data_files", {})
    assert all((DEMO / file).is_file() for file in named.values())
    if "task" in config and "group" not in config:
        assert path.stem == config["task"]
        assert config["test_split"] in named
    assert config["metadata"] == {"version": 1.0}


def test_group_members_exist_and_every_task_is_reached() -> None:
    configs = {path.stem: merged(path) for path in YAML_FILES if path.stem.startswith("demo")}
    reached, waiting = set(), ["demo"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        if "group" in configs[name]:
            waiting += configs[name]["task"]
    assert reached == set(configs)


def test_every_data_file_is_used() -> None:
    named = set()
    for path in YAML_FILES:
        named |= set(merged(path).get("dataset_kwargs", {}).get("data_files", {}).values())
    present = {f"data/{path.name}" for path in (DEMO / "data").iterdir()}
    assert present == named


def test_lines_end_in_a_newline_without_blanks() -> None:
    for path in (DEMO / "data").iterdir():
        text = path.read_text(encoding="utf-8")
        assert text.endswith("\n")
        assert "\n\n" not in text
