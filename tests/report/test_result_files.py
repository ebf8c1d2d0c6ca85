"""Result files: written whole, in their folder, or not at all."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from assay.api import evaluate
from assay.core.errors import AssayError, OutputError
from assay.core.results import RunResult
from assay.report.result_files import check_output_path, write_results
from assay.testing import ScriptedModel, toy_generation_task


def renamed(result: RunResult, *names: str) -> RunResult:
    """The same run with its first task under other names."""
    first = result.tasks[0]
    return replace(result, tasks=tuple(replace(first, card=replace(first.card, name=name)) for name in names))


def test_files_have_lm_evals_names(result: RunResult, tmp_path: Path) -> None:
    written = write_results(result, tmp_path, log_samples=True)
    when = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d+"
    patterns = [rf"results_{when}\.json", *(rf"samples_{task.name}_{when}\.jsonl" for task in result.tasks)]
    assert all(re.fullmatch(pattern, path.name) for pattern, path in zip(patterns, written, strict=True))
    assert {path.parent for path in written} == {tmp_path / "scripted"}


def test_only_the_results_are_written_by_default(result: RunResult, tmp_path: Path) -> None:
    assert len(write_results(result, tmp_path, log_samples=False)) == 1
    assert len(list(tmp_path.rglob("*.jsonl"))) == 0


def test_the_results_file_has_the_samples_hashes(result: RunResult, tmp_path: Path) -> None:
    data = json.loads(write_results(result, tmp_path, log_samples=True)[0].read_text())
    assert set(data["task_hashes"]) == {task.name for task in result.tasks}
    assert data["results"]["toy_choice"]["acc,none"] == result.tasks[0].metric("acc").estimate.value


def test_a_json_path_names_the_file(result: RunResult, tmp_path: Path) -> None:
    written = write_results(result, tmp_path / "deep" / "mine.json", log_samples=True)
    assert written[0].name.startswith("mine_20")
    assert {path.parent for path in written} == {tmp_path / "deep"}


def test_nothing_partial_is_left_and_files_are_the_owners_alone(result: RunResult, tmp_path: Path) -> None:
    written = write_results(result, tmp_path, log_samples=True)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(found) == sorted(written)
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


def test_a_file_that_cannot_be_finished_leaves_nothing_of_itself(result: RunResult, tmp_path: Path) -> None:
    first, second, *rest = result.tasks[0].answered
    odd = replace(second, document=replace(second.document, fields={("no", "JSON"): 1}))
    broken = replace(result.tasks[0], answered=[first, odd, *rest])
    with pytest.raises(AssayError, match="could not be made: TypeError") as caught:
        write_results(replace(result, tasks=(broken,)), tmp_path, log_samples=True)
    assert caught.value.exit_code == 1
    (written,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written.name.startswith("results_")


@pytest.mark.parametrize("name", ["../../escape", "/etc/passwd", "..", "a\x00b", "C:\\x", "世" * 300, "\ud800", ""])
def test_odd_names_stay_in_the_folder(result: RunResult, tmp_path: Path, name: str) -> None:
    odd = replace(renamed(result, name), spec=replace(result.spec, model=name))
    written = write_results(odd, tmp_path / "out", log_samples=True)
    assert {path.resolve().parent.parent for path in written} == {(tmp_path / "out").resolve()}
    assert all(path.stat().st_size > 0 for path in written)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_two_names_that_would_share_a_file_get_one_each(result: RunResult, tmp_path: Path) -> None:
    written = write_results(renamed(result, "a/b", "a:b", "a__b"), tmp_path, log_samples=True)
    assert len({path.name for path in written}) == 4
    assert all(path.exists() for path in written)


def test_lone_surrogates_are_written_as_json(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "half \ud800 pair, ü")
    evaluate(model, toy_generation_task(1), store=":memory:", output_path=tmp_path, log_samples=True)
    text = next(tmp_path.rglob("*.jsonl")).read_text(encoding="utf-8")
    assert "ü" in text
    assert json.loads(text)["resps"] == [["half \ud800 pair, ü"]]


def test_sample_lines_are_equal_on_a_second_run_from_the_store(tmp_path: Path) -> None:
    for number in range(2):
        model = ScriptedModel(lambda request: "7" if number == 0 else pytest.fail("asked again"))  # noqa: B023
        evaluate(
            model, toy_generation_task(5), store=tmp_path / "s.db", output_path=tmp_path / str(number), log_samples=True
        )
    first, second = (next((tmp_path / str(number)).rglob("*.jsonl")).read_bytes() for number in range(2))
    assert first == second
    assert first.count(b"\n") == 5


def test_a_file_in_the_way_is_an_error_that_says_what_to_do(result: RunResult, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(
        OutputError, match="could not be written: .*answers are stored.*another --output_path"
    ) as caught:
        write_results(result, tmp_path / "taken", log_samples=False)
    assert caught.value.exit_code == 2
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_error(result: RunResult, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        check_output_path(tmp_path / "out")
    tmp_path.chmod(0o700)


def test_a_bad_place_is_found_before_the_first_request(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    model = ScriptedModel(lambda request: "7")
    with pytest.raises(OutputError):
        evaluate(model, toy_generation_task(2), store=":memory:", output_path=tmp_path / "taken")
    assert model.asked == []


def test_checking_a_place_leaves_nothing_in_it(tmp_path: Path) -> None:
    check_output_path(tmp_path / "out")
    check_output_path(tmp_path / "other" / "x.json")
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["other", "out"]
