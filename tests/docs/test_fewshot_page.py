"""docs/fewshot.md is tested: its commands run, its table names every sampler, its formulas are those of the code."""

from __future__ import annotations

import json
import random
import re
import shlex
from pathlib import Path

import pytest

from assay import evaluate
from assay.api import show_document
from assay.cli.main import main
from assay.tasks.fewshot import SAMPLERS

PAGE = (Path(__file__).parents[2] / "docs" / "fewshot.md").read_text(encoding="utf-8")
(COMMANDS,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
(TASK,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
# Three of four are odd, so that "yes" is the most frequent answer.
ROWS = [{"n": n, "label": n % 2} for n in (*range(20), *range(21, 61, 2))]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.yaml").write_text(TASK, encoding="utf-8")
    Path("odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")


@pytest.mark.parametrize("line", COMMANDS.splitlines())
def test_commands_run(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(line)
    assert program == "assay"
    assert main([*words, *(["--store", str(tmp_path / "s.db")] if words[0] == "run" else [])]) == 0
    out = capsys.readouterr().out
    assert ("(sampler fixed)" in out) if words[0] == "show" else ("odd" in out)


def places(place: int, sampler: str | None) -> list[int]:
    (shown,) = show_document("odd.yaml", place, num_fewshot=3, fewshot_sampler=sampler)
    return [example.place for example in shown.examples]


def test_formulas_are_those_of_the_page() -> None:
    assert re.findall(r"`(Random\(.*?\)\.sample.*?)`", PAGE) == [
        "Random(seed).sample(pool, k + 1)",
        'Random(f"{seed}:{place}").sample(pool, k + 1)',
        "Random(place).sample(pool, k + 1)",
        'Random(f"{seed}:{place}").sample(others, missing)',
    ]
    for place in (0, 5):
        for sampler, seed in (("fixed", 1234), ("per_document", f"1234:{place}"), ("catwalk", place)):
            drawn = random.Random(seed).sample(range(len(ROWS)), 4)
            assert places(place, sampler) == [row for row in drawn if row != place][:3]
    assert places(1, "first_n") == [0, 2, 3]


def test_balanced_examples_of_the_pages_task() -> None:
    assert [ROWS[place]["label"] for place in places(0, None)] == [1, 0, 1]


def test_every_sampler_is_in_the_table_and_in_the_record() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(SAMPLERS)
    result = evaluate("ngram", "odd.yaml", store=":memory:", num_fewshot=2, fewshot_sampler="catwalk", limit=2)
    assert result.manifest["tasks"]["odd"]["config"]["fewshot_sampler"] == "catwalk"
