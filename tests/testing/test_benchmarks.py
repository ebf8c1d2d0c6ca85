"""The contract of a benchmark: every defect is found and named, and a sound task passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import assay
from assay.testing import Finding, check_benchmark, check_benchmarks, toy_generation_task, toy_perplexity_task
from assay.testing.benchmark_table import show_checked_tasks
from assay.testing.pattern_texts import matching_text

ROWS = [
    {"q": "Which animal lays eggs?", "options": ["hen", "cow", "goat"], "label": 0},
    {"q": "Which of these is a tool?", "options": ["rain", "hammer", "song"], "label": 1},
    {"q": "What falls in winter?", "options": ["books", "lamps", "snow"], "label": 2},
    {"q": "What opens a lock?", "options": ["a key", "a pear", "a cloud"], "label": 0},
]
SUMS = [{"q": f"What is {n} plus 20?", "a": f"We add {n} and 20.\n#### {n + 20}"} for n in (3, 14, 35, 71)]
CHOICE = {
    "output_type": "multiple_choice",
    "doc_to_text": "Question: {{q}}\nAnswer:",
    "doc_to_choice": "options",
    "doc_to_target": "label",
}
NUMBER = {
    "name": "number",
    "filter": [{"function": "regex", "regex_pattern": "#### (\\d+)"}, {"function": "take_first"}],
}
SUM = {
    "output_type": "generate_until",
    "doc_to_text": "{{q}}\nAnswer:",
    "doc_to_target": "{{a.split('#### ')[1]}}",
    "generation_kwargs": {"until": ["\n\n"]},
    "filter_list": [NUMBER],
    "metric_list": [{"metric": "exact_match"}],
}
Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a task file with its rows; returns its path."""

    def write(base: Mapping[str, Any], rows: list[dict[str, Any]], **changes: Any) -> str:
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        files = {"data_files": {"test": "rows.jsonl"}}
        task = {"task": "made", "dataset_path": "json", "dataset_kwargs": files, "test_split": "test", **base}
        path = tmp_path / "made.yaml"
        path.write_text(yaml.safe_dump({**task, **changes}))
        return str(path)

    return write


def faults(task: str, **settings: Any) -> list[Finding]:
    return [finding for finding in check_benchmark(task, **settings) if finding.is_fault]


def named(found: list[Finding]) -> set[str]:
    return {finding.check for finding in found}


def test_a_sound_task_passes_in_every_style_and_head(make: Make) -> None:
    checked = check_benchmarks(make(CHOICE, ROWS))
    assert [str(finding) for task in checked for finding in task.findings] == []
    assert {"made", "made@letters", "made@generate", "made@t5", "made (choosing head)"} <= {
        task.name for task in checked
    }
    assert all({"builds", "perfect", "corrupted", "chance"} <= task.done for task in checked)


def test_tasks_of_every_output_type_pass(make: Make) -> None:
    assert faults(make(SUM, SUMS)) == []
    assert check_benchmark([toy_generation_task(4), toy_perplexity_task(3)]) == []
    assert check_benchmark("demo", variants=False, limit=5) == []


@pytest.mark.parametrize(
    ("check", "changes"),
    [
        ("template", {"doc_to_text": "Question: {{q}} {{'{{'}}hint}}\nAnswer:"}),
        ("template", {"doc_to_text": "{{options}} Question: {{q | upper}} {{ {'a': 1} }}\nAnswer:"}),
        ("space", {"doc_to_text": "Question: {{q}}\nAnswer: "}),
        ("space", {"doc_to_text": "Question:  {{q}}\nAnswer:"}),
        ("leak", {"doc_to_text": "Question: {{q}} ({{options[label]}})\nAnswer:"}),
        ("distinct", {"doc_to_choice": "{{options | map('replace', 'cow', 'hen') | list}}"}),
        ("labels", {"doc_to_target": "{{label + 3}}"}),
        ("perfect", {"metric_list": [{"metric": "acc"}, {"metric": "brier_score", "higher_is_better": True}]}),
    ],
)
def test_a_defect_of_a_choice_task_is_named(make: Make, check: str, changes: dict[str, Any]) -> None:
    assert check in named(faults(make(CHOICE, ROWS, **changes), variants=False))


def test_white_space_at_the_edge_of_a_field_is_the_documents_own(make: Make) -> None:
    rows = [{**row, "options": [f"{option} " for option in row["options"]]} for row in ROWS]
    assert "space" not in named(faults(make(CHOICE, rows)))


def test_more_choices_than_letters_are_checked_in_styles_without_letters(make: Make) -> None:
    words = [f"word{chr(97 + n // 10)}{chr(97 + n % 10)}" for n in range(30)]
    rows = [{"q": f"Which is word {n}?", "options": words, "label": n} for n in range(4)]
    checked = {report.name: report for report in check_benchmarks(make(CHOICE, rows))}
    assert [str(finding) for report in checked.values() for finding in report.findings if finding.is_fault] == []
    assert checked["made@cloze"].documents == 4 and "no labels for 30 choices" in checked["made@letters"].skipped


def test_a_filter_that_finds_no_right_answer_is_a_fault(make: Make) -> None:
    wrong = {
        "name": "number",
        "filter": [{"function": "regex", "regex_pattern": "([a-z]+)!"}, {"function": "take_first"}],
    }
    (found,) = [finding for finding in faults(make(SUM, SUMS, filter_list=[wrong])) if finding.check == "perfect"]
    assert "right answers score exact_match,number 0" in found.message
    assert "right answer '23'" in found.message and (found.example, found.documents) == (0, len(SUMS))


def test_one_row_of_many_with_an_equal_choice_is_a_remark(make: Make) -> None:
    equal = {**ROWS[0], "options": ["hen", "hen", "cow"], "label": 1}
    checked = check_benchmark(make(CHOICE, [equal] + ROWS * 20), variants=False)
    assert {finding.check for finding in checked if finding.is_remark} >= {"distinct", "perfect"}
    assert "perfect" not in named([finding for finding in checked if finding.is_fault])


def test_a_given_answer_is_a_fault_of_a_generated_one(make: Make) -> None:
    rows = [
        {"q": q, "a": a} for q, a in (("Spell candle.", "candle"), ("Spell meadow.", "meadow"), ("Spell a cup.", "cup"))
    ]
    task = {**SUM, "doc_to_target": "a", "filter_list": []}
    assert "leak" in named(faults(make(task, rows)))


def test_words_that_recur_in_a_passage_to_be_continued_are_no_given_answers(make: Make) -> None:
    ends = {"kite": " like a", "lamp": ",", "boat": " under the", "door": ",", "bowl": " on a"}
    rows = [{"q": f"The {word} was red and the roof blue{end}", "a": word} for word, end in ends.items()]
    task = {"output_type": "loglikelihood", "doc_to_text": "{{q}}", "doc_to_target": " {{a}}"}
    assert "leak" not in named(faults(make(task, rows, metric_list=[{"metric": "acc"}])))


def test_choices_that_are_all_right_have_no_wrong_answer_to_give(make: Make) -> None:
    rows = [{**row, "options": row["options"][:1]} for row in ROWS]
    task = {**CHOICE, "doc_to_target": "{{[0]}}", "metric_list": [{"metric": "exact_match"}]}
    checked = check_benchmarks(make(task, rows))
    assert {"made", "made@generate"} <= {report.name for report in checked}
    assert [str(finding) for report in checked for finding in report.findings if finding.is_fault] == []


def test_a_wrong_level_of_chance_is_a_fault(make: Make) -> None:
    card = {"primary": "acc", "chance": 0.5, "majority": 0.5}
    (found,) = faults(make(CHOICE, ROWS, card=card), variants=False)
    assert (found.check, found.message) == (
        "chance",
        "the card states a chance of 0.5, the rows have 0.3333 (tolerance 0.006)",
    )
    assert faults(make(CHOICE, ROWS, card={**card, "chance": 0.3333}), variants=False) == []


def test_an_example_that_equals_the_document_is_a_fault(make: Make) -> None:
    shots = {"fewshot_config": {"sampler": "first_n", "samples": [ROWS[0]]}, "num_fewshot": 1}
    (found,) = [item for item in faults(make(CHOICE, ROWS, **shots), variants=False) if item.check == "examples"]
    assert (found.example, found.documents) == (0, 1)


def test_a_card_allows_a_finding_with_a_reason(make: Make) -> None:
    card = {"primary": "acc", "allow": {"space": "Two blanks, as in the original."}}
    path = make(CHOICE, ROWS, card=card, doc_to_text="Question:  {{q}}\nAnswer:")
    (found,) = check_benchmark(path, variants=False)
    assert (found.check, found.allowed, found.is_fault) == ("space", "Two blanks, as in the original.", False)


def test_a_card_names_a_check_that_exists_and_a_reason(make: Make) -> None:
    for allowed, said in (({"spaec": "…"}, 'did you mean "space"'), ({"space": ""}, "has no reason")):
        (found,) = faults(make(CHOICE, ROWS, card={"allow": allowed}))
        assert found.check == "builds" and said in found.message


def test_a_task_without_its_data_is_a_finding(make: Make) -> None:
    path = make(CHOICE, ROWS, test_split="validation")
    (found,) = faults(path)
    assert found.check == "builds" and 'no split "validation"' in found.message


def test_a_text_matches_the_pattern_of_a_filter() -> None:
    for pattern in (r"The answer is (\-?[0-9\.\,]+).", r"(?<=the answer is )(.*)(?=.)", r"(?:A|B)nswer:\s+(\d+)$"):
        text = matching_text(pattern, "18")
        assert text is not None and text != "18"
    assert matching_text("([a-z]+)!", "18") is None
    assert matching_text("(", "18") is None


def test_the_findings_of_a_study_are_data() -> None:
    (found,) = check_benchmarks("demo_text", limit=2, variants=False)
    checks = json.loads(json.dumps(found.to_json()))["checks"]
    assert checks == dict.fromkeys(("builds", "template", "perfect", "corrupted"), "ok")
    assert assay.__version__


def test_a_null_in_a_text_whose_likelihood_is_measured_is_a_fault(make: Make) -> None:
    rows = [{"text": "The cat sat on the mat."}, {"text": None}]
    task = {"output_type": "loglikelihood_rolling", "doc_to_target": "{{text}}", "doc_to_text": ""}
    task["metric_list"] = [{"metric": "word_perplexity"}]  # type: ignore[assignment]
    assert "template" in named(faults(make(task, rows)))


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_of_the_contract_fits_its_window(
    width: int, make: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    checked = check_benchmarks([make(CHOICE, ROWS)], variants=False)
    show_checked_tasks(checked, "text")
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert ("corrupted" in out and "✓ holds" in out) if width == 160 else "Does not apply" in out
