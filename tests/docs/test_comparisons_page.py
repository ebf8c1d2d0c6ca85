"""docs/comparisons.md is tested: its commands have known options, and its tables follow from their own counts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from assay.cli.main import main
from assay.options.parser import make_parser
from assay.report.deliver import WORSE
from assay.stats.multiple_testing import holm, holm_levels
from assay.stats.paired import mcnemar_p, outcome_interval

PAGE = (Path(__file__).parents[2] / "docs" / "comparisons.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```text\n(assay .*?)```", PAGE, re.DOTALL)
    for line in block.replace("\\\n", " ").strip().split("\n")
]


def table(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.split("\n") if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def ends(text: str) -> list[float]:
    return [float(part) for part in text.split(" … ")]


def test_the_commands_are_those_of_the_program() -> None:
    assert len(COMMANDS) == 6
    for line in COMMANDS:
        program, command, *words = shlex.split(line)
        assert program == "assay"
        known = set(make_parser(command)._option_string_actions)
        assert {word for word in words if word.startswith("--")} <= known


def test_the_comparisons_are_made_of_three_runs_like_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without examples, with examples, and another model without."""
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store.db"))
    compared = [shlex.split(line)[1:] for line in COMMANDS if line.startswith("assay compare")]
    usual = ["--tasks", "demo_questions", "--num_fewshot"]
    assert main(["run", "--model", "ngram", *usual, "0"]) == main(["run", "--model", "ngram", *usual, "2"]) == 0
    assert main(compared[0]) == 0 and main(["run", "--model", "dummy", *usual, "0"]) == 0
    capsys.readouterr()
    assert [main(words) in (0, WORSE) for words in compared[1:]] == [True]
    assert "margin 0.02" in capsys.readouterr().out


@pytest.mark.parametrize("heading", ["Do examples help?", "What does int8 cost?"])
def test_differences_and_p_values_follow_from_the_counts(heading: str) -> None:
    rows = table(heading)
    assert [row[0] for row in rows] == ["arc_easy, acc", "arc_easy, acc_norm", "piqa, acc", "piqa, acc_norm"]
    exact = [mcnemar_p(int(row[6]), int(row[7])) for row in rows]
    for row, p, level in zip(rows, exact, holm_levels(exact, 0.05), strict=True):
        n, first, second, difference = int(row[1].replace(",", "")), *(float(cell) for cell in row[2:5])
        wins, losses = int(row[6]), int(row[7])
        assert difference == pytest.approx((wins - losses) / n, abs=5e-5)
        assert second - first == pytest.approx(difference, abs=1.01e-4)
        assert row[8] == ("<0.0001" if p < 1e-4 else f"{p:.4f}")
        if heading.startswith("Do"):
            found = outcome_interval(wins, losses, n, 1 - level)
        else:
            found = outcome_interval(wins, losses, n, 0.9)
            assert row[9] == "equivalent" and max(map(abs, found)) < 0.02
        assert ends(row[5]) == pytest.approx(found, abs=5.1e-5)


def test_adjusted_p_values_are_holms() -> None:
    rows = table("Do examples help?")
    adjusted = holm([mcnemar_p(int(row[6]), int(row[7])) for row in rows])
    assert [row[9] for row in rows] == ["<0.0001" if p < 1e-4 else f"{p:.4f}" for p in adjusted]


def test_the_prompts_have_their_means_and_so_have_the_seeds() -> None:
    rows = [[float(cell) for cell in row[1:]] for row in table("How much is it the prompt?")]
    for *seeds, mean in rows:
        assert mean == pytest.approx(sum(seeds) / 5, abs=6e-5)
    message = re.search(r"mean ([\d.]+), .*seed: .*min ([\d.]+) \(1236\), max ([\d.]+) \(1234\)", PAGE, re.DOTALL)
    assert message is not None
    by_seed = [sum(column) / 5 for column in zip(*rows, strict=True)]
    expected = [by_seed[5], by_seed[2], by_seed[0]]
    assert [float(part) for part in message.groups()] == pytest.approx(expected, abs=6e-5)
    assert (min(by_seed[:5]), max(by_seed[:5])) == (by_seed[2], by_seed[0])


def test_the_figure_is_there() -> None:
    (figure,) = re.findall(r"!\[.*?\]\((.*?)\)", PAGE)
    drawn = (Path(__file__).parents[2] / "docs" / figure).read_text(encoding="utf-8")
    assert "Where the scores vary" in drawn and "prompt × seed" in drawn
