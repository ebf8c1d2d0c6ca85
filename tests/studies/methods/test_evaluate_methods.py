"""A study of methods from task file to cells, with a model whose answers are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.api import study_methods
from assay.core.errors import UserError
from assay.core.requests import Generation, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure, Logprob
from assay.scoring.scorers.multiple_choice import METHODS
from assay.studies.methods.methods_values import MethodsStudy
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task

# Choices as they are scored, each with: tokens, log-likelihood after the question, alone, and after "Answer:".
TABLE = {
    " ox": (1, -2.0, -1.0, -1.5),
    " elephant": (4, -4.0, -5.0, -2.0),
    " hippopotamus": (2, -3.0, -2.0, -4.5),
}


def likelihoods(request: Request) -> Logprob | str:
    if isinstance(request, RollingLoglikelihood):
        return Logprob(-20.0, 9, False, 1)
    if isinstance(request, Generation):
        return "C"
    assert isinstance(request, Loglikelihood)
    tokens, given, alone, phrase = TABLE.get(
        request.continuation, (1, -float(ord(request.continuation[-1])), -1.0, -1.0)
    )
    total = {"": alone, "Answer:": phrase}.get(str(request.prompt), given)
    return Logprob(total, tokens, False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The task `heavy` with two documents and three choices, and a group of it with a second one."""
    rows = [
        {"q": f"Which is heavy, number {n}?", "options": ["ox", "elephant", "hippopotamus"], "right": n} for n in (1, 2)
    ]
    (tmp_path / "heavy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = """task: heavy
dataset_path: json
dataset_kwargs: {data_files: {test: heavy.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{q}}\\nAnswer:"
doc_to_choice: options
doc_to_target: right
"""
    (tmp_path / "heavy.yaml").write_text(text)
    (tmp_path / "heavier.yaml").write_text(text.replace("task: heavy", "task: heavier"))
    (tmp_path / "both.yaml").write_text("group: both\ntask: [heavy, heavier]\n")
    return tmp_path


def made(folder: Path, *models: ScriptedModel, tasks: str = "heavy", **settings: object) -> MethodsStudy:
    given = list(models) or [ScriptedModel(likelihoods)]
    return study_methods(given, tasks, store=":memory:", include_path=str(folder), **settings)  # type: ignore[arg-type]


def test_every_method_predicts_what_its_rule_says(folder: Path) -> None:
    """By hand, per choice: raw −2, −4, −3; by token −2, −1, −1.5; by character and byte −1, −0.5, −0.25; by
    delimiter and choice −2/3, −4/9, −3/13; mutual information −1, 1, −1; with the phrase −0.5, −2, 1.5;
    whole prompt of 10 tokens −22/11, −24/14, −23/12."""
    picks = {cell.method: cell.predictions for cell in made(folder).cells}
    assert picks == {
        "raw": (0, 0),
        "token": (1, 1),
        "character": (2, 2),
        "continuation": (2, 2),
        "byte": (2, 2),
        "mutual": (1, 1),
        "mutual-phrase": (2, 2),
        "opencompass": (1, 1),
    }
    assert list(picks) == list(METHODS)


def test_hits_follow_the_right_choices(folder: Path) -> None:
    study = made(folder)
    hits = {cell.method: cell.hits for cell in study.cells}
    assert (hits["raw"], hits["token"], hits["character"]) == ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
    assert study.chances == {"heavy": pytest.approx(1 / 3)}


def test_styles_are_evaluated_in_one_run_and_share_documents(folder: Path) -> None:
    study = made(folder, styles=["own", "cloze", "letters"], methods=["raw"])
    assert study.styles == ("own", "cloze", "letters")
    assert {(cell.style, cell.documents) for cell in study.cells} == {
        (style, ("heavy#0", "heavy#1")) for style in study.styles
    }
    # Letters are likelier the earlier they are in the alphabet.
    assert {cell.style: cell.predictions for cell in study.cells} == {"own": (0, 0), "cloze": (0, 0), "letters": (0, 0)}
    assert study.questions["heavy#0"].lengths == (2, 8, 12)


def test_a_style_that_equals_the_task_is_not_requested_twice(folder: Path) -> None:
    model = ScriptedModel(likelihoods)
    made(folder, model, styles=["own", "cloze"], methods=["raw"])
    assert len(model.asked) == 2 * 3


def test_only_what_the_methods_need_is_requested(folder: Path) -> None:
    counts: dict[str, int] = {}
    for methods in (["raw"], ["raw", "token", "character", "byte"], ["mutual"], ["mutual-phrase"], ["opencompass"]):
        model = ScriptedModel(likelihoods)
        made(folder, model, methods=methods)
        counts[methods[-1]] = len(model.asked)
    # Mutual information: the three choices alone, shared by both documents; whole prompts: one per document.
    assert counts == {"raw": 6, "byte": 6, "mutual": 9, "mutual-phrase": 9, "opencompass": 8}


def test_the_study_counts_what_each_method_costs(folder: Path) -> None:
    assert made(folder).requests == {"raw": 6, "mutual": 3, "mutual-phrase": 3, "opencompass": 2}


def test_a_written_answer_is_read_by_each_pipeline(folder: Path) -> None:
    study = made(folder, styles=["generate"])
    assert {cell.method: (cell.predictions, cell.hits) for cell in study.cells} == {
        "strict": ((2, 2), (0.0, 1.0)),
        "extract": ((2, 2), (0.0, 1.0)),
    }


def test_an_answer_outside_the_choices_predicts_none(folder: Path) -> None:
    model = ScriptedModel(
        lambda request: "The answer is B." if isinstance(request, Generation) else likelihoods(request)
    )
    study = made(folder, model, styles=["generate"])
    assert {cell.method: cell.predictions for cell in study.cells} == {"strict": (-1, -1), "extract": (1, 1)}
    assert {item.cell: item.none for item in study.places} == {"strict@generate": 2, "extract@generate": 0}
    (message,) = study.diagnostics.values()
    rates = {
        (metric.metric, metric.filter): metric.estimate.value for metric in message if metric.metric != "exact_match"
    }
    assert rates == {("no_answer", "strict"): 1.0, ("no_answer", "extract"): 0.0, ("truncated", "none"): 0.0}


def by_choice(request: Request) -> Logprob:
    """Prefers the first letter, for any choice."""
    assert isinstance(request, Loglikelihood)
    return Logprob(-float(ord(request.continuation.strip()[0])), 1, False)


def test_rotations_average_over_the_orders(folder: Path) -> None:
    study = made(folder, ScriptedModel(by_choice), styles=["letters"], methods=["raw"], rotations=True)
    (cell,) = study.cells
    # The first letter stands for each of the three choices once: right in one order of three, and never agreed on.
    assert cell.style == "letters:rotated"
    assert cell.hits == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    (metrics,) = study.diagnostics.values()
    assert {metric.metric: metric.estimate.value for metric in metrics if metric.metric.startswith("rotation")} == {
        "rotation_agreement": 0.0,
        "rotation_all": 0.0,
        "rotation_vote": 0.0,
    }


def test_rotations_of_a_style_that_shows_no_choices_are_one(folder: Path) -> None:
    assert made(folder, styles=["cloze", "letters"], methods=["raw"], rotations=True).styles == (
        "cloze",
        "letters:rotated",
    )


def test_a_group_is_one_unit_over_all_its_documents(folder: Path) -> None:
    study = made(folder, tasks="both", methods=["raw", "token"], styles=["own", "letters"])
    assert study.tasks == ("both",)
    token = next(cell for cell in study.cells if cell.name == "token@own")
    assert token.documents == ("heavy#0", "heavy#1", "heavier#0", "heavier#1")
    assert token.hits == (1.0, 0.0, 1.0, 0.0)
    ece = [metric for metric in study.diagnostics["scripted", "both", "own"] if metric.metric == "ece"]
    assert [metric.estimate.n for metric in ece] == [4]
    written = made(folder, tasks="both", styles=["generate"]).diagnostics["scripted", "both", "generate"]
    assert [(m.metric, m.filter, m.estimate.value, m.estimate.n) for m in written if m.metric == "no_answer"] == [
        ("no_answer", "strict", 0.0, 4),
        ("no_answer", "extract", 0.0, 4),
    ]


def test_units_are_in_the_order_of_the_run(folder: Path) -> None:
    text = (folder / "heavy.yaml").read_text()
    (folder / "alone.yaml").write_text(text.replace("task: heavy", "task: alone"))
    assert made(folder, tasks="alone,both", methods=["raw"]).tasks == ("alone", "both")
    assert made(folder, tasks="both,alone", methods=["raw"]).tasks == ("both", "alone")


def test_failed_documents_are_left_out_of_every_method(folder: Path) -> None:
    def failing(request: Request) -> Logprob | str | Failure:
        is_second = isinstance(request, Loglikelihood) and "number 2" in str(request.prompt)
        return Failure("error", "no") if is_second else likelihoods(request)

    study = made(folder, ScriptedModel(failing))
    assert {cell.documents for cell in study.cells} == {("heavy#0",)}


def test_models_of_one_name_are_distinguished(folder: Path) -> None:
    study = made(folder, ScriptedModel(likelihoods), ScriptedModel(likelihoods), methods=["raw"])
    assert study.models == ("scripted", "scripted (2)")


def test_a_python_task_is_studied_as_it_is() -> None:
    def likelier_later(request: Request) -> Logprob:
        assert isinstance(request, Loglikelihood)
        return Logprob(-1.0 / len(request.continuation), 1, False)

    study = study_methods(
        ScriptedModel(likelier_later), toy_choice_task(5), store=":memory:", styles=["own", "letters"]
    )
    assert {cell.style for cell in study.cells} == {"own"}
    assert {cell.method for cell in study.cells} == {"raw", "token", "character", "continuation", "byte"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"methods": ["tokens"]}, ['no method "tokens"', 'did you mean "token"', "one of all, raw, token"]),
        ({"styles": ["leters"]}, ['unknown style "leters"', 'did you mean "letters"']),
        ({"styles": ["letters:upside"]}, ['unknown change "upside"']),
        ({"style": "letters"}, ["--style: does not apply to a study", "--styles"]),
        ({"metrics": "acc"}, ["--metrics: does not apply to a study", "--methods"]),
        ({"like": "olmes"}, ["--like: a profile has one style and method"]),
    ],
)
def test_wrong_options_are_reported_before_anything_runs(
    folder: Path, settings: dict[str, object], words: list[str]
) -> None:
    model = ScriptedModel(likelihoods)
    with pytest.raises(UserError) as raised:
        made(folder, model, **settings)
    assert all(word in str(raised.value) for word in words)
    assert model.asked == []


def test_tasks_without_choices_are_reported() -> None:
    with pytest.raises(UserError, match="none of the tasks has choices"):
        study_methods(ScriptedModel(lambda request: "1"), toy_generation_task(3), store=":memory:")


def test_a_conversation_has_no_whole_prompt(folder: Path, tmp_path: Path) -> None:
    study = made(folder, apply_chat_template=True)
    assert "opencompass" not in {cell.method for cell in study.cells}
    assert study.notices[0].startswith("opencompass was left out")
    with pytest.raises(UserError, match="reads the whole prompt"):
        made(folder, apply_chat_template=True, methods=["opencompass"])


def test_cut_examples_have_no_whole_prompt(folder: Path) -> None:
    study = made(folder, styles=["own", "metaicl"])
    assert "opencompass" not in {cell.method for cell in study.cells}
    assert study.notices[0] == ("opencompass was left out: only the model knows the whole prompt of cut examples")
    with pytest.raises(UserError, match="reads the whole prompt, which with cut examples"):
        made(folder, styles=["metaicl"], methods=["opencompass"])


@pytest.mark.parametrize(
    ("style", "count", "expected"),
    [
        ("letters", 12, True),
        ("generate", 12, True),
        ("cloze", 12, False),
        ("letters:rotated", 12, False),
        ("letters", 5, False),
    ],
)
def test_an_order_that_gives_the_answer_away_is_noticed(folder: Path, style: str, count: int, expected: bool) -> None:
    row = json.loads((folder / "heavy.jsonl").read_text().splitlines()[0])
    rows = [{**row, "q": f"Which is heavy, number {n}?", "right": 0} for n in range(count)]
    (folder / "heavy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    notices = made(folder, styles=[style], methods=["raw"]).notices
    words = f"heavy@{style}: the correct choice is at index 0 in all {count} documents, so its position gives it away"
    assert any(words in notice for notice in notices) is expected


def test_documents_in_clusters_are_tested_by_cluster() -> None:
    """The 120 demo questions have 12 subjects; Cochran's Q knows no clusters."""
    study = study_methods(
        ["ngram", "dummy"], "demo_questions", methods=["raw", "byte"], store=":memory:", cluster="subject"
    )
    assert {cell.estimate.clusters for cell in study.cells} == {12}
    assert {(item.test, item.n, item.clusters) for item in study.comparisons} == {("cluster-sign-flip", 120, 12)}
    assert {spread.p for spread in study.spreads} == {None}
