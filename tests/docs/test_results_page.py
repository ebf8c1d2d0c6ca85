"""scripts/make_results_page.py: the page of a small run, and of a result file with everything that it must notice."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "make_results_page.py"
CARDS: dict[str, dict[str, Any]] = {
    "hellaswag": {"primary": "acc_norm", "chance": 0.25, "majority": 0.257, "rows": {"validation": 10042}},
    "gsm8k": {"primary": "exact_match,strict-match", "chance": 0.0},
    **{name: {"primary": "acc", "chance": 0.5} for name in ("boolq", "copa", "blimp_only_npi_scope")},
    **{
        f"mmlu_{name}": {"primary": "acc", "chance": 0.25} for name in ("anatomy", "virology", "marketing", "astronomy")
    },
}


def task(
    metric: str, value: float | None, low: float, high: float, filter: str = "none", **counts: Any
) -> dict[str, Any]:
    """A task of a result file with one score."""
    estimate = {"value": value, "stderr": 0.07, "low": low, "high": high, "n": 50, "method": "wilson"}
    known = {"available": 3000, "total": 50, "failed": 0, "truncated": 0, "unparsed": {}, "cut_off": 0}
    metrics = [{"metric": metric, "filter": filter, "estimate": estimate, "higher_is_better": True}]
    return {"metrics": metrics, "denominators": {**known, "misses_by_space": {}, **counts}}


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """A run of smollm2 with a score that is published, a wrong one, a missing one and a constant answer."""
    tasks = {
        "hellaswag": task("acc_norm", 0.40, 0.28, 0.54),
        "gsm8k": task("exact_match", 0.20, 0.11, 0.33, "strict-match", unparsed={"strict-match": 25}, cut_off=5),
        "boolq": task("acc", 0.30, 0.19, 0.44),
        "copa": task("acc", 0.30, 0.19, 0.44),
        "blimp_only_npi_scope": task("acc", 0.30, 0.19, 0.44),
        "mmlu_anatomy": task("acc", 1.5, 0.1, 0.3),
        "mmlu_virology": task("acc", 0.2, 0.1, 0.3),
        "mmlu_marketing": task("acc", 0.3, 0.2, 0.4),
        "mmlu_astronomy": {**task("acc", None, 0.2, 0.4), "problem": {"text": "no document could be scored"}},
    }
    data = {"rows": {"validation": 3000}}
    entries = {
        name: {"num_fewshot": 5 if name == "gsm8k" else 0, "card": card, "config": {"validation_split": "validation"}}
        for name, card in CARDS.items()
    }
    spec = {
        "model": "smollm2",
        "model_args": {},
        "sparing": {"sample": 50.0},
        "options": {"generation": {"max_gen_toks": 256}},
    }
    model = {"name": "m", "revision": None, "weights": "w", "precision": "float32", "digest": "d"}
    manifest = {
        "spec": spec,
        "model": {**model, "tokenizer": None, "template": None, "adapter": None, "parent": None, "settings": {}},
        "tasks": {**entries, "hellaswag": {**entries["hellaswag"], "data": data}},
        "command": f"bin/assay run --model smollm2 --tasks {','.join('t' * 30)} --data ~/copies/data --store ~/s.db",
        "date": 1_790_000_000.0,
        "python": "3.11.7",
        "processor": "AMD EPYC",
        "cores": 2,
        "packages": {"torch": "2.13.0"},
        "assay_git": {"revision": "0123456789abcdef"},
    }
    notices = ['boolq: "no" is predicted in all 50 documents and correct in 15 of them']
    rest = {
        "version": "0.1.0",
        "run": "r",
        "store": "nowhere.db",
        "requests": {"unique": 900, "known": 700, "failed": 2},
    }
    return {**rest, "timings": {"execute": 7200.0}, "notices": notices, "tasks": tasks, "manifest": manifest}


@pytest.fixture(scope="module")
def page(result: dict[str, Any]) -> str:
    text: str = runpy.run_path(str(SCRIPT))["page"](result)
    return text


def test_the_head_says_what_was_run_without_the_folders_of_one_machine(page: str) -> None:
    assert "# Results of SmolLM2-135M-Instruct\n" in page and "its weights in 4 bits (Q4_1)" in page
    line = 'assay run --model smollm2 --tasks "$(assay ls tasks --data datasets --format names)" --data datasets'
    assert f"{line} --store s.db\n" in page and "~/" not in page
    assert "Assay 0.1.0 (commit 0123456789ab); Python 3.11.7, torch 2.13.0" in page
    assert "(Q4_1), computed in float32" in page and "Generated answers end after 256 tokens." in page
    assert "which were stopped, had stored 700 of the responses" in page
    assert "900 requests, 2 of" in page and "50 random documents of each task" in page


def test_a_row_has_what_a_reader_needs_beside_the_score(page: str) -> None:
    row = "| `hellaswag` | acc_norm | 0.400 | 0.280 … 0.540 | 0.25 (0.257) | above | 50 of 3,000 |"
    assert f"{row} partial copy: 3,000 of 10,042 rows |" in page
    assert "10% of the answers cut off; 50% without an answer that the filter finds" in page
    assert "`gsm8k`, 5 shots" in page
    assert "Of 8 tasks with a level of chance above 0, 1 gets one answer in at least 95% of the documents" in page
    assert "Of the other 7, **1 is significantly above chance**, 4 cannot be told apart from it and 2 are below" in page
    assert "Of 1 task with chance 0, 1 have a score above 0" in page


def test_published_numbers_are_inside_or_outside_and_say_what_differs(page: str) -> None:
    assert "1 of 2 published numbers are inside the interval" in page
    assert re.search(
        r"\| `hellaswag` \| acc_norm \| 0\.409 \| 0\.400 \| .* \| yes \| .*4 bits.*lighteval; partial", page
    )
    assert re.search(r"\| `gsm8k` \| exact_match \| 0\.014 \| 0\.200 \| .* \| no, 0\.096 below \|", page)


def test_impossible_missing_and_low_scores_are_listed(page: str) -> None:
    assert "- `mmlu_anatomy`: has the score 1.5 outside of its interval 0.1 … 0.3.\n" in page
    assert "- `mmlu_anatomy`: has the score 1.5, although chance is 0.25.\n" in page
    assert "- `mmlu_astronomy`: has no score: no document could be scored.\n" in page
    assert "One answer throughout: `boolq`.\n" in page
    assert (
        '| 0.5 | one answer | 50 of 3,000 | "no" is predicted in all 50 documents and correct in 15 of them |' in page
    )
    assert "- `copa` 0.300 (0.190 … 0.440), chance 0.5: not known.\n" in page
    assert "- `blimp_only_npi_scope` 0.300 (0.190 … 0.440), chance 0.5: both sentences have the same words" in page


def test_languages_of_a_benchmark_share_their_documents(result: dict[str, Any]) -> None:
    names = [f"xcopa_{name}" for name in ("et", "it", "sw", "zh")]
    entries = {name: {"num_fewshot": 0, "card": {"primary": "acc", "chance": 0.5}} for name in names}
    tasks = {name: task("acc", 0.6, 0.46, 0.73) for name in names}
    manifest = {**result["manifest"], "tasks": entries}
    text = runpy.run_path(str(SCRIPT))["page"]({**result, "tasks": tasks, "manifest": manifest})
    assert "| `xcopa` | acc | 0.600 | 0.460 … 0.730 | 0.5 | not told apart |" in text


def test_many_configurations_are_one_row_with_their_mean(result: dict[str, Any]) -> None:
    tasks = {
        **result["tasks"],
        "mmlu_anatomy": task("acc", 0.1, 0.0, 0.2),
        "mmlu_astronomy": task("acc", 0.4, 0.3, 0.5),
    }
    text = runpy.run_path(str(SCRIPT))["page"]({**result, "tasks": tasks})
    assert "| `mmlu` | acc | 0.250 |" in text and "mean of 4 tasks: 1 above, 1 below chance" in text
    assert "`mmlu`: anatomy 0.100, virology 0.200, marketing 0.300, astronomy 0.400." in text
    assert "- `mmlu`: acc_norm 0.293 (cloze). Here it reports acc.\n" in text


def test_the_command_makes_the_page_of_a_run(tmp_path: Path) -> None:
    tasks = ["demo_questions_letters", "demo_arithmetic"]
    run = evaluate("ngram", tasks, sample=40, store=tmp_path / "s.db", output_path=tmp_path / "out")
    command = [sys.executable, str(SCRIPT), str(tmp_path / "out"), str(tmp_path / "page.md")]
    subprocess.run(command, check=True, capture_output=True)
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| `demo_arithmetic_2d` |" in text.replace(", 4 shots", "") and "No card has published numbers" in text
    assert re.search(r'"A" is predicted in 40 of 40 documents and correct in \d+ of them', text)
    (file,) = tmp_path.glob("out/**/results_*.json")
    assert json.loads(file.read_text())["assay"]["run"] == run.run_id
    acc = run.task("demo_questions_letters").metrics[0].estimate.value
    assert f"| `demo_questions_letters` | acc | {acc:.3f} |" in text
    assert len(text.splitlines()) < 100


def test_a_folder_without_results_says_so(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1 and "no file results_*.json" in done.stderr


def test_the_page_is_on_the_site() -> None:
    has_page = (ROOT / "docs" / "results.md").exists()
    assert has_page == ("results.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
