"""docs/styles.md is tested: its commands and files run, its table names every style."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from assay import evaluate
from assay.cli.main import main
from assay.core.requests import Demonstrated
from assay.core.specs import NULL_PROMPTS, WHOLE_PROMPT_METRICS
from assay.scoring.scorers.choice_methods import METHODS
from assay.tasks.lm_eval.file.format_key import CHOICE, FORMATS
from assay.tasks.styles import STYLES

PAGE = (Path(__file__).parents[2] / "docs" / "styles.md").read_text(encoding="utf-8")
(COMMANDS,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
STYLE, METAICL, TASK = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
(ROWS,) = re.findall(r"```\n(\{.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("line", COMMANDS.splitlines())
def test_commands_run(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(line)
    store = ["--store", str(tmp_path / "s.db")] if words[0] == "run" else []
    assert program == "assay"
    assert main([*words, *store]) == 0
    assert "demo_questions" in capsys.readouterr().out


def test_files_run(tmp_path: Path) -> None:
    (tmp_path / "capitals.yaml").write_text(TASK, encoding="utf-8")
    (tmp_path / "style").mkdir()
    (tmp_path / "style" / "mine.yaml").write_text(STYLE, encoding="utf-8")
    row = {"country": "France", "options": ["Paris", "Lyon"], "label": 0}
    (tmp_path / "capitals.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    wanted = ["capitals", f"capitals@{tmp_path / 'style' / 'mine.yaml'}:rotated"]
    result = evaluate("ngram", wanted, store=":memory:", include_path=tmp_path)
    prompts = [task.answered[0].instance.requests[0].prompt for task in result.tasks]  # type: ignore[union-attr]
    assert prompts == [
        "Question: What is the capital of France?\nAnswer:",
        "What is the capital of France?\na) Paris\nb) Lyon\n=>",
    ]


def test_catwalks_data_are_evaluated_with_metaicl_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("colours.yaml").write_text(METAICL, encoding="utf-8")
    for split in ("train", "test"):
        Path(f"colours_16_100_{split}.jsonl").write_text(ROWS, encoding="utf-8")
    assert "`assay run --model smollm2 --tasks colours.yaml@metaicl`" in PAGE
    (task,) = evaluate("ngram", "colours.yaml@metaicl", store=":memory:").tasks
    asked = [(request.prompt, request.continuation) for request in task.answered[1].instance.requests]  # type: ignore[union-attr]
    shown = (("The sky is what colour?", "blue"), ("Grass is what colour?", "green"))
    prompt = Demonstrated(shown, "Grass is what colour?", ("green", "blue"))
    assert asked == [(prompt, "\ngreen"), (prompt, "\nblue")]
    assert prompt.text == ("The sky is what colour?\nblue\n\n\nGrass is what colour?\ngreen\n\n\nGrass is what colour?")
    assert [score.metric for score in task.metrics][:2] == ["acc_tokens", "acc"]


def test_every_style_part_and_metric_is_named() -> None:
    named = set(re.findall(r"`([^`\n]+)`", PAGE))
    words = {word for text in named for word in re.findall(r"[\w+]+", text)}
    assert set(STYLES) <= words
    assert {CHOICE, "kind", *FORMATS[CHOICE].parts} <= words
    assert {*NULL_PROMPTS, *WHOLE_PROMPT_METRICS, *(method.metric for method in METHODS.values())} <= words
