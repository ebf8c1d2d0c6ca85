"""Recorded runs compared: what is paired, what is refused, and what needs neither task files nor data."""

from __future__ import annotations

import json
import math
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate
from assay.api_records import compare, rescore
from assay.core.errors import DataError, UnknownName, UserError
from assay.core.identity import Fingerprint
from assay.core.requests import Generation, Request
from assay.core.responses import Failure, Logprob, Text
from assay.core.scores import DocumentValues
from assay.store.run_records import FINISHED
from assay.store.store import Store
from assay.studies.compare.compare_report import comparison_junit
from assay.studies.compare.compare_values import RunComparison, Uncompared
from assay.testing import ScriptedModel

SIZE = 12
Run = Callable[..., str]
Write = Callable[..., None]


@pytest.fixture
def write_task(write_task: Write) -> Write:
    return partial(write_task, metadata="{version: 1}")


@pytest.fixture
def folder(tmp_path: Path, write_task: Write) -> Path:
    made = tmp_path / "tasks"
    made.mkdir()
    rows = [{"q": f"Is {n} odd?", "label": 1 - n % 2} for n in range(SIZE)]
    shots = [{"q": f"Is {n} odd?", "label": 1 - n % 2} for n in range(100, 109)]
    for name, own in (("odd", rows), ("shots", shots)):
        (made / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    write_task()
    write_task(task="other", doc_to_text="'Tell: {{q}}'")
    return made


def right_up_to(count: int, name: str) -> ScriptedModel:
    """Right in documents 0 … count − 1, wrong in the others."""

    def answer(request: Request) -> Logprob | Text:
        text = str(getattr(request, "prompt", ""))
        number = int(text.rpartition("Is ")[2].split()[0])
        truth = "yes" if number % 2 else "no"
        said = truth if number < count else {"yes": "no", "no": "yes"}[truth]
        if isinstance(request, Generation):
            return Text(said)
        return Logprob(-1.0 if request.continuation.strip() == said else -3.0, 1, False)  # type: ignore[union-attr]

    return ScriptedModel(answer, name=name)


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Run:
    def make(count: int, name: str, tasks: Any = "odd", **settings: Any) -> str:
        found = evaluate(right_up_to(count, name), tasks, store=tmp_path / "s.db", include_path=folder, **settings)
        return found.run_id

    return make


@pytest.fixture
def versus(tmp_path: Path) -> Callable[..., RunComparison]:
    return lambda *runs, **options: compare(*runs, store=tmp_path / "s.db", **options)


Versus = Callable[..., RunComparison]


def test_two_models_on_one_task(run: Run, versus: Versus) -> None:
    found = versus(run(2, "a"), run(10, "b"))
    (pair,) = found.pairs
    assert (pair.first, pair.second, pair.metric, pair.n) == ("a", "b", "acc", SIZE)
    assert (pair.wins, pair.losses, pair.ties) == (8, 0, 4)
    assert pair.p == pytest.approx(2 / 2**8) and pair.outcome == "better"
    assert pair.run_differences == ('model: "a" → "b"',)
    assert found.verdict == pair.verdict and found.tests == 1


def test_a_gate_lets_no_run_through_whose_documents_failed(
    run: Run, versus: Versus, folder: Path, tmp_path: Path
) -> None:
    """What is left of it is all right, and as good as the baseline."""

    def answer(request: Request) -> Logprob | Text | Failure:
        left = any(f"Is {number} " in str(getattr(request, "prompt", "")) for number in (0, 1, 2))
        return right_up_to(SIZE, "").handler(request) if left else Failure("timeout", "no answer")  # type: ignore[return-value]

    base = run(SIZE, "a")
    broken = evaluate(ScriptedModel(answer, name="b"), "odd", store=tmp_path / "s.db", include_path=folder).run_id
    found = versus(base, broken)
    (pair,) = found.pairs
    assert (pair.n, pair.failed, pair.outcome, found.is_worse()) == (3, (0, SIZE - 3), "same", True)
    assert any("9 documents of b failed: too many for --fail_if_worse" in caveat for caveat in pair.caveats)
    assert "9 documents of b failed" in comparison_junit(found, True)
    assert not versus(base, run(SIZE, "c")).is_worse()
    assert pair.bounds == (-0.75, 0.0)
    message = (
        "failed and counted in neither score: 9 of b; with them counted as wrong or right, "
        "the difference is from -75.0 to 0 points"
    )
    assert any(caveat.startswith(message) for caveat in pair.caveats)


def test_a_gate_lets_no_run_through_whose_baseline_failed(
    run: Run, versus: Versus, folder: Path, tmp_path: Path
) -> None:
    """Of what the baseline answered the other one is right in all, and wrong elsewhere."""

    def answer(request: Request) -> Logprob | Text | Failure:
        left = any(f"Is {number} " in str(getattr(request, "prompt", "")) for number in (0, 1, 2))
        return right_up_to(SIZE, "").handler(request) if left else Failure("timeout", "no answer")  # type: ignore[return-value]

    base = evaluate(ScriptedModel(answer, name="a"), "odd", store=tmp_path / "s.db", include_path=folder).run_id
    found = versus(base, run(3, "b"), baseline=base)
    assert (found.pairs[0].failed, found.pairs[0].outcome, found.is_worse()) == ((SIZE - 3, 0), "same", True)
    assert "9 documents of a failed: too many" in " ".join(found.pairs[0].caveats)


@pytest.mark.parametrize(("values", "lacking"), [([math.nan] * 90 + [1.0] * 10, 90), ([math.nan] + [1.0] * 99, 1)])
def test_a_gate_minds_documents_without_a_value(tmp_path: Path, values: list[float], lacking: int) -> None:
    with Store(tmp_path / "s.db") as store:
        names = [recorded(store, "a", [1.0] * 100), recorded(store, "b", values, "mean_of_known")]
    found = compare(*names, store=tmp_path / "s.db")
    assert (found.pairs[0].undefined, found.is_worse()) == ((0, lacking), lacking > 1)


def test_documents_that_have_no_value_in_any_run_are_none_to_mind(tmp_path: Path) -> None:
    values = [math.nan] * 90 + [1.0] * 10
    with Store(tmp_path / "s.db") as store:
        names = [recorded(store, name, values, "mean_of_known") for name in "ab"]
    assert not compare(*names, store=tmp_path / "s.db").is_worse()


def test_runs_of_deleted_tasks_still_compare(run: Run, versus: Versus, folder: Path) -> None:
    runs = run(2, "a"), run(10, "b")
    shutil.rmtree(folder)
    assert versus(*runs).pairs[0].wins == 8


def test_records_of_before_are_reopened(run: Run, versus: Versus, tmp_path: Path, folder: Path) -> None:
    runs = run(2, "a"), run(10, "b")
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("DELETE FROM document_values WHERE run = ?", (runs[0],))
        connection.commit()
    assert versus(*runs).pairs[0].wins == 8
    shutil.rmtree(folder)
    with pytest.raises(DataError, match=r"values are not recorded, and the run cannot be reopened.*is gone"):
        versus(*runs)


def test_other_shots_are_refused_unless_they_are_the_point(run: Run, versus: Versus) -> None:
    runs = run(4, "a"), run(4, "a", num_fewshot=2)
    message = r"not comparable: num_fewshot: 0 → 2 \(shots\).*To compare them all the same, add --across model,shots"
    with pytest.raises(DataError, match=message):
        versus(*runs)
    (pair,) = versus(*runs, across=["shots"]).pairs
    assert pair.run_differences == ("num_fewshot: 0 → 2",)
    assert (pair.first, pair.second) == ("a 0-shot", "a 2-shot")
    assert versus(*runs, force=True).pairs[0].run_differences == ("num_fewshot: 0 → 2",)


def test_other_examples_of_equal_number_are_shots_too(run: Run, versus: Versus) -> None:
    runs = run(4, "a", num_fewshot=2), run(4, "a", num_fewshot=2, fewshot_sampler="per_document")
    with pytest.raises(DataError, match=r"few-shot examples: fewshot_sampler \(shots\)"):
        versus(*runs)


def test_two_things_at_once_are_refused(run: Run, versus: Versus) -> None:
    runs = run(4, "a"), run(9, "b", num_fewshot=2)
    with pytest.raises(DataError, match=r'model: "a" → "b" \(model\)'):
        versus(*runs, across=["shots"])
    found = versus(*runs, across=["model", "shots"])
    assert found.verdict.endswith('Differing: model: "a" → "b"; num_fewshot: 0 → 2.')


def test_another_style_is_refused_and_allowed(run: Run, versus: Versus) -> None:
    runs = run(4, "a", ["odd", "other"]), run(4, "a", ["odd@letters", "other"])
    with pytest.raises(UnknownName, match='no two runs have a task "odd"'):
        versus(*runs, tasks=["odd"])
    (pair,) = versus(*runs, tasks=["odd"], across=["style"]).pairs
    assert pair.task == "odd" and pair.run_differences == ("style: own → letters",)


def test_other_prompts_are_refused(run: Run, versus: Versus) -> None:
    runs = run(4, "a"), run(4, "b", system_instruction="Think. ")
    with pytest.raises(DataError, match=r"prompts: chat\.system \(prompts\)"):
        versus(*runs)
    assert len(versus(*runs, across=["model", "prompts"]).pairs[0].run_differences) == 2


def test_another_version_is_refused(run: Run, versus: Versus, write_task: Write) -> None:
    first = run(4, "a")
    write_task(metadata="{version: 2}")
    with pytest.raises(DataError, match=r"version of the task: 1 → 2 \(version\)"):
        versus(first, run(4, "b"))


def test_another_scoring_is_refused(run: Run, versus: Versus, write_task: Write) -> None:
    keys = {"output_type": "generate_until", "doc_to_target": "\"{{['yes', 'no'][label]}}\""}
    for name, option in (("first", "true"), ("second", "false")):
        metrics = f"[{{metric: exact_match, ignore_case: {option}}}]"
        write_task(**keys, metric_list=metrics)
        run(4, name)
    with pytest.raises(DataError, match=r"scoring of exact_match: ignore_case \(scoring\)"):
        versus("last~1", "last")
    assert versus("last~1", "last", across=["model", "scoring"]).pairs[0].n == SIZE


@pytest.mark.parametrize("kind", ["multiple_choice", "generate_until"])
@pytest.mark.parametrize("is_old", [False, True])
def test_other_right_answers_are_refused(
    run: Run, versus: Versus, write_task: Write, tmp_path: Path, kind: str, is_old: bool
) -> None:
    metric = "[{metric: acc}]" if kind == "multiple_choice" else "[{metric: exact_match}]"
    for name, target in (("a", "label"), ("b", "1 - label")):
        write_task(output_type=kind, metric_list=metric, doc_to_target=f"\"{{{{['yes', 'no'][{target}]}}}}\"")
        run(4, name)
    if is_old:  # records of before have no digest of right answers
        with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
            connection.execute("UPDATE runs SET manifest = replace(manifest, 'targets_fingerprint', 'x')")
            connection.commit()
    with pytest.raises(DataError, match=r"not comparable: right answers: doc_to_target \(scoring\)"):
        versus("last~1", "last")
    assert versus("last~1", "last", across=["model", "scoring"]).pairs[0].n == SIZE


def test_other_right_answers_of_the_documents_in_common_are_refused(
    run: Run, versus: Versus, write_task: Write
) -> None:
    first = run(4, "a", limit=5)
    write_task(task="again", doc_to_target="'{{1 - label}}'")
    with pytest.raises(DataError, match=r"right answers: doc_to_target \(scoring\)"):
        versus(first, run(4, "b", "again"))


def test_other_right_answers_behind_one_name_are_refused_whatever_the_examples(
    run: Run, versus: Versus, write_task: Write, folder: Path
) -> None:
    write_task(doc_to_target="!function own.right")
    for shots, code in enumerate(("doc['label']", "1 - doc['label']")):
        (folder / "own.py").write_text(f"def right(doc):\n    return {code}\n")
        run(4, "a", num_fewshot=shots, allow_code=True)
    with pytest.raises(DataError, match=r"right answers \(scoring\)"):
        versus("last~1", "last", across=["shots"])


def test_other_clusters_are_refused(tmp_path: Path) -> None:
    kinds = [f"x{place // 2}" for place in range(8)], [f"y{place % 2}" for place in range(8)]
    renamed = [f"z{place // 2}" for place in range(8)]
    with Store(tmp_path / "s.db") as store:
        values = [float(place) for place in range(8)]
        names = [recorded(store, name, values, "mean", own) for name, own in zip("abc", (*kinds, renamed), strict=True)]
    with pytest.raises(DataError, match=r"not comparable: clusters; the test is by those of a \(scoring\)"):
        compare(*names[:2], store=tmp_path / "s.db")
    found = compare(*names[:2], store=tmp_path / "s.db", across=["model", "scoring"])
    assert found.pairs[0].clusters == 4 and "the test is by those of a" in found.verdict
    assert compare(names[0], names[2], store=tmp_path / "s.db").pairs[0].clusters == 4


def test_another_direction_is_refused_and_by_force_there_is_none(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        names = [recorded(store, name, [1.0] * 9 + [k] * 9, better=k > 0) for k, name in enumerate("ab")]
    with pytest.raises(DataError, match=r"scoring of m: higher_is_better \(scoring\)"):
        compare(*names, store=tmp_path / "s.db")
    (pair,) = compare(*names, store=tmp_path / "s.db", force=True).pairs
    assert (pair.higher_is_better, pair.outcome) == (None, "higher")


def test_other_numbers_of_draws_are_called_so(run: Run, versus: Versus, write_task: Write) -> None:
    kwargs = "{do_sample: true, temperature: 1.0}"
    write_task(**GENERATED, generation_kwargs=kwargs, metric_list="[{metric: exact_match}]")
    runs = [run(4, name, draws=draws) for name, draws in (("a", 2), ("b", 3))]
    with pytest.raises(DataError, match=r"not comparable: prompts: draws \(prompts\)"):
        versus(*runs)


def test_a_limit_leaves_the_overlap(run: Run, versus: Versus, folder: Path) -> None:
    runs = run(2, "a", limit=5), run(10, "b")
    (pair,) = versus(*runs).pairs
    assert (pair.n, pair.left_out, pair.wins) == (5, (0, 7), 3)
    assert pair.caveats[0] == "the runs evaluated different documents (5 and 12): compared on the 5 in common"
    assert pair.caveats[1] == "left out because only one run has a value: 0 of a, 7 of b"
    shutil.rmtree(folder)
    with pytest.raises(DataError, match=r"common ones cannot be found: .*--force pairs documents by their position"):
        versus(*runs)
    forced = versus(*runs, force=True).pairs[0]
    assert forced.n == 5 and "paired by their position" in forced.caveats[0]


def test_no_document_in_common_is_refused_even_by_force(run: Run, versus: Versus) -> None:
    runs = run(2, "a", samples={"odd": [0, 1]}), run(2, "b", samples={"odd": [4, 5]})
    with pytest.raises(DataError, match="they have no document in common"):
        versus(*runs, force=True)


def test_several_tasks_and_a_mean_over_them(run: Run, versus: Versus) -> None:
    found = versus(run(2, "a", ["odd", "other"]), run(10, "b", ["odd", "other"]))
    assert [pair.task for pair in found.pairs] == ["odd", "other"]
    assert [pair.adjusted for pair in found.pairs] == [pytest.approx(4 / 2**8)] * 2
    (overall,) = found.overall
    assert overall.difference.value == pytest.approx(8 / 12) and overall.tasks == ("odd", "other")
    assert found.verdict.startswith(
        "Over 2 tasks, each counted once, b scores 66.7 points higher than a (95 % interval"
    )


def test_variants_are_no_more_documents_in_the_table_over_all(run: Run, versus: Versus, write_task: Write) -> None:
    """Two prompts that are answered alike: the mean over both has the error of one."""
    write_task(prompts="[{name: told, text: 'Tell: {{q}}'}, {name: asked, text: '{{q}}'}]")
    found = versus(*(run(count, name) for count, name in ((2, "a"), (6, "b"), (10, "c"))))
    one, _, whole = ({place.label: place.estimate.stderr for place in table.places} for table in found.tables)
    assert whole == pytest.approx(one)
    assert found.overall[0].verdict.startswith(
        "Over 2 variants of odd, each counted once, for these 2 prompts of odd alone, no difference"
    )


def test_tasks_of_one_run_only_are_reported(run: Run, versus: Versus) -> None:
    found = versus(run(2, "a", ["odd", "other"]), run(10, "b"))
    assert [pair.task for pair in found.pairs] == ["odd"]
    assert found.notices == ("other: b did not run it",)
    assert found.uncompared == (Uncompared("other", None, "b did not run it"),) and found.is_worse()


def test_metrics_of_one_run_only_fail_a_gate(run: Run, versus: Versus, write_task: Write) -> None:
    base = run(2, "a", ["odd", "other"])
    write_task(task="other", doc_to_text="'Tell: {{q}}'", metric_list="[{metric: acc_norm}]")
    second = run(2, "b", ["odd", "other"])
    assert versus(base, second).notices == ("other: only one run reports acc; acc_norm is compared",)
    for options in ("acc", "all"):
        found = versus(base, second, metrics=[options])
        assert [(item.task, item.metric) for item in found.uncompared] == [("other", "acc")] and found.is_worse()


def test_a_metric_that_a_third_run_lacks_fails_a_gate(run: Run, versus: Versus, write_task: Write) -> None:
    names = [run(2, "a"), run(2, "b")]
    write_task(metric_list="[{metric: acc_norm}]")
    found = versus(*names, run(2, "c"), baseline=names[0])
    assert [item.reason for item in found.uncompared] == ["acc is not reported by c"] and found.is_worse()


def test_two_tasks_of_one_run(run: Run, versus: Versus) -> None:
    name = run(2, "a", ["odd", "other"])
    (pair,) = versus(f"{name}@odd", f"{name}@other", across=["prompts"]).pairs
    assert (pair.task, pair.wins, pair.ties) == ("odd / other", 0, SIZE)
    assert (pair.first, pair.second) == ("a odd", "a other")


def test_runs_of_one_model_are_called_by_their_names(run: Run, versus: Versus) -> None:
    one, other = run(2, "a"), run(2, "a")
    assert [system.label for system in versus(one, other).systems] == [f"a ({name[-6:]})" for name in (one, other)]


def test_metrics_are_chosen(run: Run, versus: Versus) -> None:
    runs = run(2, "a"), run(10, "b")
    assert [pair.metric for pair in versus(*runs, metrics=["acc_norm"]).pairs] == ["acc_norm"]
    for options in (["all"], ["all", "acc"]):
        assert [pair.metric for pair in versus(*runs, metrics=options).pairs] == ["acc", "acc_norm"]
    assert [pair.adjusted for pair in versus(*runs, metrics=["acc", "acc,none"]).pairs] == [pytest.approx(2 / 2**8)]
    with pytest.raises(DataError, match='no two runs report the metric "f1"; they have acc, acc_norm'):
        versus(*runs, metrics=["f1"])


def test_of_several_filters_the_first_is_compared_and_the_others_are_reported(
    run: Run, versus: Versus, write_task: Write
) -> None:
    filters = "[{name: one, filter: [{function: take_first}]}, {name: two, filter: [{function: take_first}]}]"
    write_task(**GENERATED, metric_list="[{metric: exact_match}]", filter_list=filters)
    found = versus(run(2, "a"), run(8, "b"), metrics=["exact_match"])
    assert [pair.filter for pair in found.pairs] == ["one"]
    assert found.notices == ("odd: exact_match,one is compared; also reported: exact_match,two",)


def test_one_refusal_is_reported_once(run: Run, versus: Versus) -> None:
    runs = run(4, "a"), run(4, "a", num_fewshot=2)
    with pytest.raises(DataError) as refused:
        versus(*runs, metrics=["all"])
    assert len(refused.value.faults) == 1


def test_rescored_runs_are_compared(run: Run, versus: Versus, tmp_path: Path, folder: Path) -> None:
    names = [run(count, name) for count, name in ((2, "a"), (10, "b"))]
    again = [rescore(name, metrics="acc_bytes", store=tmp_path / "s.db").run_id for name in names]
    assert [(pair.metric, pair.wins) for pair in versus(*again).pairs] == [("acc_bytes", 8)]


GENERATED = {"output_type": "generate_until", "doc_to_target": "\"{{['yes it is', 'no it is not'][label]}}\""}


def test_corpus_metrics_are_reopened_for_their_texts(run: Run, versus: Versus, folder: Path, write_task: Write) -> None:
    pytest.importorskip("sacrebleu")
    write_task(**GENERATED, metric_list="[{metric: chrf}]")
    runs = run(2, "a"), run(12, "b")
    (pair,) = versus(*runs).pairs
    assert pair.test == "bootstrap" and pair.outcome == "better" and pair.wins is None
    assert pair.scores[0].value is not None and pair.scores[1].value is not None
    assert pair.difference.value == pytest.approx(pair.scores[1].value - pair.scores[0].value)
    shutil.rmtree(folder)
    with pytest.raises(DataError, match=r"chrf: its per-document values are not recorded, and the run cannot"):
        versus(*runs)


def test_a_metric_without_a_paired_test_is_reported(run: Run, versus: Versus, folder: Path, write_task: Write) -> None:
    (folder / "own.py").write_text("def best(values):\n    return max(values)\n")
    write_task(metric_list="[{metric: acc, aggregation: !function own.best}]")
    runs = run(2, "a", allow_code=True), run(12, "b", allow_code=True)
    with pytest.raises(DataError, match="odd, acc: cannot be compared: the task aggregates it with its own function"):
        versus(*runs)


def test_three_runs_are_ranked_with_shared_places(run: Run, versus: Versus) -> None:
    found = versus(run(1, "low"), run(11, "high"), run(12, "top"))
    assert [(pair.first, pair.second) for pair in found.pairs] == [("low", "high"), ("low", "top"), ("high", "top")]
    (table,) = found.tables
    assert [(place.label, place.rank, place.letters) for place in table.places] == [
        ("top", 1, "a"),
        ("high", 1, "a"),
        ("low", 3, "b"),
    ]


def test_ranks_over_all_tasks_count_each_once(run: Run, versus: Versus) -> None:
    names = [run(count, name, ["odd", "other"]) for count, name in ((1, "low"), (11, "high"), (12, "top"))]
    found = versus(*names)
    assert [table.task for table in found.tables] == ["odd", "other", None]
    shown = [(place.label, place.letters, place.estimate.value) for place in found.tables[-1].places]
    assert shown == [("top", "a", 1.0), ("high", "a", pytest.approx(11 / 12)), ("low", "b", pytest.approx(1 / 12))]
    assert len(versus(*names, baseline=names[0]).tables) == 0


def test_many_pairs_over_all_tasks_share_their_flips(run: Run, versus: Versus) -> None:
    # Four documents of the one weigh as much as twelve of the other.
    few = {"odd": [0, 2, 6, 9]}
    names = [run(count, f"m{count}", ["odd", "other"], samples=few) for count in (1, 5, 7, 12)]
    together = {(score.first, score.second): score.p for score in versus(*names).overall}
    assert len(together) == 6
    for one, other in ((0, 1), (1, 2), (2, 3)):
        (alone,) = versus(names[one], names[other]).overall
        assert together[alone.first, alone.second] == pytest.approx(alone.p, abs=0.02)


def test_a_baseline_is_compared_with_each(run: Run, versus: Versus) -> None:
    runs = run(1, "low"), run(11, "high"), run(12, "top")
    found = versus(*runs, baseline=runs[1])
    assert [(pair.first, pair.second) for pair in found.pairs] == [("high", "low"), ("high", "top")]
    assert found.tables == ()


def test_flips_show_questions_where_they_can_be_read(run: Run, versus: Versus, folder: Path) -> None:
    runs = run(2, "a"), run(4, "b")
    (pair,) = versus(*runs, flips=5).pairs
    assert [(flip.document, flip.first, flip.second, flip.question) for flip in pair.flips] == [
        (2, 0.0, 1.0, "Is 2 odd?"),
        (3, 0.0, 1.0, "Is 3 odd?"),
    ]
    shutil.rmtree(folder)
    (pair,) = versus(*runs, flips=5).pairs
    assert [flip.question for flip in pair.flips] == ["", ""] and "questions cannot be shown" in pair.caveats[0]


def test_metrics_without_values_of_documents_have_no_flips(run: Run, versus: Versus, write_task: Write) -> None:
    write_task(metric_list="[{metric: f1}]")
    (pair,) = versus(run(2, "a"), run(8, "b"), flips=3).pairs
    assert pair.flips == () and "no documents are listed: f1 is computed over all documents" in pair.caveats[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "--alpha: 0.0; expected a number from"),
        ({"alpha": 1e-20}, "--alpha: 1e-20; expected a number from"),
        ({"margin": -1.0}, "--margin: -1.0; expected a number above 0"),
        ({"margin": float("nan")}, "--margin: nan"),
        ({"detect": 0.0}, "--detect: 0.0"),
        ({"test": "exat"}, r'--test: "exat" \(did you mean "exact"\?\)'),
        ({"correction": "none"}, "--correction"),
        ({"across": ["shot"]}, r'--across: "shot" \(did you mean "shots"\?\)'),
        ({"tasks": ["od"]}, r'no run has a task "od" \(did you mean "odd"\?\)'),
        ({"tasks": ["odd", "od"]}, r'no run has a task "od" \(did you mean "odd"\?\)'),
        ({"seed": -1, "test": "bootstrap"}, "--seed: -1; expected a whole number, 0 or more"),
        ({"margin": 2.0}, r"--margin: 2 on odd, acc, .* less than 1\. 0\.02 is 2 points"),
        ({"detect": -5.0}, "--detect: -5 on odd, acc"),
    ],
)
def test_options_that_mean_nothing_are_reported(
    run: Run, versus: Versus, options: dict[str, Any], message: str
) -> None:
    runs = run(2, "a"), run(10, "b")
    with pytest.raises(UserError, match=message):
        versus(*runs, **options)


def test_runs_that_mean_nothing_are_reported(run: Run, versus: Versus) -> None:
    name = run(2, "a")
    with pytest.raises(UserError, match="is named twice"):
        versus(name, name)
    with pytest.raises(UserError, match="is named twice"):
        versus(name, f"{name}@odd")
    with pytest.raises(UserError, match="one run; expected two"):
        versus(name)
    with pytest.raises(UnknownName, match="unknown run"):
        versus(name, "nothing")
    with pytest.raises(UnknownName, match=r'has no task "odt" \(did you mean "odd"\?\)'):
        versus(name, f"{name}@odt")


def test_an_unfinished_run_is_reported(run: Run, versus: Versus, tmp_path: Path) -> None:
    runs = run(2, "a"), run(10, "b")
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute("UPDATE runs SET status = 'interrupted', summary = NULL WHERE id = ?", (runs[0],))
        connection.execute("DELETE FROM document_values WHERE run = ?", (runs[0],))
        connection.commit()
    found = versus(*runs)
    assert found.pairs[0].wins == 8
    assert found.notices == (f"run {runs[0]} is interrupted: documents that it did not score are left out",)


def test_documents_that_a_stopped_run_did_not_get_to_have_not_failed(
    run: Run, versus: Versus, tmp_path: Path, folder: Path
) -> None:
    def answer(request: Request) -> Logprob | Text:
        if "Is 3 " in str(getattr(request, "prompt", "")):
            raise KeyboardInterrupt
        return right_up_to(SIZE, "").handler(request)  # type: ignore[return-value]

    base, model = run(SIZE, "a"), ScriptedModel(answer, name="b")
    with pytest.raises(KeyboardInterrupt):
        evaluate(model, "odd", store=tmp_path / "s.db", include_path=folder)
    (pair,) = versus(base, "last").pairs
    assert (pair.failed, pair.unanswered, pair.has_too_many_missing) == ((0, 0), (0, SIZE - pair.n), True)
    assert f"{SIZE - pair.n} documents of b have no answer: too many" in " ".join(pair.caveats)


def test_a_run_that_stopped_by_its_scores_gets_a_note(run: Run, versus: Versus) -> None:
    base = run(0, "a")
    (pair,) = versus(base, run(SIZE, "b", until_decided=base)).pairs
    assert "b stopped early (--until_decided)" in " ".join(pair.caveats)


def recorded(
    store: Store,
    name: str,
    values: list[float],
    aggregation: str = "mean",
    clusters: list[str] | None = None,
    better: bool = True,
) -> str:
    """A run as the store keeps it, without the work of one."""
    size = len(values)
    entry = {
        "version": 1,
        "num_fewshot": 0,
        "documents": size,
        "documents_fingerprint": "d",
        "prompts_fingerprint": "p",
        "scoring": {"metrics": {}, "filters": {}, "process": None},
    }
    reported = {"tasks": {"t": {"metrics": [{"metric": "m", "filter": "none", "higher_is_better": better}]}}}
    run_id = store.runs.begin(Fingerprint(name), {"model": name}, {"tasks": {"t": entry}})
    store.runs.end(
        run_id, FINISHED, reported, [DocumentValues("t", "m", "none", aggregation, range(size), values, clusters)]
    )
    return run_id


def test_a_correction_beyond_the_resolution_of_the_bootstrap_is_reported(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        names = [recorded(store, f"m{k}", [k + place / 100 for place in range(40)], "median") for k in range(24)]
    found = compare(*names, store=tmp_path / "s.db")
    assert found.verdict == "No difference beyond chance was found, of 276 comparisons."
    assert found.notices[0].startswith("in 276 comparisons p is as small as the number of bootstrap resamples allows")
    assert compare(*names, store=tmp_path / "s.db", baseline=names[0]).notices == ()


def test_another_aggregation_is_refused_even_by_force(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        names = [recorded(store, name, [1.0, 2.0], rule) for name, rule in (("a", "mean"), ("b", "median"))]
    with pytest.raises(DataError, match="m is aggregated by mean in one run, median in the other; expected"):
        compare(*names, store=tmp_path / "s.db", force=True)


def test_answers_that_were_only_recorded_are_reported(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        names = [recorded(store, name, [1.0, 2.0], "bypass") for name in "ab"]
    with pytest.raises(DataError, match="t, m: cannot be compared: answers were recorded without being scored"):
        compare(*names, store=tmp_path / "s.db")


def test_infinite_values_are_reported(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        names = [recorded(store, "a", [1.0, math.inf, 2.0], "mean_of_known"), recorded(store, "b", [1.0, 2.0, 3.0])]
    assert compare(*names, store=tmp_path / "s.db").pairs[0].caveats == (
        "left out because only one run has a value: 1 of a, 1 of b",
        "1 document of a has no finite value: too many for --fail_if_worse",
        "1 value is infinite in a and left out: its score would be infinite, too",
    )


def test_a_margin_of_marks_may_be_large(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        names = [recorded(store, name, [0.0] * 9 + [mark]) for name, mark in (("a", 5.0), ("b", 3.0))]
    (pair,) = compare(*names, store=tmp_path / "s.db", margin=2.0).pairs
    assert not pair.is_share and pair.margin is not None and pair.margin.is_equivalent


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["outcomes", "measurements", "clusters"])
def test_a_hundred_runs_of_a_thousand_documents_take_seconds(tmp_path: Path, kind: str) -> None:
    generator = random.Random(0)
    with Store(tmp_path / "s.db") as store:
        names = []
        for place in range(100):
            draws = [generator.random() + 0.002 * place for _ in range(1000)]
            values = [float(draw > 0.5) for draw in draws] if kind == "outcomes" else draws
            clusters = [f"c{document // 4}" for document in range(1000)] if kind == "clusters" else None
            names.append(recorded(store, f"m{place}", values, clusters=clusters))
    started = time.perf_counter()
    found = compare(*names, store=tmp_path / "s.db")
    assert time.perf_counter() - started < 5
    assert len(found.pairs) == 4950 and len(found.tables[0].places) == 100
    # The first and the last are 0.2 apart, seven standard errors or more.
    assert found.tables[0].places[0].last < found.tables[0].places[-1].rank


@pytest.mark.slow
def test_keeping_ten_thousand_documents_takes_milliseconds(tmp_path: Path) -> None:
    generator = random.Random(0)
    with Store(tmp_path / "s.db") as store:
        recorded(store, "warm", [0.5])
        best = 1.0
        for kind in range(5):
            values = [float(generator.random() < 0.5) for _ in range(10_000)]
            started = time.perf_counter()
            recorded(store, f"m{kind}", values)
            best = min(best, time.perf_counter() - started)
    assert best < 0.05


def test_predictions_agree_where_they_can_be_read(run: Run, versus: Versus, folder: Path) -> None:
    """a is wrong from document 2 on, b from 10 on: on 4 documents both predict the same."""
    runs = run(2, "a"), run(10, "b")
    (pair,) = versus(*runs, predictions=True).pairs
    assert pair.prediction_agreement is not None and pair.agreement is not None
    assert (pair.prediction_agreement.equal, pair.prediction_agreement.kappa.n) == (pytest.approx(4 / 12), 12)
    # Documents 0, 1, 10 and 11 are alike. Each run picks "yes" 6 times of 12, so half would be alike by chance.
    assert pair.prediction_agreement.kappa.value == pytest.approx((4 / 12 - 0.5) / 0.5)
    # Outcomes: alike in the same documents, but one run is right in 2 and the other in 10 of 12.
    chance = (2 * 10 + 10 * 2) / 144
    assert pair.agreement.kappa.value == pytest.approx((4 / 12 - chance) / (1 - chance))
    assert versus(*runs).pairs[0].prediction_agreement is None
    shutil.rmtree(folder)
    (pair,) = versus(*runs, predictions=True).pairs
    assert pair.prediction_agreement is None and "predictions cannot be compared" in pair.caveats[-1]


def test_predictions_in_other_orders_are_those_of_the_documents(run: Run, versus: Versus) -> None:
    """The model knows no letters and takes the first of two choices: another one in the other order."""
    task = "odd@letters"
    name = run(12, "a", task, orders=2)
    sides = f"{name}@{task}#order=1", f"{name}@{task}#order=2"
    (pair,) = versus(*sides, across=("prompts",), predictions=True).pairs
    assert pair.prediction_agreement is not None and (
        pair.prediction_agreement.equal,
        pair.prediction_agreement.kappa.n,
    ) == (0.0, 12)


def test_written_answers_without_choices_have_no_predictions(run: Run, versus: Versus, write_task: Write) -> None:
    write_task(
        output_type="generate_until",
        doc_to_choice="null",
        doc_to_target="\"{{['yes','no'][label]}}\"",
        metric_list="[{metric: exact_match}]",
    )
    (pair,) = versus(run(2, "a"), run(10, "b"), predictions=True).pairs
    assert pair.prediction_agreement is None and pair.agreement is not None
    assert "no document has a prediction in both runs" in pair.caveats[-1]
