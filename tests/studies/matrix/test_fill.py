"""A matrix from models and tasks to cells: the requests, what survives, and the reasons for gaps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from assay.api import evaluate_matrix
from assay.core.errors import UserError
from assay.core.requests import Classification, Generation, Loglikelihood, Request, RollingLoglikelihood
from assay.core.responses import Failure, LabelScores
from assay.core.specs import FilterSpec, MetricSpec, PipelineSpec, Scoring
from assay.studies.matrix.matrix_tables import markdown
from assay.testing import ScriptedModel, toy_choice_task, toy_generation_task, toy_perplexity_task


def right_sum(prompt: str) -> int:
    """`Question: What is 3 + 7?` → 10."""
    left, right = prompt.split("What is ")[1].split("?")[0].split(" + ")
    return int(left) + int(right)


def knows(request: Request) -> float | str:
    """Answers every sum right."""
    if isinstance(request, Generation):
        left, right = str(request.prompt).removesuffix(" =").split(" + ")
        return str(int(left) + int(right))
    if isinstance(request, RollingLoglikelihood):
        return -10.0
    assert isinstance(request, Loglikelihood)
    return -1.0 if int(request.continuation) == right_sum(str(request.prompt)) else -2.0


def first(request: Request) -> float | str:
    """Takes the smallest number: the first choice, right where the document's id is a multiple of 4."""
    if isinstance(request, Generation):
        return "no"
    return -float(request.continuation) if isinstance(request, Loglikelihood) else -20.0


def test_cells_by_hand() -> None:
    """8 documents with 4 choices each: all right; and the first, right for documents 0 and 4."""
    models = [ScriptedModel(knows, "knows"), ScriptedModel(first, "first")]
    matrix = evaluate_matrix(models, toy_choice_task(8), store=":memory:", bootstrap_iters=0)
    one, other = matrix.cell("knows", "toy_choice"), matrix.cell("first", "toy_choice")
    assert one is not None and other is not None
    assert (one.metric, one.estimate.value, one.baseline, one.relative, one.bounded) == ("acc", 1.0, 0.25, 3.0, 1.0)
    assert (other.estimate.value, other.relative, other.bounded) == (0.25, 0.0, 0.0)
    assert other.values == (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


def test_other_tasks_have_no_baseline() -> None:
    tasks = [toy_generation_task(3), toy_perplexity_task(3)]
    matrix = evaluate_matrix(ScriptedModel(knows), tasks, store=":memory:", bootstrap_iters=0)
    assert [(cell.metric, cell.baseline, len(cell.values)) for cell in matrix.cells] == [
        ("exact_match", None, 3),
        ("word_perplexity", None, 0),
    ]
    assert [column.is_share for column in matrix.columns] == [True, False]


def test_the_first_pipeline_is_shown() -> None:
    """The second one reads nothing from any answer."""
    nothing = PipelineSpec("nothing", (FilterSpec("regex", {"regex_pattern": "x(.)"}), FilterSpec("take_first")))
    pipelines = (PipelineSpec("plain", (FilterSpec("take_first"),)), nothing)
    task = replace(toy_generation_task(3), scoring=Scoring("generate_until", (MetricSpec("exact_match"),), pipelines))
    (cell,) = evaluate_matrix(ScriptedModel(knows), task, store=":memory:", bootstrap_iters=0).cells
    assert (cell.filter, cell.estimate.value, cell.values) == ("plain", 1.0, (1.0, 1.0, 1.0))


def test_the_metric_may_be_chosen() -> None:
    tasks = [toy_choice_task(4), toy_generation_task(3)]
    matrix = evaluate_matrix(ScriptedModel(knows), tasks, metric="acc_norm", store=":memory:", bootstrap_iters=0)
    assert [column.metric for column in matrix.columns] == ["acc_norm", "exact_match"]


def labelled(text: str, metrics: str, folder: Path) -> None:
    """A task of two labels for prompts and heads; each reports the metrics that it supports."""
    (folder / "t.jsonl").write_text('{"text": "good", "label": 1}\n{"text": "bad", "label": 0}\n' * 4)
    (folder / f"{text}.yaml").write_text(
        f"task: {text}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: t.jsonl}}}}\ntest_split: test\n"
        "format: {kind: classification, text: text, labels: [bad, good], answer: label}\n"
        f"metric_list: [{', '.join(f'{{metric: {name}}}' for name in metrics.split())}]\n"
    )


def families() -> list[ScriptedModel]:
    """A decoder and a head that says yes to everything: the head has no metric of likelihoods by length."""
    head = ScriptedModel(lambda request: LabelScores((-2.0, -0.1)), "head", kinds=(Classification.kind,))
    return [ScriptedModel(lambda request: -1.0, "decoder"), head]


def test_a_model_without_the_requested_metric_has_an_empty_cell_and_no_other_metric(tmp_path: Path) -> None:
    """The head has acc alone, which is not put under acc_norm, nor in a mean, win rate or correlation with it."""
    labelled("t", "acc acc_norm", tmp_path)
    settings = {"include_path": str(tmp_path), "store": ":memory:", "bootstrap_iters": 0}
    matrix = evaluate_matrix(families(), "t", metric="acc_norm", **settings)
    assert {cell.model: cell.metric for cell in matrix.cells} == {"decoder": "acc_norm"}
    assert [(gap.model, gap.task) for gap in matrix.gaps] == [("head", "t")]
    assert "reports acc instead of acc_norm" in matrix.gaps[0].reason
    assert [item.win_rate.value for item in matrix.standings] == [None, None]
    both = evaluate_matrix(families(), "t", metric=["acc_norm", "acc"], **settings)
    assert [column.title for column in both.columns] == ["t (acc)", "t (acc_norm)"]
    assert (both.gaps, both.cell("decoder", "t", "acc_norm") is not None) == ((), True)


def test_a_metric_that_all_families_have_goes_before_the_tasks_first(tmp_path: Path) -> None:
    labelled("t", "acc_norm acc", tmp_path)
    matrix = evaluate_matrix(families(), "t", include_path=str(tmp_path), store=":memory:", bootstrap_iters=0)
    assert [column.title for column in matrix.columns] == ["t (acc)"]
    assert {cell.model: cell.metric for cell in matrix.cells} == {"decoder": "acc", "head": "acc"}
    assert "t: acc is shown instead of acc_norm, which head cannot report. --metric acc_norm shows it" in matrix.notices


def test_families_without_a_common_metric_have_a_column_each(tmp_path: Path) -> None:
    """Of acc_norm alone the head can have nothing, so acc is reported instead."""
    labelled("t", "acc_norm", tmp_path)
    matrix = evaluate_matrix(families(), "t", include_path=str(tmp_path), store=":memory:", bootstrap_iters=0)
    assert [(column.label, column.is_main) for column in matrix.columns] == [("t (acc_norm)", True), ("t (acc)", False)]
    assert [item.win_rate.value for item in matrix.standings] == [None, None]
    assert (matrix.gaps, matrix.rankings) == ((), ())


def test_a_group_over_other_tasks_is_not_compared(tmp_path: Path) -> None:
    """The group's acc is that of one task for the decoder, and of both for the head."""
    labelled("one", "acc", tmp_path)
    labelled("two", "acc_norm", tmp_path)
    group = "group: g\ntask: [one, two]\naggregate_metric_list: [{metric: acc, weight_by_size: true}]\n"
    (tmp_path / "g.yaml").write_text(group)
    matrix = evaluate_matrix(families(), "g", include_path=str(tmp_path), store=":memory:", bootstrap_iters=0)
    assert [(cell.model, cell.metric, cell.estimate.n) for cell in matrix.cells] == [
        ("decoder", "acc", 8),
        ("head", "acc", 16),
    ]
    assert any("g: head answered different documents than the other models" in text for text in matrix.notices)
    assert "decoder: g: acc is the mean over the tasks that have it, one only" in matrix.notices
    assert matrix.rankings == ()


def test_a_misspelt_metric_is_an_error_before_the_first_request() -> None:
    model = ScriptedModel(knows)
    with pytest.raises(UserError, match=r'no task reports "acc_nrom" \(did you mean "acc_norm"'):
        evaluate_matrix(model, toy_choice_task(4), metric="acc_nrom", store=":memory:")
    assert model.asked == []


def test_only_missing_cells_are_evaluated(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    one, other = ScriptedModel(knows, "one"), ScriptedModel(first, "other")
    evaluate_matrix(one, toy_choice_task(4), store=store, bootstrap_iters=0)
    assert len(one.asked) == 16
    tasks = [toy_choice_task(4), toy_generation_task(3)]
    whole = evaluate_matrix([one, other], tasks, store=store, bootstrap_iters=0)
    assert (len(one.asked), len(other.asked)) == (16 + 3, 16 + 3)
    again = evaluate_matrix([one, other], tasks, store=store, bootstrap_iters=0)
    assert (len(one.asked), len(other.asked)) == (19, 19)
    assert (again.cells, again.rankings) == (whole.cells, whole.rankings)


def test_an_interrupted_matrix_goes_on_where_it_was(tmp_path: Path) -> None:
    """The second model is interrupted at its tenth request: nine answers of it are kept, and all of the first."""
    store, tasks, asked = tmp_path / "s.db", [toy_choice_task(4)], []

    def interrupted(request: Request) -> float | str:
        asked.append(request)
        if len(asked) == 10:
            raise KeyboardInterrupt
        return first(request)

    one, other = ScriptedModel(knows, "one"), ScriptedModel(interrupted, "other")
    with pytest.raises(KeyboardInterrupt):
        evaluate_matrix([one, other], tasks, store=store, bootstrap_iters=0)
    matrix = evaluate_matrix([one, other], tasks, store=store, bootstrap_iters=0)
    assert (len(one.asked), len(asked)) == (16, 10 + 7)
    assert [cell.estimate.value for cell in matrix.cells] == [1.0, 0.25]


def test_a_task_that_a_model_cannot_answer_is_a_gap() -> None:
    scores = ScriptedModel(knows, "scores", kinds=(Loglikelihood.kind,))
    matrix = evaluate_matrix(
        [scores, ScriptedModel(knows, "all")],
        [toy_choice_task(4), toy_generation_task(3)],
        store=":memory:",
        bootstrap_iters=0,
    )
    assert [(cell.model, cell.task) for cell in matrix.cells] == [
        ("scores", "toy_choice"),
        ("all", "toy_choice"),
        ("all", "toy_generation"),
    ]
    (gap,) = matrix.gaps
    assert (gap.model, gap.task) == ("scores", "toy_generation")
    assert "cannot answer generation requests" in gap.reason


def test_a_model_that_cannot_be_opened_leaves_the_others_their_turn() -> None:
    matrix = evaluate_matrix(
        ["hf:pretrained=/nowhere/at/all", "dummy"], ["demo_questions"], store=":memory:", limit=3, bootstrap_iters=0
    )
    assert [(gap.model, gap.task) for gap in matrix.gaps] == [("all", "demo_questions")]
    assert "/nowhere/at/all" in matrix.gaps[0].reason
    assert [cell.model for cell in matrix.cells] == ["dummy"]


def test_a_model_that_crashes_is_a_gap() -> None:
    def crash(request: Request) -> float:
        raise RuntimeError("out of memory")

    models = [ScriptedModel(crash, "crashes"), ScriptedModel(knows, "knows")]
    matrix = evaluate_matrix(models, toy_choice_task(4), store=":memory:", bootstrap_iters=0)
    assert [gap.reason for gap in matrix.gaps] == ["RuntimeError: out of memory"]
    assert [cell.model for cell in matrix.cells] == ["knows"]


def test_a_cell_without_an_answer_is_a_gap() -> None:
    model = ScriptedModel(lambda request: Failure("too_long", "9 tokens"), "fails")
    matrix = evaluate_matrix(model, toy_choice_task(4), store=":memory:", bootstrap_iters=0)
    assert [gap.reason for gap in matrix.gaps] == ["every document failed (4)"]
    assert matrix.failed == 16
    assert "fails: 16 requests failed (too_long: 9 tokens)" in matrix.notices


def test_unknown_tasks_are_an_error_for_all() -> None:
    with pytest.raises(UserError, match="demo_qestions"):
        evaluate_matrix(["dummy", "ngram"], ["demo_qestions"], store=":memory:")


def test_groups_with_a_score_have_a_column_and_others_one_per_task() -> None:
    matrix = evaluate_matrix("dummy", "demo", store=":memory:", limit=4, bootstrap_iters=0)
    names = [column.name for column in matrix.columns]
    assert names[:3] == ["demo_arithmetic", "demo_scramble", "demo_questions"]
    cell = matrix.cell("dummy", "demo_arithmetic")
    assert cell is not None
    assert cell.estimate.n == len(cell.values) == 16
    assert cell.estimate.value == pytest.approx(sum(cell.values) / 16)


def test_checkpoints_of_a_pattern_have_their_steps(tmp_path: Path) -> None:
    """The folders are empty, so nothing can be opened; what they are is known all the same."""
    for step in (10, 9):
        (tmp_path / f"step-{step}").mkdir()
    matrix = evaluate_matrix(f"hf:pretrained={tmp_path}/step-*", ["demo_questions"], store=":memory:", limit=2)
    assert matrix.models == ("step-9", "step-10")
    assert [step.number for step in matrix.steps.values()] == [9.0, 10.0]
    assert len(matrix.gaps) == 2


def test_a_task_that_keeps_its_number_of_examples_is_named() -> None:
    """Of the demo tasks, sums have 4 examples unless the run says otherwise, and questions none whatever it says."""
    matrix = evaluate_matrix(
        "dummy:num_fewshot=2", "demo_arithmetic_2d,demo_questions", store=":memory:", limit=2, bootstrap_iters=0
    )
    message = "dummy@2-shot: the task's own number of few-shot examples instead of 2: demo_questions (0)"
    assert message in matrix.notices


def test_notices_name_the_models_that_they_are_about() -> None:
    """Both were evaluated in part; only the second fails, on the choices of document 1."""

    def fails(request: Request) -> float | str | Failure:
        return Failure("too_long", "9 tokens") if "What is 1 + 3?" in str(request) else knows(request)

    models = [ScriptedModel(knows, "knows"), ScriptedModel(fails, "fails")]
    matrix = evaluate_matrix(models, toy_choice_task(8), store=":memory:", limit=4, bootstrap_iters=0)
    assert sorted(matrix.notices) == [
        "all models: evaluated only part of the documents (not a random sample): toy_choice",
        "fails: 4 requests failed (too_long: 9 tokens)",
        "fails: toy_choice: 1 of 4 documents failed and are excluded from the scores (3 scored)",
    ]


def test_documents_in_clusters_are_tested_by_cluster() -> None:
    """The 120 demo questions have 12 subjects."""
    matrix = evaluate_matrix(
        ["ngram", "dummy"], ["demo_questions"], store=":memory:", cluster="subject", bootstrap_iters=0
    )
    (cell, _), (found,) = matrix.cells, matrix.rankings[0].comparisons
    assert cell.clusters is not None and len(cell.clusters) == 120 and len(set(cell.clusters)) == 12
    assert (found.test, found.n, found.clusters) == ("cluster-sign-flip", 120, 12)


def test_clusters_of_a_groups_tasks_are_not_mixed() -> None:
    """Four tasks of four documents with the same operations: what they share is a cluster within a task only."""
    matrix = evaluate_matrix(
        ["ngram", "dummy"], ["demo_arithmetic"], store=":memory:", limit=4, cluster="operation", bootstrap_iters=0
    )
    assert matrix.cells[0].clusters is not None
    names = {name.split()[0] for name in matrix.cells[0].clusters}
    assert names == {f"demo_arithmetic_{digits}d" for digits in (2, 3, 4, 5)}


def test_variants_share_their_clusters_and_documents() -> None:
    """Two orders of the 120 demo questions: over all columns there are 12 subjects still, and 120 documents."""
    settings = {"store": ":memory:", "orders": 2, "style": "letters", "bootstrap_iters": 0}
    whole = evaluate_matrix(["ngram", "dummy"], ["demo_questions"], cluster="subject", **settings)
    assert [len(set(cell.clusters or ())) for cell in whole.cells] == [12] * 4
    found = whole.rankings[-1].comparisons[0]
    assert (found.task, found.n, found.clusters) == ("all", 120, 12)
    alone = evaluate_matrix(["ngram", "dummy"], ["demo_questions"], **settings).cells
    assert {cell.documents for cell in alone} == {tuple(f"demo_questions#{place}" for place in range(120))}


def test_variants_in_one_column_are_one_cluster_per_document(tmp_path: Path) -> None:
    """A group over two prompts of a task: four documents are evaluated twice, and are still four."""
    rows = "\n".join(f'{{"q": "thing{place}"}}' for place in range(4))
    (tmp_path / "test.jsonl").write_text(rows + "\n")
    (tmp_path / "things.yaml").write_text(
        "task: things\ndataset_path: json\ndataset_kwargs: {data_files: {test: test.jsonl}}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_target: 'yes'\nmetric_list: [{metric: exact_match}]\n"
        "prompts: [{name: asked, text: 'Is it {{q}}?'}, {name: told, text: 'It is {{q}}:'}]\n"
    )
    (tmp_path / "all.yaml").write_text(
        "group: all_things\ntask: [things]\naggregate_metric_list: [{metric: exact_match, weight_by_size: true}]\n"
    )
    models = [ScriptedModel(lambda _: "yes", "right"), ScriptedModel(lambda _: "no", "wrong")]
    matrix = evaluate_matrix(models, "all_things", include_path=str(tmp_path), store=":memory:", bootstrap_iters=0)
    (found,) = matrix.rankings[0].comparisons
    assert matrix.cells[0].documents[::4] == ("things@asked#0", "things@told#0")
    assert (found.test, found.n, found.clusters, found.p) == ("cluster-sign-flip", 8, 4, pytest.approx(2 / 2**4))


def test_styles_are_chosen_and_prompts_are_a_sample_in_the_overall_rank() -> None:
    """Three styles of a task keep the sign flips of its documents; three orders of its choices are random effects."""
    styles = [f"demo_questions@{style}" for style in ("letters", "cloze", "hybrid")]
    chosen = evaluate_matrix(["ngram", "dummy"], styles, store=":memory:", bootstrap_iters=0).rankings[-1]
    assert (chosen.comparisons[0].test, chosen.random) == ("sign-flip", ())
    assert chosen.fixed == ("3 styles of demo_questions",)
    ways = {"orders": 3, "style": "letters", "bootstrap_iters": 0}
    drawn = evaluate_matrix(["ngram", "dummy"], ["demo_questions"], store=":memory:", **ways)
    found = drawn.rankings[-1]
    assert (found.comparisons[0].test, found.random) == ("random-effects-t", ("3 orders of demo_questions",))
    assert "takes the 3 orders of demo_questions as a random sample" in markdown(drawn)
