"""Styles, rotations and metrics from the user's side: the requests, their number, and the results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay.api import evaluate
from assay.cli.main import main
from assay.core.errors import DataError, ModelError, UserError
from assay.core.requests import Generation, Loglikelihood, Request, RollingLoglikelihood
from assay.core.results import RunResult
from assay.testing import ScriptedModel

WORDS = ("red", "blue", "grey")
ROWS: list[dict[str, Any]] = [
    {"q": f"What colour is thing {n}?", "options": list(WORDS[: 2 + n % 2]), "label": n % 2} for n in range(12)
]
TASK: dict[str, Any] = {
    "task": "colours",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "Question: {{q}}\nAnswer:",
    "doc_to_target": "label",
    "doc_to_choice": "options",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, ROWS)


def write(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> Path:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "colours.yaml").write_text(yaml.safe_dump({**TASK, **keys}, sort_keys=False), encoding="utf-8")
    return folder


def first_place(request: Request) -> float | str:
    """A model that likes the first label, and blue."""
    if isinstance(request, Generation):
        return " A"
    text = request.continuation if isinstance(request, Loglikelihood) else request.text
    return {" A": -1.0, " blue": -1.0, " grey": -2.0}.get(text, -3.0)


def run(folder: Path, task: str = "colours", **settings: Any) -> tuple[RunResult, list[Request]]:
    model = ScriptedModel(settings.pop("handler", first_place))
    result = evaluate(model, task, store=":memory:", include_path=folder, bootstrap_iters=0, **settings)
    return result, model.asked


def metric(result: RunResult, name: str) -> float:
    return result.tasks[0].metric(name).estimate.value


# What is asked, and how often

PAIRS = sum(len(row["options"]) for row in ROWS)


def test_all_metrics_need_the_requests_of_accuracy(folder: Path) -> None:
    _, plain = run(folder, metrics="acc")
    result, every = run(folder, metrics="all")
    assert every == plain
    assert len(plain) == PAIRS == 30
    assert {"acc_tokens", "ece", "choice_mass", "position_bias"} <= {item.metric for item in result.tasks[0].metrics}


def test_mutual_information_requests_each_text_once(folder: Path) -> None:
    _, asked = run(folder, metrics="acc,acc_mutual_info")
    assert [request for request in asked if request.prompt == ""] == [  # type: ignore[union-attr]
        Loglikelihood("", f" {word}") for word in WORDS
    ]
    assert len(asked) == PAIRS + 3


def test_mutual_information_of_letters_requests_each_letter_once(folder: Path) -> None:
    _, asked = run(folder, "colours@letters", metrics="acc_mutual_info,acc_mutual_phrase")
    alone = [request for request in asked if request.prompt in ("", "Answer:")]  # type: ignore[union-attr]
    assert len(alone) == 2 * 3
    assert len(asked) == PAIRS + 6


def test_the_whole_prompt_is_requested_once_per_document(folder: Path) -> None:
    _, asked = run(folder, metrics="acc,acc_opencompass")
    whole = [request for request in asked if isinstance(request, RollingLoglikelihood)]
    assert len(whole) == len(ROWS)
    assert all(not request.stands_on_prefix for request in whole)
    assert len(asked) == PAIRS + len(ROWS)


def test_a_plus_adds_to_the_tasks_own(folder: Path) -> None:
    result, asked = run(folder, metrics="+acc_mutual_info")
    assert [item.metric for item in result.tasks[0].metrics][:3] == ["acc", "acc_norm", "acc_mutual_info"]
    assert len(asked) == PAIRS + 3


def test_rotations_evaluate_every_order(folder: Path) -> None:
    _, asked = run(folder, style="letters", rotations=True)
    assert len(asked) == sum(len(row["options"]) ** 2 for row in ROWS)


def test_a_model_without_whole_texts_is_refused_before_the_first_request(folder: Path) -> None:
    model = ScriptedModel(first_place, kinds=(Loglikelihood.kind,))
    settings: dict[str, Any] = {"store": ":memory:", "include_path": folder}
    evaluate(model, "colours", **settings)
    with pytest.raises(ModelError, match="cannot answer rolling_loglikelihood requests"):
        evaluate(model, "colours", metrics="acc_opencompass", **settings)


def test_the_whole_prompt_of_a_conversation_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="acc_opencompass: reads the whole prompt"):
        run(folder, metrics="acc_opencompass", apply_chat_template=True)


def test_a_metric_that_fits_no_task_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="--metrics: bleu: no task of this run can be scored so"):
        run(folder, metrics="acc,bleu")
    run(folder, metrics="acc,bleu", predict_only=True)


# What the results say


def test_styles_side_by_side(folder: Path) -> None:
    result, _ = run(folder, "colours,colours@letters,colours@hybrid")
    assert [task.name for task in result.tasks] == ["colours", "colours@letters", "colours@hybrid"]
    # Blue is right in every second document, the first choice in every other.
    assert [task.metric("acc").estimate.value for task in result.tasks] == [0.5, 0.5, 0.5]
    picks = [[sample.values["acc"] for sample in task.samples][:2] for task in result.tasks]
    assert picks == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


def test_rotated_values(folder: Path) -> None:
    """Always A: one rotation of n is right, no two agree; of predictions with one vote each the first wins."""
    result, _ = run(folder, "colours@letters:rotated")
    assert metric(result, "acc") == pytest.approx((6 * 1 / 2 + 6 * 1 / 3) / 12)
    assert metric(result, "rotation_agreement") == 0.0
    assert metric(result, "rotation_all") == 0.0
    assert metric(result, "rotation_vote") == 0.5
    texts, _ = run(folder, "colours@hybrid:rotated")
    assert (metric(texts, "acc"), metric(texts, "rotation_agreement"), metric(texts, "rotation_all")) == (0.5, 1.0, 0.5)


def test_a_group_in_a_style(folder: Path) -> None:
    (folder / "other.yaml").write_text(yaml.safe_dump({**TASK, "task": "other"}), encoding="utf-8")
    group = {"group": "both", "task": ["colours", "other"], "aggregate_metric_list": [{"metric": "acc"}]}
    (folder / "both.yaml").write_text(yaml.safe_dump(group), encoding="utf-8")
    result, asked = run(folder, "both@letters")
    assert [task.name for task in result.tasks] == ["colours@letters", "other@letters"]
    (found,) = result.groups
    assert (found.spec.name, found.leaves) == ("both@letters", ("colours@letters", "other@letters"))
    assert found.metrics[0].estimate.value == 0.5
    assert len(asked) == PAIRS  # the two tasks ask the same


def test_a_file_of_parts_alone(tmp_path: Path) -> None:
    keys = dict.fromkeys(("doc_to_text", "doc_to_target", "doc_to_choice", "output_type"))
    write(tmp_path, ROWS, **keys, format={"question": "q", "choices": "options", "answer": "label"})
    result, asked = run(tmp_path)
    assert asked[0] == Loglikelihood("Question: What colour is thing 0?\nAnswer:", " red")
    assert metric(result, "acc") == 0.5


# Odd documents


@pytest.mark.parametrize(
    ("change", "note", "text"),
    [
        ({"options": ["x", "x"]}, "equal_choices", "equal choices"),
        ({"options": ["", "x"]}, "empty_choice", "an empty choice"),
        ({"options": ["x"], "label": 0}, "single_choice", "a single choice"),
        ({"label": -1}, "invalid_gold", "not among the choices"),
        ({"label": 9}, "invalid_gold", "not among the choices"),
        ({"label": "purple"}, "invalid_gold", "not among the choices"),
    ],
)
def test_odd_documents_are_counted(tmp_path: Path, change: dict[str, Any], note: str, text: str) -> None:
    write(tmp_path, [*ROWS, {**ROWS[0], **change}, {**ROWS[1], **change}])
    result, _ = run(tmp_path, metrics="all")
    assert result.tasks[0].denominators.notes == {note: 2}
    assert any(text in notice and "(2)" in notice for notice in result.notices)
    assert all(item.estimate.value == item.estimate.value for item in result.tasks[0].metrics)  # no NaN


def test_sound_documents_have_no_notes(folder: Path) -> None:
    result, _ = run(folder, "colours,colours@letters,colours@letters:rotated")
    assert [task.denominators.notes for task in result.tasks] == [{}, {}, {}]


# The command line


@pytest.fixture
def assay(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def call(*words: str) -> tuple[int, str]:
        code = main([*words, "--include_path", str(folder)])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


def test_results_of_a_style_of_ones_own(assay: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml.d" / "mine.yaml"
    mine.parent.mkdir()
    mine.write_text('prompt: "{{question}} {{choices|join(\' or \')}}?"\nanswer: "{{choice}}"\n', encoding="utf-8")
    out = tmp_path / "out"
    words = ("--store", str(tmp_path / "s.db"), "--output_path", str(out), "--log_samples")
    code, text = assay("run", "--model", "dummy", "--tasks", f"colours@{mine}", *words)
    assert code == 0, text
    (results,) = out.rglob("results_*.json")
    assert list(json.loads(results.read_text(encoding="utf-8"))["results"]) == [f"colours@{mine}"]
    (samples,) = out.rglob("samples_*.jsonl")
    first = json.loads(samples.read_text(encoding="utf-8").splitlines()[0])
    assert "What colour is thing 0? red or blue?" in json.dumps(first)


def test_rotations_need_a_style_that_lists(assay: Callable[..., tuple[int, str]]) -> None:
    code, text = assay("run", "--model", "dummy", "--tasks", "colours", "--rotations")
    assert code != 0
    assert "colours" not in text.split("--rotations")[0]
    assert "TASK@letters:rotated" in text
    code, text = assay("run", "--model", "dummy", "--tasks", "colours", "--style", "cloze", "--rotations")
    assert code != 0
    assert "its prompt shows no choices" in text


def test_a_rotated_style_with_rotations_is_named_once(folder: Path) -> None:
    result, _ = run(folder, style="letters:rotated", rotations=True)
    assert result.tasks[0].name == "colours@letters:rotated"


def test_an_unknown_style_of_a_run(folder: Path) -> None:
    with pytest.raises(UserError, match=r'no style "leters" \(did you mean "letters"\?\)'):
        run(folder, style="leters")
