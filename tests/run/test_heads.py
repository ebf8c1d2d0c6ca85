"""Models with heads on ordinary tasks: their requests, their scores, and the notices before the run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate, evaluate_matrix, show_document, study_methods
from assay.api_records import explain, rescore
from assay.core.errors import DataError, ModelError, UserError
from assay.core.requests import HEAD_KINDS, ChoiceSelection, Classification, Rating, Request, SpanExtraction
from assay.core.responses import LabelScores, Text
from assay.report.lm_eval_results import sample_lines
from assay.tasks.python import Choose, Write, task
from assay.testing import ScriptedModel, check_task

LABELS = "[negative, positive]"
TEXTS = [
    {"text": "I liked it.", "label": 1},
    {"text": "I hated it.", "label": 0},
    {"text": "Great fun, I liked that.", "label": 1},
    {"text": "I liked nothing.", "label": 0},
]
SPANS = [
    {"q": "Who has a cat?", "c": "Ann has a red cat.", "a": ["Ann"]},
    {"q": "What has Ann?", "c": "Ann has a red cat.", "a": ["a red cat"]},
    {"q": "Why?", "c": "Ann has a red cat.", "a": []},
]


def write_task(folder: Path, name: str, rows: list[dict[str, Any]], keys: str) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    head = (
        f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {name}.jsonl}}}}\ntest_split: test\n"
    )
    (folder / f"{name}.yaml").write_text(head + keys, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stated = f"format: {{kind: classification, text: text, labels: {LABELS}, answer: label}}\n"
    prompted = 'output_type: multiple_choice\ndoc_to_text: "{{text}}\\nAnswer:"\ndoc_to_target: label\n'
    write_task(tmp_path, "stated", TEXTS, stated + "metric_list: [{metric: acc}, {metric: f1}, {metric: ece}]\n")
    write_task(tmp_path, "found", TEXTS, prompted + f"doc_to_choice: {LABELS}\nnum_fewshot: 1\n")
    options = 'output_type: multiple_choice\ndoc_to_text: "Question: Which?\\nAnswer:"\ndoc_to_target: "{{1}}"\n'
    write_task(tmp_path, "options", TEXTS[:1], options + "doc_to_choice: \"{{[text, 'no.']}}\"\n")
    spans = "format: {kind: span_qa, question: q, context: c, answers: a, may_lack: true}\n"
    write_task(tmp_path, "spans", SPANS, spans)
    write_task(tmp_path, "free", TEXTS, "output_type: generate_until\ndoc_to_text: text\ndoc_to_target: text\n")
    return tmp_path


def answer(request: Request) -> LabelScores | Text:
    """Likes what is liked, the first choice, and the first word of a context; of questions why, it knows nothing."""
    if isinstance(request, Classification):
        share = 0.8 if "liked" in request.first else 0.4
        return LabelScores((math.log(1 - share), math.log(share)))
    if isinstance(request, ChoiceSelection):
        rest = math.log(0.3 / (len(request.choices) - 1))
        return LabelScores((math.log(0.7), *[rest] * (len(request.choices) - 1)))
    assert isinstance(request, SpanExtraction)
    return Text("" if request.question == "Why?" else request.context.split()[0])


def head(*kinds: str, **settings: Any) -> ScriptedModel:
    return ScriptedModel(answer, kinds=kinds or HEAD_KINDS, **settings)


def values(result: Any) -> dict[str, float]:
    return {metric.metric: metric.estimate.value for metric in result.tasks[0].metrics}


# Scores


def test_classes_are_scored(folder: Path) -> None:
    model = head("classification")
    result = evaluate(model, ["stated"], store=":memory:", include_path=folder)
    assert model.asked[0] == Classification("I liked it.", ("negative", "positive"))
    # Picks 1, 0, 1, 1 of 1, 0, 1, 0: two true positives of three, and none missed.
    found = values(result)
    assert found["acc"] == 0.75
    assert found["f1"] == pytest.approx(0.8)
    # Bins of confidence 0.6 (right) and 0.8 (two of three right): 1/4 * 0.4 + 3/4 * (0.8 - 2/3).
    assert found["ece"] == pytest.approx(0.2)


def test_metrics_of_confidence_read_a_heads_scores(folder: Path) -> None:
    names = "+auroc,aurc,log_loss,cohen_kappa,selective_acc@0.5"
    result = evaluate(head("classification"), ["stated"], store=":memory:", include_path=folder, metrics=names)
    found = values(result)
    # Confidence 0.8, 0.6, 0.8, 0.8; right, right, right, wrong: the wrong one is as sure as two and surer than one.
    assert found["auroc"] == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert found["selective_acc@0.5"] == pytest.approx(2 / 3)
    assert found["log_loss"] == pytest.approx(-(2 * math.log(0.8) + math.log(0.6) + math.log(0.2)) / 4)
    # Agreement 3/4; by chance 1/2 * 3/4 + 1/2 * 1/4 = 1/2.
    assert found["cohen_kappa"] == pytest.approx(0.5)
    reliability = result.tasks[0].reliability
    assert reliability is not None and [(one.n, one.accuracy) for one in reliability.bins] == [
        (1, 1.0),
        (3, pytest.approx(2 / 3)),
    ]
    assert result.tasks[0].card.num_fewshot == 0


def test_classes_found_in_prompts_are_evaluated_too(folder: Path) -> None:
    model = head("classification")
    result = evaluate(model, ["found"], store=":memory:", include_path=folder)
    assert model.asked[0] == Classification("I liked it.", ("negative", "positive"))
    assert values(result) == {"acc": 0.75}
    assert "found: a head's scores do not give acc_norm: left out" in result.notices
    assert "found: a classifier head gets no few-shot examples (the task has 1)" in result.notices


def test_classes_are_choices_for_a_head_that_chooses(folder: Path) -> None:
    model = head("choosing")
    result = evaluate(model, ["stated"], store=":memory:", include_path=folder)
    assert model.asked[0] == ChoiceSelection("I liked it.", ("negative", "positive"))
    assert values(result)["acc"] == 0.5


def test_choices_are_evaluated(folder: Path) -> None:
    model = head()
    result = evaluate(model, ["options"], store=":memory:", include_path=folder)
    assert model.asked == [ChoiceSelection("Which?", ("I liked it.", "no."))]
    assert values(result)["acc"] == 0.0


def test_spans_are_evaluated(folder: Path) -> None:
    model = head("span")
    result = evaluate(model, ["spans"], store=":memory:", include_path=folder)
    assert model.asked[0] == SpanExtraction("Who has a cat?", "Ann has a red cat.", may_lack=True)
    # "Ann" is right, shares nothing with "a red cat", and nothing is right of why.
    assert values(result) == {"squad_em": pytest.approx(2 / 3), "squad_f1": pytest.approx(2 / 3)}


def test_ratings_are_correlated(folder: Path) -> None:
    rows = [{"one": f"cat {n}", "two": "dog", "score": n} for n in range(4)]
    keys = "format: {kind: rating, text: one, pair: two, answer: score}"
    write_task(folder, "rated", rows, keys)
    model = ScriptedModel(lambda request: Text(str(-ord(request.first[-1]))), kinds=("rating",))
    result = evaluate(model, ["rated"], store=":memory:", include_path=folder, bootstrap_iters=0)
    assert model.asked[0] == Rating("cat 0", "dog")
    assert values(result) == {"pearson": pytest.approx(-1), "spearman": pytest.approx(-1)}


def test_a_language_model_gets_the_usual_requests(folder: Path) -> None:
    model = ScriptedModel(lambda request: 0.0 if request.kind == "loglikelihood" else answer(request), kinds=(
        "loglikelihood", "classification",
    ))  # fmt: skip
    evaluate(model, ["stated"], store=":memory:", include_path=folder)
    assert {request.kind for request in model.asked} == {"loglikelihood"}


def test_metrics_that_need_likelihoods_give_way_to_accuracy(folder: Path) -> None:
    result = evaluate(head(), ["stated"], store=":memory:", include_path=folder, metrics="acc_norm,acc_bytes")
    assert values(result) == {"acc": 0.75}
    message = "stated: a head's scores do not give acc_norm, acc_bytes: left out, acc is reported instead"
    assert message in result.notices


def test_all_metrics_that_fit(folder: Path) -> None:
    result = evaluate(head(), ["stated"], store=":memory:", include_path=folder, metrics="all")
    names = set(values(result))
    assert {"acc", "brier_score", "ece", "choice_margin", "position_bias", "position_0"} <= names
    assert names.isdisjoint({"acc_norm", "acc_tokens", "exact_match", "choice_mass", "greedy_choice"})


def test_scoring_of_its_own_gives_way_to_accuracy(folder: Path) -> None:
    (folder / "code.py").write_text("def score(doc, results):\n    return {'acc': 0.0}\n", encoding="utf-8")
    text = (folder / "found.yaml").read_text(encoding="utf-8") + "process_results: !function code.score\n"
    (folder / "found.yaml").write_text(text, encoding="utf-8")
    result = evaluate(head(), ["found"], store=":memory:", include_path=folder, allow_code=True)
    assert values(result) == {"acc": 0.75}
    assert any("its own scoring (process_results) cannot read a head's scores" in line for line in result.notices)


def test_python_tasks_are_evaluated() -> None:
    @task("toy", rows=[{"n": 1}, {"n": 2}])
    def toy(row: Mapping[str, Any]) -> Choose:
        return Choose(f"Question: {row['n']}?\nAnswer:", [f"{row['n']}", "x"], 0)

    model = head()
    assert values(evaluate(model, [toy], store=":memory:"))["acc"] == 1.0
    assert model.asked[1] == ChoiceSelection("2?", ("2", "x"))


# What is said before anything runs


def test_a_task_without_a_format_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="cannot answer generation requests.*the task states no format"):
        evaluate(head(), ["free"], store=":memory:", include_path=folder)


def test_a_head_of_another_kind_is_refused(folder: Path) -> None:
    model = head("span")
    with pytest.raises(ModelError, match="documents are texts with classes, which a head for span cannot answer"):
        evaluate(model, ["stated"], store=":memory:", include_path=folder)
    assert model.asked == []


def test_labels_outside_the_head_are_refused(folder: Path) -> None:
    model = head("classification", labels=("LOVE", "hate"))
    with pytest.raises(
        ModelError, match='labels outside the head: the task "stated" has negative, positive; expected LOVE'
    ):
        evaluate(model, ["stated"], store=":memory:", include_path=folder)


def test_labels_may_be_spelt_otherwise(folder: Path) -> None:
    model = head("classification", labels=("very_bad", "POSI-TIVE", "Nega Tive"))
    assert evaluate(model, ["stated"], store=":memory:", include_path=folder).failures == {}


def test_a_document_of_another_format_is_an_error() -> None:
    @task(
        "toy", rows=[{"c": ["A", "B"], "p": "Which?\nA. x\nB. y\nAnswer:"}, {"c": ["A", "B"], "p": "Which?\nAnswer:"}]
    )
    def toy(row: Mapping[str, Any]) -> Choose:
        return Choose(row["p"], row["c"], 0)

    with pytest.raises(DataError, match="task toy, document 1: no question for a choosing request"):
        evaluate(head(), [toy], store=":memory:")


def test_the_study_of_methods_refuses_heads(folder: Path) -> None:
    with pytest.raises(UserError, match="answers stated with a classifier head, which has no likelihoods"):
        study_methods([head()], ["stated"], store=":memory:", include_path=folder)


# Records


def test_a_matrix_holds_heads_and_language_models(folder: Path) -> None:
    plain = ScriptedModel(lambda request: -1.0, name="plain")
    matrix = evaluate_matrix([plain, head(name="head")], ["stated", "free"], store=":memory:", include_path=folder)
    shown = {(cell.model, cell.task): cell.estimate.value for cell in matrix.cells if cell.task == "stated"}
    assert shown == {("plain", "stated"): 0.5, ("head", "stated"): 0.75}
    (gap,) = [gap for gap in matrix.gaps if gap.model == "head"]
    assert gap.task == "free"
    assert "the task states no format" in gap.reason


def test_a_run_of_a_head_is_rescored(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    first = evaluate(head(), ["stated", "spans"], store=store, include_path=folder)
    again = rescore(first.run_id, store=store, metrics="+brier_score")
    assert {metric.metric for metric in again.task("stated").metrics} == {"acc", "f1", "ece", "brier_score"}
    # (0.2² + 0.2², 0.4² + 0.4², the first again, 0.8² + 0.8²) / 4
    brier = next(metric for metric in again.task("stated").metrics if metric.metric == "brier_score")
    assert brier.estimate.value == pytest.approx((0.08 + 0.32 + 0.08 + 1.28) / 4)
    with pytest.raises(UserError, match="no task of the run can be scored by acc_norm"):
        rescore(first.run_id, store=store, metrics="acc_norm")


def test_runs_of_heads_are_explained(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    one = evaluate(head(), ["stated"], store=store, include_path=folder)
    two = evaluate(ScriptedModel(lambda request: -1.0, name="plain"), ["stated"], store=store, include_path=folder)
    assert explain(one.run_id, one.run_id, store=store).tasks[0].difference == 0.0
    assert explain(one.run_id, two.run_id, store=store).tasks[0].difference == pytest.approx(-0.25)


def test_sample_logs_and_documents_are_shown(folder: Path) -> None:
    for name in ("stated", "options", "spans"):
        result = evaluate(head(), [name], store=":memory:", include_path=folder)
        assert len(list(sample_lines(result.tasks[0])[0])) == len(result.tasks[0].answered)
        (shown,) = show_document(name, 0, head(), include_path=folder)
        check_task(shown.task)


def test_a_head_gets_no_request_twice(folder: Path, tmp_path: Path) -> None:
    evaluate(head(), ["stated", "spans", "options"], store=tmp_path / "s.db", include_path=folder)
    model = head()
    evaluate(model, ["stated", "spans", "options"], store=tmp_path / "s.db", include_path=folder)
    assert model.asked == []


def test_a_question_to_write_has_no_format() -> None:
    @task("toy", rows=[{"n": 1}])
    def toy(row: Mapping[str, Any]) -> Write:
        return Write("Say.", "x")

    with pytest.raises(ModelError, match="cannot answer generation requests"):
        evaluate(head(), [toy], store=":memory:")
