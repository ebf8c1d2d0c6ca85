"""Tasks that read the user's own copy of a dataset, from the working folder: they meet the contract, too."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from assay.tasks.catalog import LIBRARY
from assay.tasks.lm_eval.file.configurations import defined_files
from assay.tasks.lm_eval.file.yaml_reader import read_task_file
from assay.testing import check_benchmarks
from tests.library.conftest import all_tasks_of, family_names, reads_own_copy

STORIES = {
    "storycloze_2016": "cloze_test_val__spring2016 - cloze_test_ALL_val.csv",
    "storycloze_2018": "cloze_test_val__winter2018-cloze_test_ALL_val - 1 - 1.csv",
}
TEST_STORIES = "cloze_test_test__spring2016 - cloze_test_ALL_test.csv"


def findings(names: list[str]) -> list[str]:
    checked = check_benchmarks(names, limit=8)
    assert all(task.documents for task in checked if not task.skipped)
    return [str(finding) for task in checked for finding in task.findings if finding.is_fault]


def parts_of_the_pile() -> dict[str, str]:
    """Task → the part's name in the data."""
    files = defined_files(read_task_file(LIBRARY / "language_modeling" / "pile.yaml")).values()
    tasks = [file.data for file in files if "group" not in file.data]
    return {data["task"]: data["keep_docs"]["meta.pile_set_name"] for data in tasks}


def test_every_part_of_the_pile_is_read_from_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of_the_pile()
    rows = [{"text": f"{word} of {part}.", "meta": {"pile_set_name": part}} for part in parts.values() for word in "ab"]
    (tmp_path / "pile_test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert len(parts) == 22
    assert findings(list(parts)) == []


@pytest.mark.parametrize("name", STORIES)
def test_stories_are_read_from_the_authors_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = [f"InputSentence{number}" for number in range(1, 5)]
    columns = ["InputStoryid", *sentences, "RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2", "AnswerRightEnding"]
    for file in (STORIES[name], TEST_STORIES):
        with (tmp_path / file).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            for number in range(5):
                story = ["Ida had a hen.", f"It laid {number} eggs.", "She wanted a cake.", "She took a bowl."]
                writer.writerow(
                    [number, *story, f"She baked cake {number}.", f"She sold hen {number}.", number % 2 + 1]
                )
    monkeypatch.chdir(tmp_path)
    assert findings([name]) == []


def test_all_tasks_that_read_own_copies_are_checked_here() -> None:
    found = {task.card.name for family in family_names() for task in all_tasks_of(family) if reads_own_copy(task)}
    assert found == {*parts_of_the_pile(), *STORIES}
