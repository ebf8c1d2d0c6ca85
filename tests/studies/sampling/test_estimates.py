"""Random samples: nested, recorded, free of few-shot draws; estimates for the whole task, with a reference too."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate, evaluate_matrix
from assay.api_records import rescore
from assay.core.errors import UserError
from assay.core.requests import Generation, Loglikelihood, Request
from assay.core.results import RunResult
from assay.core.specs import SubsamplingOptions
from assay.options.specification import make_spec
from assay.stats.sampling import nested_sample
from assay.store.store import Store
from assay.studies.sampling.subsample_report import subsample_lines
from assay.studies.variance.variance_report import prompt_lines
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task, toy_perplexity_task


def number(request: Request) -> int:
    """The left number of a sum, which is the document's place."""
    assert isinstance(request, Generation)
    return int(str(request.prompt).split(" + ")[0])


def knows(*wrong: int, name: str = "scripted") -> ScriptedModel:
    """A model that errs on these documents only."""
    return ScriptedModel(lambda request: "no" if number(request) in wrong else str(number(request) + 7), name=name)


def run(model: ScriptedModel, size: int, store: Path | str = ":memory:", **settings: Any) -> RunResult:
    return evaluate(model, toy_generation_task(size), store=store, bootstrap_iters=0, **settings)


def places(result: RunResult) -> list[int]:
    return [item.document.id for item in result.tasks[0].answered]


def test_samples_are_nested_and_in_the_order_of_the_task() -> None:
    small, large = places(run(knows(), 60, sample=10)), places(run(knows(), 60, sample=30))
    assert (len(small), len(large)) == (10, 30)
    assert set(small) < set(large)
    assert small == sorted(small) != list(range(10))


def test_a_larger_sample_requests_the_new_ones_only(tmp_path: Path) -> None:
    run(knows(), 60, tmp_path / "s.db", sample=10)
    again = knows()
    result = run(again, 60, tmp_path / "s.db", sample=30)
    assert (result.counts.known, len(again.asked)) == (10, 20)


def test_a_share_is_of_all_documents_and_too_many_are_all() -> None:
    assert len(places(run(knows(), 60, sample=0.25))) == 15
    whole = run(knows(), 8, sample=100)
    assert places(whole) == list(range(8))
    assert whole.tasks[0].subsample is None
    assert not whole.notices


def test_another_seed_takes_others() -> None:
    assert places(run(knows(), 60, sample=10)) != places(run(knows(), 60, sample=10, sample_seed=5))


def test_the_manifest_and_the_notice_report_the_sample(tmp_path: Path) -> None:
    result = run(knows(), 60, tmp_path / "s.db", sample=10)
    with Store(tmp_path / "s.db") as store:
        record = store.runs.get(result.run_id)
    assert record.manifest["tasks"]["toy_generation"]["sample"] == places(result)
    assert record.spec["sparing"]["sample"] == 10
    assert "evaluated a random sample of the documents (seed 1234): toy_generation 10 of 60" in result.notices
    assert not any("not a random sample" in notice for notice in result.notices)


def test_a_limit_keeps_its_notice() -> None:
    result = run(knows(), 60, limit=10)
    assert places(result) == list(range(10))
    assert any("not a random sample" in notice for notice in result.notices)
    assert result.tasks[0].subsample is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sample": 5, "limit": 5}, "--sample  is given together with --limit"),
        ({"sample": 5, "samples": {"a": [1]}}, "--sample  is given together with --samples"),
        ({"sample": 0}, "--sample  is 0"),
        ({"until_se": 1.5}, "--until_se  is 1.5"),
        ({"until_se": 0.1, "until_decided": "last"}, "--until_se  is given together"),
        ({"reference": "last"}, "--reference  needs a fixed random sample"),
        ({"reference": "last", "sample": 5, "until_se": 0.1}, "--reference  needs a fixed random sample"),
        ({"until_se": 0.1, "samples": {"a": [1]}}, "--samples  names documents"),
    ],
)
def test_what_does_not_go_together_is_an_error(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        make_spec("dummy", ["a"], **settings)
    assert said.replace("  ", ": ") in str(caught.value) or said in str(caught.value)


def test_a_specification_survives_its_record() -> None:
    spec = make_spec("dummy", ["a"], sample=0.5, sample_seed=3, reference="r", cluster="c")
    assert spec.subsampling == SubsamplingOptions(0.5, 3, reference="r")
    assert type(spec).from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_few_shot_examples_do_not_depend_on_the_sample(tmp_path: Path) -> None:
    rows = [{"q": f"question {n}", "a": f"answer {n}"} for n in range(40)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "shots.yaml").write_text(
        "task: shots\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
        "fewshot_split: test\nnum_fewshot: 2\noutput_type: loglikelihood\ndoc_to_text: q\ndoc_to_target: a\n",
        encoding="utf-8",
    )

    def prompts(**settings: Any) -> dict[int, str]:
        model = ScriptedModel(lambda request: -1.0)
        result = evaluate(model, str(tmp_path / "shots.yaml"), store=":memory:", bootstrap_iters=0, **settings)
        asked = {item.document.id: item.instance.requests[0] for item in result.tasks[0].answered}
        return {place: str(request.prompt) for place, request in asked.items() if isinstance(request, Loglikelihood)}

    whole, part = prompts(), prompts(sample=7)
    assert len(part) == 7
    assert part == {place: whole[place] for place in part}


def test_the_whole_task_has_a_narrower_interval_than_all_possible_documents() -> None:
    wrong = (*places(run(knows(), 60, sample=5)), 0, 1)
    result = run(knows(*wrong), 60, sample=20)
    (message,) = result.tasks[0].subsample.whole  # type: ignore[union-attr]
    plain = result.tasks[0].metrics[0].estimate
    assert (message.estimate.value, message.estimate.n, message.estimate.method) == (plain.value, 20, "finite-wilson")
    assert message.estimate.stderr == pytest.approx((plain.stderr or 0) * math.sqrt(1 - 20 / 60))
    assert plain.low < message.estimate.low < message.estimate.high < plain.high  # type: ignore[operator]


def test_after_a_failure_the_whole_task_is_not_reported() -> None:
    from assay.core.responses import Failure

    wrong = places(run(knows(), 60, sample=20))[0]
    model = ScriptedModel(lambda request: Failure("error", "no") if number(request) == wrong else "1")
    result = run(model, 60, sample=20)
    assert result.tasks[0].subsample.whole == ()  # type: ignore[union-attr]


def test_metrics_that_are_not_means_have_no_value_for_the_whole_task() -> None:
    model = ScriptedModel(lambda request: -3.0)
    result = evaluate(model, toy_perplexity_task(10), store=":memory:", sample=4)
    assert result.tasks[0].subsample.whole == ()  # type: ignore[union-attr]


def test_a_reference_estimates_the_rest(tmp_path: Path) -> None:
    sampled = places(run(knows(), 60, sample=20))
    outside = [place for place in range(60) if place not in sampled]
    # The reference errs on 3 sampled and 9 other documents: 48/60; the model also on a fourth of the sample.
    hard = (*sampled[:3], *outside[:9])
    full = run(knows(*hard, name="reference"), 60, tmp_path / "s.db")
    result = run(knows(*hard, sampled[3]), 60, tmp_path / "s.db", sample=20, reference="last")
    subsample = result.tasks[0].subsample
    assert subsample is not None
    assert subsample.reference == full.run_id == result.spec.subsampling.reference
    (message,) = subsample.differences
    # 48/60 − 1/20, and the spread of one −1 among 20, with √(1 − 20/60).
    assert message.estimate.value == pytest.approx(0.8 - 0.05)
    spread = math.sqrt((0.95 * 0.05) * 20 / 19 / 20)
    assert message.estimate.stderr == pytest.approx(spread * math.sqrt(2 / 3))
    assert message.estimate.stderr < (subsample.whole[0].estimate.stderr or 0)
    lines = list(subsample_lines(result.tasks))
    assert f"with run {full.run_id} as control variate, 0.7500" in lines[1]
    assert result.summary()["tasks"]["toy_generation"]["spared"]["differences"][0]["metric"] == "exact_match"


def test_of_many_sampled_tasks_the_largest_samples_are_shown(tmp_path: Path) -> None:
    tasks = [toy_generation_task(60, name=f"part_{number}") for number in range(14)]
    result = evaluate(knows(), tasks, store=":memory:", bootstrap_iters=0, sample=6)
    lines = list(subsample_lines(result.tasks))
    assert len(lines) == 13
    assert lines[-1] == "Estimates for all documents of 2 more tasks: in the result files (--output_path)"
    (notice,) = [text for text in result.notices if "random sample" in text]
    assert notice.endswith("part_11 6 of 60, and 2 more tasks 12 of 120")


def test_a_reference_on_part_of_the_documents_is_refused_before_the_first_request(tmp_path: Path) -> None:
    run(knows(name="reference"), 60, tmp_path / "s.db", limit=50)
    model = knows()
    with pytest.raises(UserError, match="evaluated 50 of 60 documents"):
        run(model, 60, tmp_path / "s.db", sample=20, reference="last")
    assert model.asked == []


def test_a_reference_without_the_task_or_with_others_documents_is_refused(tmp_path: Path) -> None:
    evaluate(ScriptedModel(lambda request: -1.0), toy_choice_task(60), store=tmp_path / "s.db", bootstrap_iters=0)
    with pytest.raises(UserError, match='has no task "toy_generation"'):
        run(knows(), 60, tmp_path / "s.db", sample=20, reference="last")


def test_a_sampled_run_can_be_rescored(tmp_path: Path) -> None:
    first = run(knows(3, 4), 60, tmp_path / "s.db", sample=20)
    again = rescore(first.run_id, store=tmp_path / "s.db", tasks=toy_generation_task(60))
    assert places(again) == places(first)
    assert again.tasks[0].subsample == first.tasks[0].subsample


def test_a_matrix_takes_the_same_sample_of_every_model() -> None:
    models = [knows(name="one"), knows(1, 2, 3, name="two")]
    matrix = evaluate_matrix(models, toy_generation_task(60), store=":memory:", sample=20)
    first, second = (matrix.cell(name, "toy_generation") for name in ("one", "two"))
    assert first is not None and second is not None
    assert first.documents == second.documents
    assert len(first.documents) == 20
    with pytest.raises(UserError, match="--until_se"):
        evaluate_matrix(models, toy_generation_task(60), store=":memory:", until_se=0.1)


def forget(store: Path, run: str) -> None:
    """As in a record of before values were kept."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DELETE FROM document_values WHERE run = ?", (run,))
        connection.commit()


def test_a_reference_is_read_without_its_answers(tmp_path: Path) -> None:
    """What every document was worth is kept: the answers themselves may be gone."""
    full = run(knows(3, 4, name="reference"), 60, tmp_path / "s.db")
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("DELETE FROM responses")
        connection.commit()
    result = run(knows(3, 4), 60, tmp_path / "s.db", sample=20, reference=full.run_id)
    subsample = result.tasks[0].subsample
    assert subsample is not None
    assert subsample.differences[0].estimate.value == pytest.approx(58 / 60)


def test_a_reference_of_before_values_were_kept_is_reopened(tmp_path: Path) -> None:
    full = run(knows(3, 4, name="reference"), 60, tmp_path / "s.db")
    kept = run(knows(5), 60, tmp_path / "s.db", sample=20, reference=full.run_id).tasks[0].subsample
    forget(tmp_path / "s.db", full.run_id)
    assert run(knows(5), 60, tmp_path / "s.db", sample=20, reference=full.run_id).tasks[0].subsample == kept


def test_a_reference_on_a_sample_may_decide(tmp_path: Path) -> None:
    """The places of a sample are recorded, so that its documents are proven without reopening it."""
    other = run(ScriptedModel(lambda request: "no", "wrong"), 60, tmp_path / "s.db", sample=40)
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("DELETE FROM responses")
        connection.commit()
    stop = run(knows(), 60, tmp_path / "s.db", until_decided=other.run_id).tasks[0].subsample
    assert stop is not None and stop.stop is not None
    assert (stop.stop.most, stop.stop.is_better) == (40, True)


def test_a_reference_on_other_documents_is_refused(tmp_path: Path) -> None:
    rows = [{"q": f"Is {n} odd?", "label": 1 - n % 2} for n in range(30)]
    keys = "task: odd\ndataset_path: json\ndataset_kwargs: {data_files: {test: odd.jsonl}}\ntest_split: test\n"
    keys += "output_type: multiple_choice\ndoc_to_text: '{{q}}'\ndoc_to_choice: ['yes', 'no']\ndoc_to_target: label\n"
    (tmp_path / "odd.yaml").write_text(keys)
    settings: dict[str, Any] = {"store": tmp_path / "s.db", "include_path": tmp_path, "bootstrap_iters": 0}
    for text in ("Is {} odd?", "Is {} even?"):
        rows = [{**row, "q": text.format(place)} for place, row in enumerate(rows)]
        (tmp_path / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        if "odd" in text:
            evaluate("dummy", "odd", **settings)
    with pytest.raises(UserError, match="cannot be read again.*documents"):
        evaluate("ngram", "odd", sample=10, reference="last", **settings)


def test_a_reference_that_stopped_early_is_read_at_its_places(tmp_path: Path) -> None:
    """Which documents were enough was known at its end only, and is recorded."""
    other = run(ScriptedModel(lambda request: "no", "wrong"), 300, tmp_path / "s.db", until_se=0.05)
    asked = places(other)
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("DELETE FROM responses")
        connection.commit()
    assert 0 < len(asked) < 300
    found = run(knows(), 300, tmp_path / "s.db", until_decided=other.run_id)
    subsample = found.tasks[0].subsample
    assert subsample is not None and subsample.stop is not None and subsample.stop.most == len(asked)
    assert set(places(found)) <= set(asked)


def skipping(folder: Path) -> str:
    """A task of 60 rows in two prompts, of which the second passes over every tenth row."""
    rows = [{"name": f"thing{place}", "options": ["yes", "no"], "label": 0, "at": place} for place in range(60)]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    choices = "answer_choices: yes ||| no, metadata: !TemplateMetadata {original_task: true}"
    template = "  {0}: !Template {{id: {0}, name: {0}, {1}, jinja: '{2}'}}\n"
    whole, part = "{{name}}? ||| yes", "{% if at % 10 %}{{name}}: ||| yes{% endif %}"
    listed = template.format("one", choices, whole) + template.format("two", choices, part)
    (folder / "templates.yaml").write_text("dataset: skip\ntemplates:\n" + listed)
    files = "dataset_kwargs: {data_files: {test: test.jsonl}}\ntest_split: test\n"
    kind = "output_type: multiple_choice\ndoc_to_choice: options\ndoc_to_target: label\n"
    path = folder / "skip.yaml"
    path.write_text(f"task: skip\ndataset_path: json\n{files}{kind}prompts: templates.yaml\n")
    return str(path)


def rows_asked(result: RunResult) -> list[set[int]]:
    return [{item.document.fields["at"] for item in task.answered} for task in result.tasks]


@pytest.mark.parametrize("settings", [{"sample": 20}, {"sample": 40, "until_se": 0.01}, {"until_se": 0.17}])
def test_prompts_that_skip_rows_are_evaluated_on_the_same_ones(tmp_path: Path, settings: dict[str, Any]) -> None:
    result = evaluate("dummy", skipping(tmp_path), store=":memory:", **settings)
    one, two = rows_asked(result)
    shorter = {row for row in one if row % 10}
    assert shorter == two if "sample" in settings else shorter < two  # both stop after 32 documents
    assert not any("documents that run" in notice for notice in result.notices)


def test_equally_many_documents_that_are_not_the_same_are_said_to_differ(tmp_path: Path) -> None:
    result = evaluate("dummy", skipping(tmp_path), store=":memory:", limit=20)
    line = next(prompt_lines(result.prompts))
    assert line.endswith(", on 20 documents each, of which all prompts share 18")
    assert result.prompts[0].to_json()["shared_documents"] == 18


def test_a_sample_of_which_a_prompt_can_put_nothing_is_an_error(tmp_path: Path) -> None:
    path, seed = skipping(tmp_path), next(seed for seed in range(100) if nested_sample(1, 60, seed)[0] % 10 == 0)
    with pytest.raises(UserError, match="the prompt of the task skip@two can render none of the 1 documents drawn"):
        evaluate("dummy", path, store=":memory:", sample=1, sample_seed=seed)
