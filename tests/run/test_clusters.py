"""Documents that belong together: errors by cluster, in scores, groups, reports and files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate
from assay.api_records import compare
from assay.cli.main import main
from assay.core.documents import Document
from assay.core.errors import DataError, UserError
from assay.core.requests import Generation, Request
from assay.core.results import RunResult
from assay.core.specs import GroupMetricSpec, GroupSpec, MetricSpec
from assay.report.result_files import write_results
from assay.report.tables import result_rows
from assay.scoring.aggregate import aggregate_groups
from assay.store.store import Store
from assay.tasks.clusters import shared_column
from assay.testing import ScriptedModel, ToyTask, toy_generation_task, toy_perplexity_task

# t for two degrees of freedom, 97.5 %.
T2 = 4.302652729911275


def clustered(clusters: list[Any], name: str = "toy_generation", metric: str = "exact_match") -> ToyTask:
    """A task whose documents have a column `passage`."""
    task = toy_generation_task(len(clusters), name)
    rows = tuple(
        Document(name, row.id, {**row.fields, "passage": own}) for row, own in zip(task.rows, clusters, strict=True)
    )
    return replace(task, rows=rows, scoring=replace(task.scoring, metrics=(MetricSpec(metric),)))


def right_for(*numbers: int) -> ScriptedModel:
    """A model that knows the sums of these left numbers only."""

    def answer(request: Request) -> str:
        assert isinstance(request, Generation)
        left = int(str(request.prompt).split(" + ")[0])
        return str(left + 7) if left in numbers else "no"

    return ScriptedModel(answer)


def run(model: ScriptedModel, *tasks: ToyTask, **settings: Any) -> RunResult:
    return evaluate(model, list(tasks), store=":memory:", bootstrap_iters=100, **settings)


def test_the_error_is_that_of_the_clusters() -> None:
    # Values 1 1 | 0 0 | 1 0, mean 1/2: residual sums 1, −1, 0, so the error is √(3/2 · 2) / 6.
    result = run(right_for(0, 1, 4), clustered(["a", "a", "b", "b", "c", "c"]), cluster="passage")
    estimate = result.tasks[0].metric("exact_match").estimate
    error = math.sqrt(3) / 6
    assert (estimate.value, estimate.n, estimate.clusters, estimate.method) == (0.5, 6, 3, "clustered-wilson")
    assert estimate.stderr == pytest.approx(error)
    # As of ¼/error² = 3 outcomes, with Student's quantile of two degrees: ½ ± ½·t/√(3 + t²).
    reach = T2 / math.sqrt(3 + T2 * T2) / 2
    assert (estimate.low, estimate.high) == pytest.approx((0.5 - reach, 0.5 + reach))


def test_lm_evals_error_stays_what_it_was() -> None:
    plain = run(right_for(0, 1, 4), clustered(["a", "a", "b", "b", "c", "c"]))
    grouped = run(right_for(0, 1, 4), clustered(["a", "a", "b", "b", "c", "c"]), cluster="passage")
    before, after = plain.tasks[0].metrics[0], grouped.tasks[0].metrics[0]
    assert before.harness_stderr == after.harness_stderr == pytest.approx(math.sqrt(0.25 * 6 / 5 / 6))
    assert before.estimate.clusters is None
    assert before.estimate.stderr != after.estimate.stderr


def test_a_document_without_a_cluster_is_alone() -> None:
    result = run(right_for(0), clustered(["a", "a", None, ""]), cluster="passage")
    assert result.tasks[0].metrics[0].estimate.clusters == 3
    assert [item.instance.cluster for item in result.tasks[0].answered] == ["a", "a", "document 2", "document 3"]


def test_clusters_may_be_a_template_or_lists() -> None:
    by_template = run(right_for(0), clustered(["a1", "a2", "b1"]), cluster="{{passage[0]}}")
    assert by_template.tasks[0].metrics[0].estimate.clusters == 2
    by_list = run(right_for(0), clustered([["x"], ["x"], ["y"]]), cluster="passage")
    assert by_list.tasks[0].metrics[0].estimate.clusters == 2


def test_a_column_that_is_not_there_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(DataError, match=r'task toy_generation, --cluster.*no column "pasage".*did you mean "passage"'):
        run(right_for(0), clustered(["a", "b"]), cluster="pasage")


def test_few_clusters_are_reported() -> None:
    few = run(right_for(0), clustered(["a", "a", "b"]), cluster="passage")
    assert any("form 2 clusters" in notice for notice in few.notices)
    many = run(right_for(0), clustered([str(place) for place in range(20)]), cluster="passage")
    assert not any("clusters" in notice for notice in many.notices)


@pytest.mark.parametrize("clusters", [["a"], ["a", "a"]])
def test_one_cluster_has_no_error(clusters: list[str]) -> None:
    estimate = run(right_for(0), clustered(clusters), cluster="passage").tasks[0].metrics[0].estimate
    assert (estimate.stderr, estimate.clusters) == (None, 1)
    if len(clusters) == 2:
        assert (estimate.low, estimate.high) == (None, None)


def test_rates_have_clusters_too() -> None:
    result = run(right_for(0), clustered(["a", "a", "b"]), cluster="passage")
    assert result.tasks[0].rate("truncated").estimate.clusters == 2


def test_perplexities_have_clustered_errors() -> None:
    task = toy_perplexity_task(4)
    rows = tuple(replace(row, fields={**row.fields, "book": "ab"[row.id // 2]}) for row in task.rows)
    lengths = {row.fields["text"]: len(row.fields["text"].encode()) for row in rows}
    bits = [1.0, 1.0, 2.0, 2.0]
    logs = {row.fields["text"]: -bits[row.id] * lengths[row.fields["text"]] * math.log(2) for row in rows}
    model = ScriptedModel(lambda request: logs[request.text])  # type: ignore[union-attr]
    result = run(model, replace(task, rows=rows), cluster="book")
    estimate = result.tasks[0].metric("bits_per_byte").estimate
    # Residuals bits·b − r·b, summed in each of two clusters: e and −e; the error is √(2 · 2e²) / Σb.
    sizes = list(lengths.values())
    ratio = sum(own * size for own, size in zip(bits, sizes, strict=True)) / sum(sizes)
    residual = (2 - ratio) * (sizes[2] + sizes[3])
    assert (estimate.value, estimate.clusters) == (pytest.approx(ratio), 2)
    assert estimate.stderr == pytest.approx(2 * residual / sum(sizes))


def test_resampled_metrics_redraw_whole_clusters() -> None:
    pytest.importorskip("sacrebleu")
    result = run(right_for(0, 1), clustered(["a", "a", "b", "b", "c"], metric="bleu"), cluster="passage")
    estimate = result.tasks[0].metric("bleu").estimate
    assert (estimate.method, estimate.clusters, estimate.n) == ("cluster-bootstrap", 3, 5)


def test_groups_count_the_clusters_of_their_leaves() -> None:
    first, second = clustered(["a", "a", "b"], "first"), clustered(["a", "b", "c"], "second")
    result = run(right_for(0), first, second, cluster="passage")
    metrics = (GroupMetricSpec("exact_match"),)
    plain = GroupSpec("plain", "plain", ("first", "second"), metrics)
    pooled = replace(plain, name="pooled", is_pooled=True)
    for group in aggregate_groups([plain, pooled], result.tasks):
        estimate = group.metrics[0].estimate
        assert (estimate.value, estimate.n, estimate.clusters) == (pytest.approx(1 / 3), 6, 5), group.spec.name
    leaf_errors = [task.metrics[0].estimate.stderr or 0.0 for task in result.tasks]
    (found, _) = aggregate_groups([plain, pooled], result.tasks)
    assert found.metrics[0].estimate.stderr == pytest.approx(math.hypot(*leaf_errors) / 2)


def test_reports_and_files_have_clusters(tmp_path: Path) -> None:
    result = run(right_for(0), clustered(["a", "a", "b"]), cluster="passage")
    assert result_rows(result)[0].n == "3 in 2 clusters"
    paths = write_results(result, tmp_path, log_samples=True)
    results = json.loads(paths[0].read_text(encoding="utf-8"))
    assert results["assay"]["tasks"]["toy_generation"]["metrics"][0]["estimate"]["clusters"] == 2
    lines = [json.loads(line) for line in paths[1].read_text(encoding="utf-8").splitlines()]
    assert [line["assay"]["cluster"] for line in lines] == ["a", "a", "b"]


TASK = """task: passages
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_target: answer
cluster: CLUSTER
metric_list: [{metric: exact_match}]
"""


def write_task(folder: Path, cluster: str) -> Path:
    rows = [{"question": f"Q{n}", "answer": "yes", "passage_id": n // 2} for n in range(6)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    path = folder / "passages.yaml"
    path.write_text(TASK.replace("CLUSTER", cluster), encoding="utf-8")
    return path


def test_a_task_file_names_its_clusters(tmp_path: Path) -> None:
    path = write_task(tmp_path, "passage_id")
    model = ScriptedModel(lambda request: "yes" if "Q0" in request.prompt else "no")  # type: ignore[union-attr,operator]
    result = evaluate(model, str(path), store=":memory:")
    estimate = result.tasks[0].metrics[0].estimate
    assert (estimate.n, estimate.clusters) == (6, 3)
    other = evaluate(model, str(path), store=":memory:", cluster="{{question}}")
    assert other.tasks[0].metrics[0].estimate.clusters == 6


def test_a_wrong_column_in_a_file_is_an_error(tmp_path: Path) -> None:
    path = write_task(tmp_path, "pasage_id")
    with pytest.raises(UserError, match=r'passages.yaml  cluster.*no column "pasage_id".*"passage_id"'):
        evaluate(ScriptedModel(lambda request: "yes"), str(path), store=":memory:")


def test_check_knows_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, row = write_task(tmp_path, "pasage_id"), tmp_path / "row.json"
    row.write_text('{"question": "Q", "answer": "yes", "passage_id": 1}', encoding="utf-8")
    assert main(["check", str(path)]) == 0
    assert main(["check", str(path), "--doc", str(row)]) != 0
    said = "".join(capsys.readouterr())
    assert 'cluster: "pasage_id" is not a column' in said.replace("\n", " ")
    path.write_text(path.read_text().replace("pasage_id", "[1, 2]"), encoding="utf-8")
    assert main(["check", str(path)]) != 0


def test_a_run_keeps_the_clusters_of_its_documents_and_a_comparison_knows_them(tmp_path: Path) -> None:
    path, task = tmp_path / "store.db", clustered(["a", "a", "b", "b", "c", "c"])
    settings: dict[str, Any] = {"store": path, "bootstrap_iters": 0, "cluster": "passage"}
    first = evaluate(right_for(0, 1), task, **settings)
    second = evaluate(replace(right_for(0, 1, 2, 3), name="better"), task, **settings)
    with Store(path) as store:
        (kept,) = store.values.of_run(first.run_id)
    assert kept.clusters is not None and list(kept.clusters) == ["a", "a", "b", "b", "c", "c"]
    (pair,) = compare(first.run_id, second.run_id, store=path).pairs
    assert pair.clusters == 3


# Texts that documents share, found in their columns

PASSAGES = [f"A passage of more than forty characters, the {place // 4}th." for place in range(40)]
BY_PASSAGE = [place for place in range(40) if place // 4 % 2]


def test_texts_that_many_share_are_reported_where_they_make_the_error_larger() -> None:
    result = run(right_for(*BY_PASSAGE), clustered(PASSAGES))
    grouped = run(right_for(*BY_PASSAGE), clustered(PASSAGES), cluster="passage")
    errors = [item.tasks[0].metric("exact_match").estimate.stderr for item in (grouped, result)]
    message = '40 documents share 10 values of the column "passage"; the standard error of exact_match is '
    (notice,) = [line for line in result.notices if "share" in line]
    assert message + "{:.4f} clustered by it instead of {:.4f}: use --cluster passage".format(*errors) in notice
    assert not [line for line in grouped.notices if "share" in line]


def test_a_document_without_a_text_is_alone_among_shared_ones() -> None:
    result = run(right_for(*BY_PASSAGE), clustered([*PASSAGES[:38], ["no", "text"], None]))
    assert [line for line in result.notices if "40 documents share 12 values" in line]


def test_shared_texts_are_reported_once_for_all_variants() -> None:
    ways = [clustered(PASSAGES, f"toy@{name}") for name in ("plain", "polite")]
    result = run(right_for(*BY_PASSAGE), *ways, clustered(PASSAGES, "another"))
    message = [line.partition(":")[0] for line in result.notices if "share" in line]
    assert message == ["toy@plain", "another"]


def test_a_run_that_may_stop_gets_no_cluster_notice() -> None:
    (message,) = [
        line for line in run(right_for(*BY_PASSAGE), clustered(PASSAGES), until_se=0.01).notices if "share" in line
    ]
    assert message.endswith("ignores clusters, too; use --sample N with --cluster passage instead")


def test_shared_texts_that_change_no_error_are_not_reported() -> None:
    result = run(right_for(*range(0, 40, 2)), clustered(PASSAGES))  # half of every passage
    assert not [line for line in result.notices if "share" in line]


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(
            [f"A text of more than forty characters, the {place}th." for place in range(40)], id="all different"
        ),
        pytest.param(["Answer the following question with one word, please."] * 40, id="an instruction"),
        pytest.param([f"topic {place % 4}" for place in range(40)], id="labels"),
        pytest.param([True, False] * 20, id="truths"),
        pytest.param([None] * 40, id="no text"),
        pytest.param([*PASSAGES[:39], ["a", "list"]], id="a list at the end"),
    ],
)
def test_other_columns_are_not_passages(texts: list[Any]) -> None:
    found = shared_column(clustered(texts).rows)
    assert found == ("passage" if texts[0] == PASSAGES[0] else None)


def test_the_column_with_the_fewest_texts_is_the_passage() -> None:
    rows = [
        Document("toy", row.id, {"question": f"What is the reason that is given? {row.id // 2:9}", **row.fields})
        for row in clustered(PASSAGES).rows
    ]
    assert shared_column(rows) == "passage"
    assert shared_column(rows[:19]) is None  # too few to tell


@pytest.mark.parametrize("column", ["passage_id", "docId", "article", "idx"])
@pytest.mark.parametrize("value", [str, int, "p{}".format])
def test_short_ids_that_group_documents_are_noticed(column: str, value: Callable[[int], Any]) -> None:
    """Also where rows are shuffled: the name of the column says it."""
    task = toy_generation_task(40)
    rows = [Document(row.task, row.id, {**row.fields, column: value(row.id * 7 % 40 // 4)}) for row in task.rows]
    right = [row.id for row in rows if row.id * 7 % 40 // 4 % 2]
    (notice,) = [line for line in run(right_for(*right), replace(task, rows=tuple(rows))).notices if "share" in line]
    assert f'40 documents share 10 values of the column "{column}"; the standard error of exact_match is ' in notice
    assert notice.endswith(f": use --cluster {column}, or --cluster auto")


def with_column(column: str, values: list[Any]) -> list[Document]:
    rows = toy_generation_task(len(values)).rows
    return [Document("toy", row.id, {column: value}) for row, value in zip(rows, values, strict=True)]


def test_numbers_in_blocks_are_ids_whatever_their_column_is_called() -> None:
    assert shared_column(with_column("about", [f"wiki-{place // 4}" for place in range(40)])) == "about"
    assert shared_column(with_column("about", [place // 4 for place in range(40)])) == "about"
    assert shared_column(with_column("about", [place * 7 % 40 // 4 for place in range(40)])) is None  # an answer, say
    assert shared_column(with_column("subject", [f"topic {'abcdefghij'[place // 4]}" for place in range(40)])) is None


def test_a_large_group_is_a_property_and_no_document() -> None:
    assert shared_column(with_column("group", [place // 60 for place in range(600)])) is None
    assert shared_column(with_column("group", [place // 40 for place in range(600)])) == "group"


def test_auto_takes_the_column_found_and_leaves_other_tasks_alone() -> None:
    shared, plain = clustered(PASSAGES), clustered([None] * 40, "plain")
    result = run(right_for(*BY_PASSAGE), shared, plain, cluster="auto")
    assert [task.metrics[0].estimate.clusters for task in result.tasks] == [10, None]
    own = replace(shared, card=replace(shared.card, config={"cluster": "{{left}}"}))
    assert run(right_for(*BY_PASSAGE), own, cluster="auto").tasks[0].metrics[0].estimate.clusters == 40


@pytest.mark.parametrize("cluster", [None, "passage"])
def test_an_infinite_likelihood_costs_the_interval_and_not_the_run(cluster: str | None, tmp_path: Path) -> None:
    """A task's own code may give one; all answers are in by then."""
    kinds = {"ppl": "perplexity", "word": "weighted_perplexity", "bits": "bits_per_byte", "loss": "mean"}

    def process(fields: dict[str, Any], answers: list[Any]) -> dict[str, Any]:
        log = -math.inf if answers[0] == "no" else -2.0
        return {"ppl": log, "word": (log, 3), "bits": (log, 9), "loss": -log}

    task = clustered(["a", "a", "b", "b", "c", "c", "c", "d"])
    metrics = tuple(MetricSpec(name, aggregation=kind) for name, kind in kinds.items())
    task = replace(task, scoring=replace(task.scoring, metrics=metrics, process=process))
    result = run(right_for(0, 1, 2, 3, 4, 5), task, cluster=cluster, sample=7)
    assert result.tasks[0].denominators.scored == 7
    for metric in result.tasks[0].metrics:
        found = metric.estimate
        assert (found.value, found.stderr, found.low, found.high, found.n) == (math.inf, None, None, None, 7)
    assert write_results(result, tmp_path, False)
