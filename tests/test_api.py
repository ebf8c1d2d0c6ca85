"""The framework from Python."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import Capabilities, Failure, Fingerprint, RunResult, Text, evaluate, make_spec, plan_run
from assay.api import show_document
from assay.core.errors import DataError, UserError
from assay.core.requests import Generation, Request
from assay.core.scores import Estimate, MetricResult
from assay.core.specs import ChatSpec
from assay.tasks.catalog import LIBRARY
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task


def seven(request: Request) -> str | float:
    return "7" if isinstance(request, Generation) else -1.0


class Duck:
    """A model that knows nothing of Assay but the protocol."""

    def __init__(self) -> None:
        self.closed = 0

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint("duck", settings={"version": 1})

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(frozenset({"generation"}))

    def respond(self, requests: Sequence[Request]) -> Iterator[tuple[int, Text | Failure]]:
        return ((place, Text("7")) for place in range(len(requests)))

    def close(self) -> None:
        self.closed += 1


def test_evaluate_gives_a_typed_result() -> None:
    result = evaluate(ScriptedModel(seven), toy_generation_task(4), store=":memory:")
    assert isinstance(result, RunResult)
    metric = result.task("toy_generation").metric("exact_match")
    assert isinstance(metric, MetricResult)
    assert isinstance(metric.estimate, Estimate)
    assert (metric.estimate.value, metric.estimate.n) == (0.25, 4)
    assert (result.spec.model, result.spec.tasks) == ("scripted", ("toy_generation",))


def test_a_second_call_requests_nothing(tmp_path: Path) -> None:
    first, second = ScriptedModel(seven), ScriptedModel(seven)
    one = evaluate(first, toy_generation_task(4), store=tmp_path / "s.db")
    two = evaluate(second, [toy_generation_task(4)], store=str(tmp_path / "s.db"))
    assert (len(first.asked), len(second.asked)) == (4, 0)
    assert one.tasks == two.tasks
    assert one.run_id != two.run_id


def test_any_object_with_the_protocol_is_a_model_and_stays_open() -> None:
    duck = Duck()
    assert evaluate(duck, toy_generation_task(4), store=":memory:").tasks[0].metric("exact_match").estimate.n == 4
    assert duck.closed == 0


def test_a_model_by_name_is_opened() -> None:
    result = evaluate("dummy", toy_choice_task(5), store=":memory:", model_args="seed=3")
    assert result.manifest["model"]["settings"]["seed"] == 3
    assert result.counts.asked == 20


def test_unknown_parts_of_a_result_are_named() -> None:
    result = evaluate(ScriptedModel(seven), toy_generation_task(2), store=":memory:")
    with pytest.raises(KeyError, match='has no task "x"; expected toy_generation'):
        result.task("x")
    with pytest.raises(KeyError, match='has no metric "acc"; expected exact_match'):
        result.tasks[0].metric("acc")
    with pytest.raises(KeyError, match='has no group "g"'):
        result.group("g")


def test_the_same_task_given_twice_is_run_once() -> None:
    task = toy_generation_task(3)
    assert len(evaluate(ScriptedModel(seven), [task, task], store=":memory:").tasks) == 1


def test_no_task_is_an_error() -> None:
    with pytest.raises(UserError, match="--tasks: names no task"):
        evaluate(ScriptedModel(seven), [], store=":memory:")


def test_a_plan_counts_and_requests_nothing(tmp_path: Path) -> None:
    model = ScriptedModel(seven)
    tasks = [toy_generation_task(4), toy_generation_task(6, name="more"), toy_choice_task(2)]
    before = plan_run(model, tasks, store=tmp_path / "s.db")
    assert (before.built, before.unique, before.known, before.missing) == (18, 14, 0, 14)
    assert before.kinds == {"generation": 6, "loglikelihood": 8}
    assert (before.tokens, before.generated_tokens, before.seconds) == (None, 6 * 16, None)
    assert [(row.name, row.built, row.unique, row.missing) for row in before.tasks] == [
        ("toy_generation", 4, 4, 4),
        ("more", 6, 6, 2),
        ("toy_choice", 8, 8, 8),
    ]
    assert model.asked == []


def test_a_plan_knows_what_the_store_knows_and_how_fast_it_was(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    evaluate(ScriptedModel(seven, delay=0.001), toy_generation_task(4), store=store)
    after = plan_run(ScriptedModel(seven), toy_generation_task(10), store=store)
    assert (after.known, after.missing) == (4, 6)
    assert after.seconds is not None and after.seconds > 0.004


def test_a_plan_follows_the_limit() -> None:
    plan = plan_run(ScriptedModel(seven), toy_generation_task(10), store=":memory:", limit=0.25)
    assert (plan.built, plan.tasks[0].documents) == (3, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": 0}, "--limit: is 0"),
        ({"limit": -2}, "--limit: is -2"),
        ({"limit": float("nan")}, "--limit: is nan"),
        ({"limit": float("inf")}, "--limit: is inf"),
        ({"num_fewshot": -1}, "--num_fewshot: is -1"),
        ({"limit": 3, "samples": {"t": [1]}}, "--limit: is given together with --samples"),
        ({"fewshot_as_multiturn": True}, "--fewshot_as_multiturn: needs --apply_chat_template"),
        ({"model_args": "nonsense"}, "--model_args: .* has no name"),
    ],
)
def test_wrong_settings_are_the_users_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_spec("m", ["t"], **settings)


def test_several_wrong_settings_are_reported_at_once() -> None:
    with pytest.raises(UserError) as caught:
        make_spec("m", ["t"], limit=-1, num_fewshot=-1)
    assert len(caught.value.faults) == 2


def test_settings_become_a_specification() -> None:
    spec = make_spec(
        "m",
        ["t"],
        model_args="pretrained=/x,dtype=auto",
        include_path="/tasks",
        apply_chat_template="tool_use",
        system_instruction="Be brief.",
        gen_kwargs={"temperature": 0.5},
        samples={"t": [3, 1]},
        batch_size=8,
        engine="padded",
    )
    assert spec.model_args == {"pretrained": "/x", "dtype": "auto"}
    assert (spec.include_path, spec.samples, spec.settings.batch_size) == (("/tasks",), {"t": (3, 1)}, "8")
    assert (spec.settings.engine, spec.to_json()["settings"]["engine"]) == ("padded", "padded")
    assert spec.options.chat == ChatSpec(True, "tool_use", "Be brief.", True)
    assert spec.options.generation == {"temperature": 0.5}


def test_a_document_is_shown_as_it_would_be_evaluated() -> None:
    task = toy_choice_task(3)
    shown = show_document(task, 2)
    assert [(item.document.id, item.instance, item.tokens) for item in shown] == [(2, task.build(task.rows[2]), ())]


def test_a_document_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DataError, match="task toy_choice: has no document 3; expected a place from 0 to 2"):
        show_document(toy_choice_task(3), 3)


def test_task_files_are_checked(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("task: t\noutput_typ: multiple_choice\n")
    report = assay.check(tmp_path)
    assert (report.files, report.tasks, report.is_valid, report.loading) == (1, 1, False, None)
    assert 'unknown key "output_typ"' in str(report.faults[0])
    loaded = assay.check(str(LIBRARY / "demo"), allow_code=True)
    assert loaded.is_valid and loaded.loading is not None and loaded.loading.tasks == loaded.tasks


def test_public_names_are_sorted_and_all_there() -> None:
    names = [name for name in assay.__all__ if name != "__version__"]
    assert names == sorted(names)
    assert set(names) == set(assay._PUBLIC)
    assert all(getattr(assay, name) is not None for name in assay.__all__)
    assert dir(assay) == sorted(assay.__all__)


VERBS = {
    *("audit", "check", "compare", "evaluate", "evaluate_matrix", "explain", "finetune", "load_run", "plan_run"),
    *("explain_reference", "plot", "rescore", "show_document", "study_methods"),
}
DECORATORS = {"filter", "metric", "model", "task"}
GIVEN = {
    *("CheckReport", "Explanation", "FittedModel", "Matrix", "MethodsStudy", "PlanReport", "RunComparison"),
    *("ReferenceReport", "RunResult", "Settings", "ShownDocument", "Store", "TaskAudit", "TaskResult"),
}


def test_every_verb_and_the_types_it_takes_and_gives_are_public() -> None:
    assert set(assay.__all__) >= VERBS | DECORATORS | GIVEN


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import assay, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "pandas", "rich", "torch", "yaml", "assay.api", "assay.api_records"} & set(loaded)


def test_result_files_hold_what_the_command_line_writes(tmp_path: Path) -> None:
    result = evaluate(
        "ngram",
        "demo_questions",
        limit=5,
        store=tmp_path / "s.db",
        output_path=tmp_path / "out",
        audit=True,
        reliability=True,
    )
    assert result.tasks[0].reliability is not None
    (path,) = (tmp_path / "out").rglob("results_*.json")
    assert "audit" in json.loads(path.read_text())["assay"]
    with pytest.raises(UserError, match="audit is True, and no result file is written. Say output_path=DIR"):
        evaluate("ngram", "demo_questions", store=":memory:", audit=True)


def test_figures_are_drawn_from_the_table_in_the_result_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = {"reliability": tmp_path / "r.svg"}
    result = evaluate("ngram", "demo_questions", limit=5, store=":memory:", figures=figures)
    assert result.tasks[0].reliability is not None and "<svg" in figures["reliability"].read_text(encoding="utf-8")
    with pytest.raises(UserError, match=r"r\.gif"):
        evaluate("ngram", "demo_questions", limit=5, store=":memory:", figures={"reliability": tmp_path / "r.gif"})
    with pytest.raises(UserError, match="--prompt_figure"):
        evaluate("ngram", "demo_questions", limit=5, store=":memory:", figures={"prompts": tmp_path / "p.svg"})


def test_an_audit_and_a_figure_of_a_result_and_of_its_record(tmp_path: Path) -> None:
    task = toy_generation_task(3)
    result = evaluate(ScriptedModel(seven), task, store=tmp_path / "s.db")
    assert assay.audit(result) == assay.audit(result.run_id, tasks=[task], store=tmp_path / "s.db")
    chosen = evaluate("ngram", "demo_questions", limit=5, store=tmp_path / "s.db")
    for run in (chosen, "last"):
        path = assay.plot(run, "reliability", tmp_path / "r.svg", store=tmp_path / "s.db")
        assert path.read_text().startswith("<?xml")
    with pytest.raises(UserError, match='no figure "pie"; expected one of reliability, axes'):
        assay.plot(chosen, "pie", tmp_path / "r.svg")  # type: ignore[arg-type]


def test_rows_of_a_result_a_matrix_and_a_comparison(tmp_path: Path) -> None:
    store, task = tmp_path / "s.db", toy_choice_task(6)
    matrix = assay.evaluate_matrix(["dummy", "ngram"], task, store=store)
    assert [(row["model"], row["task"]) for row in matrix.to_dicts()] == [
        ("dummy", "toy_choice"),
        ("ngram", "toy_choice"),
    ]
    compared = assay.compare("last", "last~1", store=store)
    (row,) = compared.to_dicts()
    assert (row["task"], row["n"]) == ("toy_choice", 6)
    result = evaluate("dummy", task, store=store)
    assert len(result.to_dicts()) == 2
    sample = result.to_pandas(samples=True).iloc[0]
    assert (sample["document_id"], len(sample["answer"]), sample["target"]) == (0, 4, 0)


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        assay.evalute  # noqa: B018


def test_samples_of_a_task_outside_the_run_are_refused() -> None:
    with pytest.raises(UserError, match='"demo_tex".*did you mean "demo_text"'):
        evaluate("dummy", "demo_text", store=":memory:", samples={"demo_tex": [0]})


def test_faulty_tasks_are_reported_without_downloading_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match="unknown task") as caught:
        evaluate("smollm2", "demo_tex", store=":memory:")
    assert len(caught.value.faults) == 1
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["catalog"]
