"""Group scores of a run: reported, recorded, loaded, rescored, and empty with a reason if a task has no value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate, evaluate_matrix, load_run, rescore
from assay.core.requests import Request
from assay.core.responses import Failure, Logprob
from assay.core.results import RunResult
from assay.report.tables import result_rows
from assay.testing import ScriptedModel

TASK = (
    "dataset_path: json\ndataset_kwargs: {data_files: {test: NAME.jsonl}}\ntest_split: test\n"
    "output_type: multiple_choice\ndoc_to_text: 'NAME: {{q}}'\ndoc_to_choice: [nope, yep, perhaps, never]\n"
    "doc_to_target: label\nmetric_list: [{metric: acc}, {metric: acc_norm}]\ncard: {primary: acc, chance: 0.25}\n"
)
SUITE = (
    "group: suite\ntask: [one, two]\naggregate_metric_list: [{metric: acc, weight_by_size: false}]\n"
    "score:\n  name: average\n  scale: 100\n  floor: chance\n  metric: acc\n  members: {one: , two: }\n"
)
Run = Callable[..., RunResult]


def answer(request: Request) -> Logprob | Failure:
    """Always says "nope"."""
    return Logprob(-1.0 if str(getattr(request, "continuation", "")).strip() == "nope" else -5.0, 1, False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, golds in (("one", [0, 0, 0, 1]), ("two", [0, 0, 1, 2, 3, 0, 0, 0])):
        rows = [{"q": f"{place}?", "label": gold} for place, gold in enumerate(golds)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / f"{name}.yaml").write_text(f"task: {name}\n" + TASK.replace("NAME", name))
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Run:
    def call(respond: Callable[[Request], Any] = answer, **settings: Any) -> RunResult:
        chosen = {"store": tmp_path / "s.db", "include_path": folder, **settings}
        return evaluate(ScriptedModel(respond), "suite", bootstrap_iters=0, **chosen)

    return call


EXPECTED = 100 * ((0.75 - 0.25) / 0.75 + (0.625 - 0.25) / 0.75) / 2


def first(result: RunResult) -> tuple[str, float | None]:
    metric = result.group("suite").metrics[0]
    return metric.metric, metric.estimate.value


def test_a_run_reports_the_score_beside_the_aggregates(run: Run) -> None:
    result = run()
    metrics = {item.metric: item.estimate for item in result.group("suite").metrics}
    assert metrics["average"].value == pytest.approx(EXPECTED)
    assert (metrics["average"].n, metrics["acc"].value) == (12, pytest.approx(0.6875))
    row = next(row for row in result_rows(result) if row.name == "suite")
    assert (row.metric, row.value) == ("average", "58.3333")
    assert [row["value"] for row in result.to_dicts() if row["metric"] == "average"] == [pytest.approx(EXPECTED)]


def test_result_files_have_it_in_lm_evals_shape(run: Run, tmp_path: Path) -> None:
    run(output_path=tmp_path / "out")
    (path,) = (tmp_path / "out").rglob("results_*.json")
    data = json.loads(path.read_text())
    entry = data["groups"]["suite"]
    assert entry["average,none"] == pytest.approx(EXPECTED) and entry["average_stderr,none"] > 0
    assert entry["sample_count"]["average,none"] == 12 and data["higher_is_better"]["suite"]["average"] is True
    own = data["assay"]["groups"]["suite"][0]
    assert (own["metric"], own["estimate"]["method"]) == ("average", "delta-mover")


def test_a_loaded_and_a_rescored_run_have_the_same_score(run: Run, tmp_path: Path) -> None:
    result = run()
    assert first(load_run(result.run_id, store=tmp_path / "s.db")) == first(result)
    again = rescore(result.run_id, metrics="+acc_bytes", store=tmp_path / "s.db")
    assert first(again) == ("average", pytest.approx(EXPECTED))


def test_a_metric_that_is_not_reported_leaves_the_score_empty(run: Run, tmp_path: Path) -> None:
    result = run()
    again = rescore(result.run_id, metrics="acc_bytes", store=tmp_path / "s.db")
    assert first(again) == ("average", None)
    (problem,) = again.problems
    assert 'group suite: no score "average": one does not report acc (it reports acc_bytes)' in problem.text


def test_a_task_that_failed_leaves_the_score_empty(run: Run) -> None:
    def failing(request: Request) -> Logprob | Failure:
        return Failure("server", "gone") if "two:" in str(getattr(request, "prompt", "")) else answer(request)  # type: ignore[return-value]

    result = run(failing)
    assert first(result) == ("average", None)
    assert not result.is_whole
    assert any('no score "average": two' in problem.text for problem in result.problems)


def test_a_few_failures_give_bounds(run: Run) -> None:
    def failing(request: Request) -> Logprob | Failure:
        return Failure("server", "gone") if "two: 7?" in str(getattr(request, "prompt", "")) else answer(request)  # type: ignore[return-value]

    metric = run(failing).group("suite").metrics[0]
    assert metric.estimate.value == pytest.approx(100 * ((0.5 / 0.75) + (4 / 7 - 0.25) / 0.75) / 2)
    assert metric.bounds is not None
    assert metric.bounds.low == pytest.approx(100 * ((0.5 / 0.75) + (4 / 8 - 0.25) / 0.75) / 2)
    assert metric.bounds.high == pytest.approx(EXPECTED)


def test_recorded_answers_have_no_score_and_no_problem(run: Run) -> None:
    result = run(predict_only=True)
    assert "average" not in [item.metric for item in result.group("suite").metrics]
    assert not result.problems


def test_a_matrix_shows_the_score_of_a_suite(folder: Path, tmp_path: Path) -> None:
    text = SUITE.replace("aggregate_metric_list: [{metric: acc, weight_by_size: false}]\n", "")
    (folder / "suite.yaml").write_text(text)
    found = evaluate_matrix(["dummy", "ngram"], ["suite"], include_path=folder, store=tmp_path / "m.db")
    assert [(cell.task, cell.metric) for cell in found.cells] == [("suite", "average")] * 2
    assert all(cell.baseline is None and cell.estimate.n == 12 for cell in found.cells)
