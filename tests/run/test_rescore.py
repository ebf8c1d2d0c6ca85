"""Answers of a recorded run under other metrics and filters: the numbers of a fresh run, without requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate
from assay.api_records import rescore
from assay.core.errors import DataError, MissingAnswers, ModelError, UnknownName, UserError
from assay.core.requests import Generation, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure, Logprob, Text
from assay.core.results import RunResult
from assay.run.events import Event, Noticed
from assay.store.store import Store
from assay.tasks.catalog import Catalog
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task

CHOICES = ["a long and winding answer", "no", "it is blue"]
# The log-likelihood of each choice, and the right choice, per document: raw, by length and right all differ.
ROWS = [
    {"q": "one?", "label": 0, "lls": [-10.0, -2.0, -4.0]},
    {"q": "two?", "label": 1, "lls": [-10.0, -2.0, -4.0]},
    {"q": "three?", "label": 2, "lls": [-9.0, -3.0, -1.5]},
    {"q": "four?", "label": 0, "lls": [-1.0, -3.0, -1.5]},
]
LIKELIHOODS = {(row["q"], choice): ll for row in ROWS for choice, ll in zip(CHOICES, row["lls"], strict=True)}  # type: ignore[call-overload]


def answer(request: Request) -> Logprob | Text:
    if isinstance(request, Generation):
        place = len(str(request.prompt).strip()) % 2
        return Text(["I think 3, no: #### 4", "the answer is 12 #### 7"][place])
    if isinstance(request, RollingLoglikelihood):
        return Logprob(-1.0 * len(request.text.split()), len(request.text.split()), False, prompt_tokens=1)
    question = str(request.prompt).split("\n")[-1]
    total = LIKELIHOODS.get((question, request.continuation.strip()), -3.0)
    return Logprob(total, len(request.continuation.split()), False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tasks `odd` (multiple choice, with examples to draw from) and `sums` (generation), and the group `both`."""
    made = tmp_path / "tasks"
    made.mkdir()
    write_rows(made / "odd.jsonl", ROWS)
    write_rows(made / "shots.jsonl", [{"q": f"shot {n}?", "label": n % 3} for n in range(6)])
    write_rows(made / "sums.jsonl", [{"q": "2+2", "a": "4"}, {"q": "2+5=", "a": "7"}, {"q": "1+1+1", "a": "3"}])
    (made / "odd.yaml").write_text(
        "task: odd\ndataset_path: json\ndataset_kwargs:\n  data_files: {test: odd.jsonl, train: shots.jsonl}\n"
        f"test_split: test\nfewshot_split: train\noutput_type: multiple_choice\ndoc_to_text: '{{{{q}}}}'\n"
        f"doc_to_choice: {CHOICES}\ndoc_to_target: label\nmetric_list:\n  - metric: acc\n"
    )
    (made / "sums.yaml").write_text(
        "task: sums\ndataset_path: json\ndataset_kwargs:\n  data_files: {test: sums.jsonl}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: a\n"
        "generation_kwargs:\n  until: ['Q:']\n  max_gen_toks: 20\nmetric_list:\n  - metric: exact_match\n"
    )
    (made / "both.yaml").write_text(
        "group: both\ntask: [odd, sums]\naggregate_metric_list:\n  - metric: acc\n  - metric: acc_bytes\n"
    )
    return made


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Callable[..., RunResult]:
    def call(tasks: str = "odd", model: ScriptedModel | None = None, **settings: Any) -> RunResult:
        chosen = {"store": tmp_path / "s.db", "include_path": folder, **settings}
        return evaluate(model or ScriptedModel(answer), tasks, bootstrap_iters=0, **chosen)

    return call


@pytest.fixture
def again(tmp_path: Path) -> Callable[..., RunResult]:
    def call(run: str = "last", **settings: Any) -> RunResult:
        return rescore(run, store=tmp_path / "s.db", **settings)

    return call


Call = Callable[..., RunResult]
GSM = {
    "filter_list": [
        {
            "name": "strict",
            "filter": [{"function": "regex", "regex_pattern": "#### (\\d+)"}, {"function": "take_first"}],
        }
    ]
}


def numbers(result: RunResult) -> dict[tuple[str, str, str], float | None]:
    return {(t.name, m.metric, m.filter): m.estimate.value for t in result.tasks for m in t.metrics}


def test_new_normalisations_come_from_the_stored_answers(run: Call, again: Call) -> None:
    parent = run()
    result = again(metrics="acc,acc_norm")
    # By characters (25, 2, 10): document 1 picks 0, 2 picks 0, 3 picks 2, 4 picks 0; raw: 1, 1, 2, 0.
    assert numbers(result) == {("odd", "acc", "none"): 0.75, ("odd", "acc_norm", "none"): 0.75}
    picks = [sample.values["acc_norm"] for sample in result.tasks[0].samples]
    assert picks == [1.0, 0.0, 1.0, 1.0]
    assert (result.counts.known, result.counts.asked, result.manifest["parent"]) == (12, 0, parent.run_id)


def test_the_numbers_are_those_of_a_fresh_run(run: Call, again: Call, tmp_path: Path) -> None:
    fresh = run("both", store=tmp_path / "other.db", metrics="+acc_bytes,acc_tokens,brier_score")
    run("both")
    result = again(metrics="+acc_bytes,acc_tokens,brier_score")
    assert result.tasks == fresh.tasks
    assert result.groups == fresh.groups
    assert [m.metric for m in result.group("both").metrics] == ["acc", "acc_bytes"]


def test_another_filter_reads_the_stored_texts(run: Call, again: Call) -> None:
    before = run("sums")
    assert numbers(before) == {("sums", "exact_match", "none"): 0.0}
    # "2+2" and "1+1+1" have odd lengths: #### 7; "2+5=" has an even one: #### 4. Right: 4, 7, 3.
    assert numbers(again(scoring=GSM)) == {("sums", "exact_match", "strict"): 0.0}
    flexible = {"name": "flexible", "filter": [{"function": "regex", "regex_pattern": "(\\d)", "group_select": 0}]}
    flexible["filter"].append({"function": "take_first"})  # type: ignore[attr-defined]
    # "… 3, no: …" is found for "2+5=", "… 12 …" gives 1 for the others.
    texts = again(scoring={"filter_list": [flexible]}).tasks[0].samples
    assert [sample.filtered for sample in texts] == [("1",), ("3",), ("1",)]


def test_the_record_names_parent_and_changes(run: Call, again: Call, tmp_path: Path) -> None:
    parent = run()
    result = again(metrics="acc_bytes")
    with Store(tmp_path / "s.db") as store:
        record = store.runs.get(result.run_id)
    assert (record.status, record.parent) == ("finished", parent.run_id)
    assert record.manifest["rescored"] == {"metric_list": [{"metric": "acc_bytes"}]}
    assert record.summary is not None and record.summary["requests"]["asked"] == 0
    assert record.fingerprint == ScriptedModel(answer).fingerprint


def test_examples_limits_and_choices_of_documents_come_from_the_record(run: Call, again: Call, tmp_path: Path) -> None:
    for settings in ({"num_fewshot": 2, "limit": 3}, {"samples": {"odd": [1, 3]}}, {"apply_chat_template": True}):
        fresh = run(metrics="acc_norm", store=tmp_path / f"{len(settings)}{next(iter(settings))}.db", **settings)
        run(**settings)
        result = again(metrics="acc_norm")
        assert result.tasks == fresh.tasks
        assert result.counts.asked == 0


def test_a_task_in_a_style_is_rescored(run: Call, again: Call, tmp_path: Path) -> None:
    fresh = run("odd@letters", metrics="acc_norm", store=tmp_path / "other.db")
    run("odd@letters")
    assert again(metrics="acc_norm").tasks == fresh.tasks


def test_a_run_that_only_recorded_is_scored(run: Call, again: Call) -> None:
    assert numbers(run(predict_only=True)) == {("odd", "bypass", "none"): 999.0}
    assert numbers(again()) == {("odd", "acc", "none"): 0.75}


def test_changes_of_a_rescored_run_are_kept_and_added_to(run: Call, again: Call) -> None:
    run()
    again(metrics="acc_norm")
    assert [m.metric for m in again(metrics="+acc_bytes").tasks[0].metrics] == ["acc_norm", "acc_bytes"]
    assert [m.metric for m in again(metrics="acc").tasks[0].metrics] == ["acc"]


def test_missing_requests_are_counted_with_their_use_and_cost(run: Call, again: Call) -> None:
    run()
    with pytest.raises(MissingAnswers) as caught:
        again(metrics="acc_mutual_info,acc_opencompass")
    (fault,) = caught.value.faults
    # Three choices after no question, shared by all documents; four prompts "one?" … of 18 characters in all.
    assert "3 loglikelihood requests for acc_mutual_info (choices without a question)" in fault.found
    assert "4 rolling_loglikelihood requests for acc_opencompass (whole prompts)" in fault.found
    size = sum(len(" " + choice) for choice in CHOICES) + sum(len(str(row["q"])) for row in ROWS)
    assert f"they would cost {size} characters of work, less than a second" in fault.found
    assert "--complete" in fault.next
    with pytest.raises(MissingAnswers, match=r"acc_mutual_phrase \(choices after 'Answer:' alone\)"):
        again(metrics="acc_mutual_phrase")


def test_complete_requests_only_what_is_missing(run: Call, again: Call, tmp_path: Path) -> None:
    fresh = run(metrics="acc_mutual_info,acc_opencompass", store=tmp_path / "other.db")
    run()
    model = ScriptedModel(answer)
    result = again(metrics="acc_mutual_info,acc_opencompass", complete=True, model=model)
    nulls = [request for request in model.asked if isinstance(request, Loglikelihood)]
    assert [(request.prompt, request.continuation) for request in nulls] == [("", f" {c}") for c in CHOICES]
    assert [request.text for request in model.asked if isinstance(request, RollingLoglikelihood)] == [
        "one?",
        "two?",
        "three?",
        "four?",
    ]
    assert len(model.asked) == result.counts.asked == 7
    assert result.tasks == fresh.tasks
    assert again(result.run_id).counts.asked == 0


def test_another_model_may_not_complete(run: Call, again: Call) -> None:
    run()
    with pytest.raises(ModelError, match="has changed: name was 'scripted', is 'other'"):
        again(metrics="acc_mutual_info", complete=True, model=ScriptedModel(answer, name="other"))


def test_a_model_object_must_be_given_to_complete(run: Call, again: Call) -> None:
    run()
    with pytest.raises(ModelError, match=r'"scripted" was an object in Python.*complete=True, model='):
        again(metrics="acc_mutual_info", complete=True)


def test_a_model_by_name_is_opened_with_its_recorded_settings(folder: Path, again: Call, tmp_path: Path) -> None:
    evaluate("dummy", "odd", store=tmp_path / "s.db", include_path=folder, model_args="seed=3")
    assert again(metrics="acc_mutual_info", complete=True).counts.asked == 3
    evaluate("dummy", "odd", store=tmp_path / "s.db", include_path=folder, model_args="seed=4")
    with pytest.raises(ModelError, match=re.escape("settings.seed was 4, is 5")):
        again(metrics="acc_mutual_info", complete=True, model_args="seed=5")


def test_a_secret_must_be_given_again(folder: Path, again: Call, tmp_path: Path) -> None:
    class Named(ScriptedModel):
        pass

    evaluate(Named(answer), "odd", store=tmp_path / "s.db", include_path=folder, model_args={"api_key": "sesame"})
    with pytest.raises(ModelError, match=r"opened with api_key, which no record keeps.*--model_args api_key=…"):
        again(metrics="acc_mutual_info", complete=True)


def test_a_changed_data_file_is_found(run: Call, again: Call, folder: Path) -> None:
    run()
    write_rows(folder / "odd.jsonl", [*ROWS[:3], {**ROWS[3], "label": 2}])
    with pytest.raises(
        DataError, match=r"task odd: its documents are not those of the run: the data, or how .*odd\.yaml"
    ):
        again(metrics="acc_norm")
    write_rows(folder / "odd.jsonl", ROWS[:3])
    with pytest.raises(DataError, match=r"\(4 then, 3 now\)"):
        again(metrics="acc_norm")


def test_a_changed_prompt_is_found_even_with_further_requests(run: Call, again: Call, folder: Path) -> None:
    run()
    text = (folder / "odd.yaml").read_text()
    (folder / "odd.yaml").write_text(text.replace("{{q}}", "{{q}} "))
    for metrics in ("acc_norm", "acc_mutual_info"):
        with pytest.raises(DataError, match=r"the same, but not its prompts: .*odd\.yaml was changed since"):
            again(metrics=metrics)


def test_a_folder_or_task_file_that_is_gone_is_reported(run: Call, again: Call, folder: Path, tmp_path: Path) -> None:
    run()
    (folder / "odd.yaml").rename(folder / "odd.txt")
    with pytest.raises(UnknownName, match=r'unknown task "odd".*it came from .*odd\.yaml'):
        again(metrics="acc_norm")
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r'its folder of task files ".*tasks" is gone'):
        again(metrics="acc_norm")


def test_a_group_that_means_other_tasks_today_is_reported(run: Call, again: Call, folder: Path) -> None:
    run("both")
    (folder / "both.yaml").write_text("group: both\ntask: [odd]\n")
    with pytest.raises(DataError, match="other tasks today: without sums"):
        again(metrics="acc_norm")


def test_relative_paths_are_read_from_the_folder_of_the_run(
    again: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    evaluate(ScriptedModel(answer), "tasks/odd.yaml", store=tmp_path / "s.db")
    evaluate(ScriptedModel(answer), "odd", store=tmp_path / "s.db", include_path="tasks")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with Store(tmp_path / "s.db") as store:
        names = [record.id for record in store.runs.all()]
    assert [numbers(again(name)) for name in names] == [{("odd", "acc", "none"): 0.75}] * 2


def test_an_unknown_run_is_reported(run: Call, again: Call) -> None:
    run()
    with pytest.raises(UnknownName, match='unknown run "nineteen"'):
        again("nineteen")


def test_task_objects_are_given_again(again: Call, tmp_path: Path) -> None:
    evaluate(ScriptedModel(lambda request: -1.0), toy_choice_task(4), store=tmp_path / "s.db")
    with pytest.raises(UnknownName, match=r'"toy_choice" was an object in Python.*assay\.rescore\(.*tasks='):
        again(metrics="acc_bytes")
    result = again(metrics="acc_bytes", tasks=toy_choice_task(4))
    assert [metric.metric for metric in result.tasks[0].metrics] == ["acc_bytes"]
    with pytest.raises(DataError, match=r"\(4 then, 5 now\)"):
        again(tasks=toy_choice_task(5))
    with pytest.raises(UserError, match="cannot be added"):
        again(metrics="acc_mutual_info", tasks=toy_choice_task(4))


def test_metrics_that_fit_no_task_are_an_error_and_some_a_notice(run: Call, again: Call) -> None:
    run("sums")
    with pytest.raises(
        UserError, match="no task of the run can be scored by acc_norm; expected metrics for generate_until"
    ):
        again(metrics="acc_norm")
    run("both")
    assert "acc_norm cannot score the answers of sums: they keep their own metrics" in again(metrics="acc_norm").notices


def test_an_interrupted_run_is_scored_as_far_as_it_got(run: Call, again: Call) -> None:
    def until_three(request: Request) -> Logprob | Text:
        if str(getattr(request, "prompt", "")).startswith("three"):
            raise KeyboardInterrupt
        return answer(request)

    with pytest.raises(KeyboardInterrupt):
        run(model=ScriptedModel(until_three))
    events: list[Event] = []
    result = again(metrics="acc", listener=events.append)
    counts = result.tasks[0].denominators
    assert (counts.total, counts.scored, counts.failed) == (4, 2, 2)
    assert (result.counts.known, result.counts.asked, result.counts.failed) == (6, 0, 0)
    assert numbers(result) == {("odd", "acc", "none"): 0.5}
    (notice,) = [text for text in result.notices if "interrupted" in text]
    assert "2 of 4 documents lack answers; they count as failed and are in no score" in notice
    assert Noticed(notice) in events
    model = ScriptedModel(answer)
    whole = again(metrics="acc", complete=True, model=model)
    assert (len(model.asked), numbers(whole)) == (6, {("odd", "acc", "none"): 0.75})


def test_failed_requests_of_the_parent_stay_failed(run: Call, again: Call, tmp_path: Path) -> None:
    def fail(request: Request) -> Logprob | Text | Failure:
        return Failure("error", "no") if "2+5=" in str(getattr(request, "prompt", "")) else answer(request)

    run("sums", ScriptedModel(fail))
    result = again(scoring=GSM)
    assert (result.tasks[0].denominators.failed, result.tasks[0].denominators.scored) == (1, 2)
    assert any("is incomplete: 1 of 3 documents lack answers" in notice for notice in result.notices)


def test_result_files_are_written(run: Call, again: Call, tmp_path: Path) -> None:
    parent = run()
    again(metrics="acc_norm", output_path=tmp_path / "out", log_samples=True)
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert json.loads(results.read_text())["assay"]["manifest"]["parent"] == parent.run_id
    assert len(list((tmp_path / "out").rglob("samples_odd_*.jsonl"))) == 1


def test_drawn_answers_are_rescored(again: Call, tmp_path: Path) -> None:
    task = toy_generation_task(3, draws=2)
    evaluate(ScriptedModel(lambda request: "7"), task, store=tmp_path / "s.db")
    assert numbers(again(tasks=task)) == {("toy_generation", "exact_match", "none"): pytest.approx(1 / 3)}


def test_every_task_of_the_dialect_comes_back_with_its_numbers(again: Call, tmp_path: Path) -> None:
    folder = Path(__file__).parents[1] / "parity" / "dialect"
    entries = Catalog([folder]).entries.values()
    names = [entry.name for entry in entries if entry.kind == "task" and str(entry.path).startswith(str(folder))]
    assert len(names) > 50
    settings: dict[str, Any] = {"include_path": folder, "allow_code": True, "confirm_run_unsafe_code": True}
    fresh = evaluate("dummy", names, store=tmp_path / "s.db", bootstrap_iters=0, **settings)
    result = again()
    assert (result.counts.known, result.counts.asked) == (fresh.counts.unique, 0)
    assert numbers(result) == pytest.approx(numbers(fresh), nan_ok=True)
    assert [task.samples for task in result.tasks] == [task.samples for task in fresh.tasks]
