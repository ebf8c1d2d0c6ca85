"""A task that cannot be scored costs itself alone: in runs, laps, groups, rescoring, comparisons, matrices."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate, evaluate_matrix
from assay.api_records import compare, explain, rescore
from assay.core.errors import MissingExtra, UserError
from assay.core.requests import Generation, Request
from assay.core.results import RunResult, TaskResult
from assay.core.specs import FilterSpec, GroupMetricSpec, GroupSpec, MetricSpec, PipelineSpec
from assay.report.lm_eval_results import results_data, sample_lines
from assay.report.tables import NOT_SCORED, result_rows
from assay.scoring.aggregate import aggregate_groups
from assay.store.store import Store
from assay.testing import ScriptedModel, ToyTask, toy_generation_task

SIZE = 40


def answer(request: Request) -> str:
    assert isinstance(request, Generation)
    return str(int(str(request.prompt).split(" + ")[0]) + 7)


def broken(message: str, kind: type[BaseException] = ValueError) -> Any:
    def raising(*given: Any) -> Any:
        raise kind(message)

    return raising


def task(name: str, **changes: Any) -> ToyTask:
    made = toy_generation_task(SIZE, name)
    return replace(made, scoring=replace(made.scoring, **changes))


def by_aggregation(name: str = "bad") -> ToyTask:
    return task(name, metrics=(MetricSpec("exact_match", broken("no labels")),))


def by_filter(name: str = "bad") -> ToyTask:
    steps = (FilterSpec("custom", {"filter_fn": broken("no such column")}),)
    return task(name, pipelines=(PipelineSpec("strict", steps),))


def by_process(name: str = "bad") -> ToyTask:
    return task(name, process=broken("no answer"))


def by_exit(name: str = "bad") -> ToyTask:
    return task(name, process=broken("no grader", SystemExit))


def by_bug(name: str = "bad") -> ToyTask:
    """A metric's setting breaks after some documents: nothing foresees it."""
    made = task(name)
    odd = MetricSpec("exact_match", options={"ignore_case": Unreadable()})
    return replace(made, scoring=replace(made.scoring, metrics=(odd,)))


class Unreadable:
    asked = 0

    def __bool__(self) -> bool:
        self.asked += 1
        if self.asked > SIZE // 2:
            raise RuntimeError("neither true nor false")
        return True


def run(*tasks: ToyTask, store: Path | str = ":memory:", model: ScriptedModel | None = None, **more: Any) -> RunResult:
    return evaluate(model or ScriptedModel(answer), list(tasks), store=store, bootstrap_iters=0, **more)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (by_aggregation(), 'task bad, metric "exact_match": its aggregation raising raised ValueError: no labels'),
        (by_filter(), 'task bad, filter strict, document 0: filter "custom" raised ValueError: no such column'),
        (by_process(), "task bad, document 0: process_results raised ValueError: no answer"),
        (by_exit(), "task bad, document 0: process_results raised SystemExit: no grader"),
    ],
)
def test_what_cannot_be_scored_leaves_the_others_their_score(bad: ToyTask, message: str, tmp_path: Path) -> None:
    result = run(bad, toy_generation_task(SIZE, "good"), store=tmp_path / "s.db")
    assert result.task("good").metric("exact_match").estimate.value == 1.0
    problem = result.task("bad").problem
    assert problem is not None and not problem.is_bug and not result.is_whole
    assert problem.text.startswith(message) and "are not requested again" in problem.text
    with Store(tmp_path / "s.db") as store:
        record = store.runs.get("last")
        assert record.status == "incomplete"
        assert record.numbers("bad")["problem"]["text"] == problem.text
        assert record.numbers("good")["metrics"][0]["estimate"]["value"] == 1.0


def test_once_fixed_nothing_is_requested_again(tmp_path: Path) -> None:
    run(by_process(), toy_generation_task(SIZE, "good"), store=tmp_path / "s.db")
    asked = ScriptedModel(answer)
    result = run(task("bad"), toy_generation_task(SIZE, "good"), store=tmp_path / "s.db", model=asked)
    assert (asked.asked, result.is_whole) == ([], True)
    again = rescore("last~1", tasks=[task("bad"), toy_generation_task(SIZE, "good")], store=tmp_path / "s.db")
    assert again.is_whole and again.task("bad").metric("exact_match").estimate.value == 1.0


def test_an_error_of_our_own_code_is_a_bug_and_costs_the_task_alone() -> None:
    result = run(by_bug(), toy_generation_task(SIZE, "good"))
    problem = result.task("bad").problem
    assert problem is not None and problem.is_bug and "RuntimeError: neither true nor false" in problem.text
    assert "Traceback" in problem.to_json()["trace"]
    assert result.task("good").metric("exact_match").estimate.value == 1.0


def test_the_answers_of_an_unscored_task_are_in_table_and_files() -> None:
    result = run(by_process(), toy_generation_task(SIZE, "good"))
    assert [row.metric for row in result_rows(result) if row.name == "bad"] == [NOT_SCORED]
    data = results_data(result, {})
    assert "exact_match,none" not in data["results"]["bad"] and "exact_match,none" in data["results"]["good"]
    assert "no answer" in data["assay"]["tasks"]["bad"]["problem"]["text"]
    lines = list(sample_lines(result.task("bad"))[0])
    assert len(lines) == SIZE and '"resps": [["7"]]' in lines[0]


def grouped(*tasks: TaskResult, **changes: Any) -> Any:
    spec = GroupSpec("g", "g", tuple(item.name for item in tasks), (GroupMetricSpec("exact_match"),), **changes)
    return aggregate_groups([spec], tasks)[0]


def test_a_group_with_an_unscored_task_has_no_score_and_names_it() -> None:
    result = run(by_process("b"), toy_generation_task(SIZE, "a"))
    group = grouped(*result.tasks)
    assert [metric.estimate.value for metric in group.metrics] == [None]
    assert group.problem is not None and "its task b could not be scored" in group.problem.text
    assert grouped(result.task("a")).problem is None


def test_laps_go_on_without_a_task_that_cannot_be_scored() -> None:
    asked = ScriptedModel(answer)
    result = run(by_process(), toy_generation_task(SIZE, "good"), model=asked, until_se=0.001)
    bad, good = result.task("bad"), result.task("good")
    assert bad.problem is not None and bad.denominators.total == 32  # one lap, and nothing more
    assert good.problem is None and good.denominators.total == SIZE


def test_a_task_of_which_no_document_counts_is_named() -> None:
    empty = run(toy_generation_task(0, "empty"), toy_generation_task(3, "good"))
    problem = empty.task("empty").problem
    assert problem is not None and "task empty: no score: it has no documents" in problem.text
    assert not empty.is_whole and empty.task("good").problem is None


def test_rescoring_a_run_without_any_answer_is_not_whole(tmp_path: Path) -> None:
    def stop(request: Request) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(task("good"), store=tmp_path / "s.db", model=ScriptedModel(stop))
    result = rescore("last", tasks=[task("good")], store=tmp_path / "s.db")
    assert result.counts.failed == 0 and not result.is_whole
    problem = result.task("good").problem
    assert problem is not None and f"all {SIZE} documents failed" in problem.text


def test_a_comparison_says_which_task_a_run_could_not_score(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    for bad in (by_process(), task("bad")):
        run(bad, toy_generation_task(SIZE, "good"), store=store)
    found = compare("last~1", "last", store=store)
    assert [pair.task for pair in found.pairs] == ["good"]
    (left_out,) = found.uncompared
    assert left_out.task == "bad" and "could not score it: task bad, document 0" in left_out.reason


def test_an_explanation_goes_on_without_the_score(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    for bad in (by_process(), task("bad")):
        run(bad, toy_generation_task(SIZE, "good"), store=store)
    found = explain("last~1", "last", tasks=("bad", "bad"), store=store)
    assert found.tasks[0].difference is None


def test_a_matrix_has_a_gap_for_the_task_alone() -> None:
    matrix = evaluate_matrix(ScriptedModel(answer), [by_process(), toy_generation_task(SIZE, "good")], store=":memory:")
    assert [cell.task for cell in matrix.cells] == ["good"]
    assert [(gap.task, "no answer" in gap.reason) for gap in matrix.gaps] == [("bad", True)]


class Silent(ScriptedModel):
    """A model that should say something of itself, and fails."""

    def notices(self) -> list[str]:
        raise RuntimeError("nothing to say")


def test_notices_that_fail_do_not_cost_the_scores() -> None:
    result = run(toy_generation_task(SIZE, "good"), model=Silent(answer))
    assert result.task("good").metric("exact_match").estimate.value == 1.0
    (trouble,) = result.run_problems
    assert trouble.is_bug and trouble.text == "the notices: could not be made: RuntimeError: nothing to say"


def test_values_beyond_what_a_rule_of_stopping_takes_cost_the_task_alone() -> None:
    process = lambda document, results: {"exact_match": 5.0}  # noqa: E731
    result = run(task("bad", process=process), toy_generation_task(SIZE, "good"), until_se=0.01)
    problem = result.task("bad").problem
    assert problem is not None and isinstance(problem.error, UserError)
    assert "document" in problem.text and "values from 0 to 1" in problem.text
    assert result.task("good").problem is None


def test_a_record_that_cannot_be_ended_does_not_hide_the_numbers(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db"):
        pass
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute("CREATE TRIGGER full BEFORE UPDATE ON runs BEGIN SELECT RAISE(FAIL, 'no space left'); END")
    connection.commit()
    connection.close()
    result = run(toy_generation_task(SIZE, "good"), store=tmp_path / "s.db")
    assert result.task("good").metric("exact_match").estimate.value == 1.0
    (trouble,) = result.run_problems
    assert not result.is_whole and "no space left" in trouble.text and not trouble.is_bug


def test_a_variant_that_cannot_be_scored_is_reported_where_variants_are_combined(
    write_task: Callable[..., None], tmp_path: Path
) -> None:
    rows = "".join(f'{{"q": "{n}?", "label": {n % 2}}}\n' for n in range(12))
    for name in ("odd", "shots"):
        (tmp_path / "tasks").mkdir(exist_ok=True)
        (tmp_path / "tasks" / f"{name}.jsonl").write_text(rows)
    (tmp_path / "tasks" / "code.py").write_text(
        "calls = []\ndef score(doc, results):\n    calls.append(1)\n"
        "    if len(calls) > 12:\n        raise ValueError('enough')\n    return {'acc': 1.0}\n"
    )
    write_task(process_results="!function code.score", prompts="[{name: a, text: '{{q}}'}, {name: b, text: 'Q {{q}}'}]")
    result = evaluate("dummy", "odd", store=":memory:", include_path=[str(tmp_path / "tasks")], allow_code=True)
    assert [task.problem is None for task in result.tasks] == [True, False]
    (axis,) = result.prompts
    assert axis.scores == {"a": 1.0, "b": None}


def test_a_matrix_names_missing_packages_before_any_model_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    model = ScriptedModel(answer)
    tasks = [task("rouge", metrics=(MetricSpec("rougeL"),)), toy_generation_task(SIZE, "good")]
    with pytest.raises(MissingExtra, match="rouge-score"):
        evaluate_matrix(model, tasks, store=":memory:")
    assert model.asked == []


def test_what_scoring_lacks_is_said_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score", None)
    rouge = task("rouge", metrics=(MetricSpec("rougeL"),))
    with pytest.raises(MissingExtra, match='task rouge, metric "rougeL": the package "rouge-score"'):
        evaluate(ScriptedModel(answer), rouge, store=":memory:", finetune={"finetune": "full"})
