"""`assay ls`: every noun as a table and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
KNOWN = {
    "tasks": "demo_cloze",
    "groups": "demo_arithmetic",
    "models": "ngram",
    "metrics": "exact_match",
    "filters": "multi_choice_regex",
    "styles": "letter+text",
    "methods": "opencompass",
    "profiles": "olmes",
}


@pytest.mark.parametrize(("noun", "name"), KNOWN.items())
def test_every_noun_has_its_list(cli: Cli, noun: str, name: str) -> None:
    done = cli("ls", noun)
    assert (done.code, done.err) == (0, "")
    assert name in done.out
    rows = json.loads(cli("ls", noun, "--json").out)
    assert name in [row["name"] for row in rows]
    assert done.out.splitlines()[-1] == f"{len(rows)} {noun}"


def test_a_text_narrows_the_list(cli: Cli) -> None:
    rows = json.loads(cli("ls", "tasks", "SCRAMBLE_C", "--json").out)
    assert [row["name"] for row in rows] == ["demo_scramble_cycle"]
    assert cli("ls", "tasks", "zzz").out.splitlines()[-1] == "0 tasks"


def test_names_alone_are_the_tasks_of_a_run(cli: Cli, task_folder: Path) -> None:
    done = cli("ls", "tasks", "colours", "--include_path", task_folder, "--format", "names")
    assert (done.out, done.err) == ("colours\n", "")
    tasks = cli("ls", "tasks", "arithmetic_2d", "colours", "--format", "names").out
    assert tasks == "" and cli("run", "--model", "dummy", "--tasks", tasks).code == 2
    assert "ngram" in cli("ls", "models", "--format", "names").out.split("\n")


def test_a_search_that_finds_nothing_says_what_to_do_next(cli: Cli) -> None:
    done = cli("ls", "tasks", "demo_clze")
    assert done.out.splitlines()[-1] == "0 tasks" and "Similar names: demo_cloze" in done.err
    assert "See: assay ls groups open-llm" in cli("ls", "tasks", "open-llm", "--format", "json").err
    nothing = cli("ls", "tasks", "zzzz").err
    assert "lm_eval/ zzzz" in nothing or "See: assay ls tasks" in nothing


def test_tasks_whose_data_is_in_a_folder(cli: Cli, task_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_quiz(task_folder)
    data = task_folder.parent / "data"
    (data / "owner/quiz/algebra").mkdir(parents=True)
    own = ("--include_path", task_folder)
    search = ("ls", "tasks", "quiz", *own)
    none = cli(*search, "--data", data)
    assert f"0 tasks of 2, with their data in {data}" in none.out
    assert f"assay data get --tasks quiz_algebra quiz_botany --to {data}" in none.err.replace("\n", "")
    for split in ("test", "train"):
        (data / f"owner/quiz/algebra/{split}.jsonl").write_text('{"q": "1?", "c": ["a", "b"], "a": 0}\n')
        names = cli("ls", "tasks", *own, "--data", data, "--format", "names").out.split()
        # Five examples are drawn from the evaluated split; a file of the user's own needs no folder.
        assert {"quiz_algebra", "colours", "demo_cloze"} <= set(names)
        assert not {"quiz_botany", "hellaswag"} & set(names)
    monkeypatch.setenv("ASSAY_DATA", str(data))
    done = cli(*search)
    assert "quiz_algebra" in done.out and f"1 task of 2, with their data in {data}" in done.out
    assert (
        cli("run", "--model", "dummy", "--limit", "1", "--num_fewshot", "0", *own, "--tasks", "quiz_algebra").code == 0
    )
    assert cli("ls", "metrics", "--data", data).err.startswith("error: --data: given for metrics")


def test_what_else_keeps_a_task_from_running_is_said(cli: Cli, task_folder: Path, tmp_path: Path) -> None:
    code = (task_folder / "colours.yaml").read_text().replace("task: colours", "task: coded")
    (task_folder / "coded.yaml").write_text(f"{code}process_docs: !function own.rows\n")
    (task_folder / "own.py").write_text("def rows(data):\n    return data\n")
    done = cli("ls", "tasks", "co", "--include_path", task_folder, "--data", tmp_path, "--format", "names")
    assert "colours" in done.out.split() and "coded" not in done.out.split()
    said = done.err.replace("\n", " ")
    assert "1 task left out, such as coded: " in said and "is Python code that task files want to run" in said


def test_words_are_searched_in_name_description_family_and_metric(cli: Cli, task_folder: Path) -> None:
    write_quiz(task_folder)

    def names(*words: str) -> list[str]:
        return [row["name"] for row in json.loads(cli("ls", "tasks", *words, "--include_path", task_folder).out)]

    everything = ["quiz_algebra", "quiz_botany"]
    for word in ("ALL OF SCHOOL", "exams", "acc_norm", "fr"):
        assert [name for name in names(word, "--json") if name.startswith("quiz")] == everything, word
    assert names("school", "algebra", "--json") == ["quiz_algebra"]
    assert names("school", "nothing", "--json") == []


QUIZ = """\
task: quiz
dataset_path: owner/quiz
test_split: test
output_type: multiple_choice
doc_to_text: q
doc_to_choice: c
doc_to_target: a
num_fewshot: 5
card: {description: Questions of all of school., family: exams, primary: acc_norm, languages: [fr]}
configurations: {algebra: {}, botany: {}}
"""


def write_quiz(folder: Path) -> None:
    (folder / "quiz.yaml").write_text(QUIZ, encoding="utf-8")


def test_a_listed_task_has_everything_that_is_known(cli: Cli, task_folder: Path) -> None:
    write_quiz(task_folder)
    row = json.loads(cli("ls", "tasks", "quiz_algebra", "--include_path", task_folder, "--json").out)[0]
    assert row == {
        "name": "quiz_algebra",
        "description": "Questions of all of school.",
        "family": "exams",
        "metric": "acc_norm",
        "shots": "5",
        "languages": "fr",
        "type": "multiple_choice",
        "tags": "",
        "group": "quiz",
        "file": str(task_folder / "quiz.yaml"),
    }
    row = json.loads(cli("ls", "groups", "exams", "--include_path", task_folder, "--json").out)[0]
    assert (row["name"], row["tasks"], row["members"]) == ("quiz", "2", "quiz_algebra, quiz_botany")


def test_all_configurations_are_one_row_and_some_are_rows_of_their_own(cli: Cli, task_folder: Path) -> None:
    write_quiz(task_folder)
    folder = ("--include_path", task_folder)
    every = cli("ls", "tasks", "quiz", "exams", *folder).out
    assert " quiz " in every and "2 tasks: Questions of all of school." in every and "quiz_algebra" not in every
    assert every.splitlines()[-1] == "2 tasks"
    assert "quiz_botany" in cli("ls", "tasks", "quiz", "exams", "--long", *folder).out
    some = cli("ls", "tasks", "botany", *folder).out
    assert "quiz_botany" in some and some.splitlines()[-1] == "1 task"


def test_a_narrow_listing_keeps_names_whole_and_leaves_out_files(
    cli: Cli, task_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quiz(task_folder)
    monkeypatch.setenv("COLUMNS", "80")
    folder = ("--include_path", task_folder)
    out = cli("ls", "tasks", *folder).out
    assert re.search("  demo_scramble_insertion +exact_match +3 shots +en\n    Restore a word", out)
    assert "\ndemo\n" in out and "\nexams\n" in out and ".yaml" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "  quiz  acc_norm  2 tasks  fr\n    Questions of all of school." in cli("ls", "groups", "exams", *folder).out
    monkeypatch.setenv("COLUMNS", "120")
    assert "Family" in cli("ls", "tasks", "--include_path", task_folder).out
    assert "quiz.yaml" in "".join(cli("ls", "groups", "exams", "--long", "--include_path", task_folder).out.split())


def test_tags_and_tasks_of_a_folder(cli: Cli, task_folder: Path) -> None:
    rows = json.loads(cli("ls", "tags", "--include_path", task_folder, "--json").out)
    assert next(row for row in rows if row["name"] == "paint") == {"name": "paint", "members": "colours", "file": ""}
    (row,) = json.loads(cli("ls", "tasks", "colours", "--include-path", task_folder, "--json").out)
    assert (row["type"], row["tags"]) == ("multiple_choice", "paint")


def test_broken_files_of_a_folder_are_noted(cli: Cli, task_folder: Path) -> None:
    (task_folder / "bad.yaml").write_text("task: [\n", encoding="utf-8")
    done = cli("ls", "tasks", "--include_path", task_folder, "--json")
    assert done.code == 0
    assert "note: task file left out: " in done.err
    assert "colours" in [row["name"] for row in json.loads(done.out)]


def test_runs_are_listed_newest_first(cli: Cli, task_folder: Path) -> None:
    assert json.loads(cli("ls", "runs", "--json").out) == []
    for _ in range(2):
        cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    rows = json.loads(cli("ls", "runs", "--json").out)
    assert [(row["status"], row["model"], row["tasks"]) for row in rows] == [("finished", "dummy", "colours")] * 2
    assert rows[0]["run"] != rows[1]["run"]


def test_an_unknown_noun_is_reported_with_the_known_ones(cli: Cli) -> None:
    done = cli("ls", "colours")
    assert done.code == 2
    assert 'is "colours"' in done.err and "metrics" in done.err


def test_a_folder_that_is_not_there_is_reported(cli: Cli, tmp_path: Path) -> None:
    done = cli("ls", "tasks", "--include_path", tmp_path / "nowhere")
    assert (done.code, "--include_path: no folder" in done.err) == (2, True)


def test_tags_and_types_narrow_the_tasks(cli: Cli, task_folder: Path) -> None:
    def names(*words: str) -> list[str]:
        return [row["name"] for row in json.loads(cli("ls", "tasks", *words, "--json").out)]

    assert names("--include_path", str(task_folder), "--tag", "paint") == ["colours"]
    assert {"demo_questions", "demo_questions_letters"} <= {*names("--output-type", "multiple_choice")}
    assert "demo_cloze" not in names("--output-type", "multiple_choice")
    assert names("--tag", "nothing") == []


def test_profiles_report_source_rules_and_deviations(cli: Cli) -> None:
    (row,) = json.loads(cli("ls", "profiles", "Holistic", "--json").out)
    assert (row["name"], row["source"].splitlines()[0]) == ("helm", "repository: stanford-crfm/helm")
    assert (
        row["rules"].splitlines()[0].startswith("mmlu_* without mmlu_pro_*, mmlu_redux_*: exact_match, 5-shot balanced")
    )
    shown = " ".join(cli("ls", "profiles", "Holistic").out.split())
    assert "deviations Documents are those of the task file" in shown
