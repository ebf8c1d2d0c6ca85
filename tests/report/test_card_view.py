"""Cards on the terminal: every fact, in lines that fit."""

from __future__ import annotations

from typing import Any

from assay.report.card_view import card_lines

LINK = "https://example.org/" + "a-very-long-path-with-hyphens/" * 4
FACTS: dict[str, Any] = {
    "name": "quiz",
    "title": "The Quiz",
    "description": "Questions of all subjects of school and of some that no school has ever heard of, in one line.",
    "family": "exams",
    "languages": ["en", "fr"],
    "dataset": "owner/quiz",
    "evaluated": "test",
    "rows": {"train": 1000, "test": 200},
    "shots": 5,
    "metrics": ["acc", "acc_norm"],
    "primary": "acc_norm",
    "primary_reason": "Choices differ in length.",
    "chance": 0.25,
    "majority": 0.3,
    "lm_eval": {"task": "quizz", "same": False, "differs": "no header, as in the paper"},
    "homepage": LINK,
    "traps": ["Some keys are wrong."],
    "references": [
        {"model": "gpt2", "metric": "acc", "value": 0.5, "shots": 0, "source": "a paper"},
        {"model": "gpt2-xl", "metric": "acc", "value": 0.61, "shots": 0, "source": "a paper"},
    ],
}


def test_every_fact_is_shown() -> None:
    lines = list(card_lines(FACTS, 80))
    assert lines[0] == "quiz: The Quiz"
    for line in (
        "  languages  en, fr",
        "  rows       train 1,000, test 200 (evaluated)",
        "  primary    acc_norm: Choices differ in length.",
        "  chance     0.25; always the commonest class: 0.3",
        "  lm-eval    differs from quizz: no header, as in the paper",
        "  - Some keys are wrong.",
        "    gpt2-xl  acc     0.61   0",
    ):
        assert line in lines


def test_lines_fit_and_links_stay_whole() -> None:
    lines = list(card_lines(FACTS, 60))
    assert [line for line in lines if len(line) > 60] == [f"  homepage   {LINK}"]


def test_a_metric_may_have_no_level_of_chance() -> None:
    assert "  chance     none for this metric" in card_lines({"name": "t", "chance": None}, 80)
    assert not any("chance" in line for line in card_lines({"name": "t"}, 80))


def test_a_group_lists_its_tasks() -> None:
    tasks = [{"name": "a", "primary": "acc", "chance": 0.5, "rows": {"test": 10}}, {"name": "long_name"}]
    assert list(card_lines({"name": "g", "tasks": tasks}, 80))[-3:] == [
        "    name       metric  chance  rows",
        "    a          acc     0.5     test 10",
        "    long_name",
    ]


def test_a_table_that_is_too_wide_has_its_columns_below_the_name() -> None:
    task = {"name": "quiz_" + "long_" * 8, "primary": "acc_norm", "chance": 0.25, "shots": 3, "rows": {"test": 9000}}
    lines = list(card_lines({**FACTS, "tasks": [task]}, 60))
    assert lines[-2:] == [f"    {task['name']}", "      metric acc_norm, chance 0.25, shots 3, rows test 9,000"]
