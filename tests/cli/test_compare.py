"""`assay compare` from the command line: output, exit codes, junk."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.core.requests import Request
from assay.core.responses import Logprob
from assay.testing import ScriptedModel

Cli = Callable[..., Any]
NAMES = ["red", "green", "blue"]


@pytest.fixture
def runs(cli: Cli, task_folder: Path, tmp_path: Path) -> tuple[str, str]:
    """One run right in 16 of 20 documents, one in 4 of them."""

    def run(count: int, name: str) -> str:
        def answer(request: Request) -> Logprob:
            number = int(str(request.prompt).split()[1].rstrip("?"))  # type: ignore[union-attr]
            said = NAMES[number % 3 if number < count else (number + 1) % 3]
            return Logprob(-1.0 if request.continuation.strip() == said else -2.0, 1, False)  # type: ignore[union-attr]

        model = ScriptedModel(answer, name=name)
        return evaluate(model, "colours", store=tmp_path / "store.db", include_path=task_folder).run_id

    return run(16, "good"), run(4, "bad")


def test_the_table_has_every_number_and_a_verdict(cli: Cli, runs: tuple[str, str]) -> None:
    done = cli("compare", *runs)
    assert done.code == 0
    row = next(line for line in done.out.split("\n") if line.startswith("colours, acc") and "mcnemar" in line)
    # 12 documents lost, none won: 2·0.5¹² = 0.0005.
    assert row.split()[2:6] == ["20", "0.8000", "0.2000", "-0.6000"] and row.split()[-2:] == ["0.0005", "0.0005"]
    last = done.out.rstrip().split("\n")[-1]
    assert last.startswith("bad scores 60 points lower than good (95 % interval ")
    assert last.endswith("McNemar p < 0.001): more than chance explains.")


def test_runs_of_one_model_are_called_by_the_arguments_that_differ(cli: Cli, task_folder: Path) -> None:
    for arguments, shots in (("order=2", "0"), ("order=3", "0"), ("order=3", "2")):
        asked = ("--tasks", "colours", "--include_path", task_folder, "--num_fewshot", shots)
        assert cli("run", "--model", "ngram", "--model_args", arguments, *asked).code == 0

    def labels(*runs: str) -> list[str]:
        done = cli("compare", *runs, "--across", "model,shots", "--format", "json")
        return [system["label"] for system in json.loads(done.out)["systems"]]

    assert labels("last~2", "last~1") == ["ngram order=2", "ngram order=3"]
    assert labels("last~1", "last") == ["ngram 0-shot", "ngram 2-shot"]
    assert labels("last~2", "last~1", "last") == [
        "ngram order=2 0-shot",
        "ngram order=3 0-shot",
        "ngram order=3 2-shot",
    ]


def test_exit_codes_of_the_gate(cli: Cli, runs: tuple[str, str]) -> None:
    good, bad = runs
    done = cli("compare", good, bad, "--fail-if-worse")
    assert (done.code, done.err) == (4, "gate failed: colours, acc, bad against good: worse beyond chance\n")
    assert cli("compare", bad, good, "--fail_if_worse").code == 0
    assert cli("compare", bad, good, "--fail_if_worse", "--baseline", good).code == 4
    assert cli("compare", good, bad).code == 0


def test_the_gate_compares_with_the_first_run_only(cli: Cli, runs: tuple[str, str], task_folder: Path) -> None:
    assert cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder).code == 0
    good, bad = runs
    data = json.loads(cli("compare", bad, good, "last", "--fail_if_worse", "--format", "json").out)
    assert [(pair["first"], pair["second"]) for pair in data["pairs"]] == [("bad", "good"), ("bad", "dummy")]


def test_the_gate_with_a_margin_needs_proof(cli: Cli, runs: tuple[str, str], task_folder: Path) -> None:
    good, bad = runs
    assert cli("compare", good, bad, "--fail_if_worse", "0.9").code == 0
    assert cli("compare", good, bad, "--fail_if_worse=0.1").code == 4
    for seed in ("1", "1"):
        assert (
            cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder, "--seed", seed).code
            == 0
        )
    # Equal answers to 20 documents rule out a loss of 50 points, not one of 2.
    assert cli("compare", "last~1", "last", "--fail_if_worse", "0.5").code == 0
    assert cli("compare", "last~1", "last", "--fail_if_worse", "0.02").code == 4


def test_refusals_are_user_errors(cli: Cli, task_folder: Path) -> None:
    common = ("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder)
    for extra in ((), ("--system_instruction", "Be brief. ")):
        assert cli(*common, *extra).code == 0
    done = cli("compare", "last~1", "last")
    assert done.code == 2 and "not comparable: prompts: chat.system (prompts)" in done.err
    assert cli("compare", "last~1", "last", "--across", "model", "prompts").code == 0
    assert cli("compare", "last~1", "last", "--across=prompts").code == 0
    forced = cli("compare", "last~1", "last", "--force")
    assert forced.code == 0 and "differs: prompts: chat.system" in forced.out


def test_json_has_everything(cli: Cli, runs: tuple[str, str]) -> None:
    data = json.loads(cli("compare", *runs, "--format", "json", "--margin", "0.02", "--flips", "all").out)
    (pair,) = data["pairs"]
    assert [system["run"] for system in data["systems"]] == list(runs)
    assert (pair["wins"], pair["losses"], pair["ties"], pair["outcome"]) == (0, 12, 8, "worse")
    assert pair["margin"]["is_equivalent"] is False and pair["margin"]["is_not_worse"] is False
    assert [flip["document"] for flip in pair["flips"]] == list(range(4, 16))
    assert pair["flips"][0]["question"] == "Colour 4?"


def test_junit_is_xml_with_the_gates_failures(cli: Cli, runs: tuple[str, str]) -> None:
    suite = ElementTree.fromstring(cli("compare", *runs, "--format", "junit", "--fail_if_worse").out)
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "1", "1")
    (case,) = suite
    assert (case.get("classname"), case.get("name")) == ("colours, acc", "bad against good")
    assert "60 points lower" in str(case[0].get("message"))
    passed = ElementTree.fromstring(cli("compare", *runs, "--format", "junit").out)
    assert passed.get("failures") == "0" and passed[0][0].tag == "system-out"


def test_a_report_goes_to_a_file_or_a_folder(cli: Cli, runs: tuple[str, str], tmp_path: Path) -> None:
    done = cli("compare", *runs, "--output_path", tmp_path / "c.md")
    assert done.code == 0 and "good" in done.out and "written: " in done.err
    page = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert page.startswith("# good and bad\n") and "\n| Task, metric | n | First |" in page
    assert cli("compare", *runs, "-o", tmp_path / "all").code == 0
    names = {path.name for path in (tmp_path / "all").iterdir()}
    assert names == {f"comparison.{suffix}" for suffix in ("txt", "md", "json", "xml")}
    assert (tmp_path / "all" / "comparison.md").read_text(encoding="utf-8") == page


def test_three_runs_share_ranks(cli: Cli, runs: tuple[str, str], task_folder: Path) -> None:
    assert cli("run", "--model", "dummy", "--tasks", "colours", "--include_path", task_folder).code == 0
    done = cli("compare", *runs, "last")
    assert "colours, acc: systems that share a letter cannot be told apart" in done.out
    assert "\n1     good" in done.out and "of 3 comparisons." in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["last"], "one run; expected two runs or more"),
        (["last", "last~7"], "holds 2 runs"),
        (["last~1", "last", "--flips", "some"], "expected a number of documents, or all"),
        (["last~1", "last", "--flips", "²"], "expected a number of documents, or all"),
        (["last~1", "last", "--tasks", "colours", "colour"], 'did you mean "colours"?'),
        (["last~1", "last", "--fail_if_worse", "2"], "0.02 is 2 points"),
        (["last~1", "last", "--margin", "0"], "is not a margin"),
        (["--fail_if_worse", "last~1", "last"], '"last~1" is not a margin'),
        (["last~1", "last", "--margin", "0.1", "--fail_if_worse", "0.2"], "one of the two"),
        (["last~1", "last", "--across", "modell"], 'did you mean "model"?'),
        (["last~1", "last", "--tests", "exact"], 'did you mean "--test"'),
        (["last~1", "last", "--tasks", "colour"], 'did you mean "colours"?'),
        (["last~1", "last", "--metric", "f1"], 'no two runs report the metric "f1"'),
        ([], "required"),
    ],
)
def test_junk_is_reported(cli: Cli, runs: tuple[str, str], arguments: list[str], message: str) -> None:
    done = cli("compare", *arguments)
    assert done.code == 2 and message in done.err and "bug" not in done.err


def test_agreement_is_reported_for_two_runs(cli: Cli, runs: tuple[str, str]) -> None:
    """Both are right in documents 0 to 3 and wrong in 16 to 19. By chance 0.8·0.2 + 0.2·0.8 would be: 0.08/0.68."""
    out = cli("compare", *runs, "--predictions").out
    assert "the same outcome in 40.0 % of 20 documents, Cohen's κ 0.12 (" in out
    assert "the same prediction in 40.0 % of 20 documents, Cohen's κ 0.1" in out
    assert (
        "Same outcome | κ | Same prediction | κ of predictions |"
        in cli("compare", *runs, "--predictions", "--format", "markdown").out
    )
    (pair,) = json.loads(cli("compare", *runs, "--format", "json").out)["pairs"]
    assert pair["agreement"]["kappa"]["n"] == 20 and pair["picks"] is None


def test_a_place_that_cannot_be_written_to_is_refused_before_comparing(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in ("file", "file/c.json"):
        done = cli("compare", "a", "b", "--output_path", tmp_path / path)
        assert done.code == 2 and "--output_path" in done.err and "unknown run" not in done.err
