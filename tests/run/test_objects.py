"""Runs of task objects, looked at again: the objects can be given, and the advice of every error works as printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import Choose, RunResult, compare, evaluate, explain, rescore
from assay.cli.main import main
from assay.core.errors import DataError, ModelError, UnknownName, UserError
from assay.core.requests import Loglikelihood, Request
from assay.testing import ScriptedModel


@assay.task("sums", rows=[{"a": a, "b": b} for a in range(6) for b in range(6)])
def sums(row: Mapping[str, Any]) -> Choose:
    return Choose(f"{row['a']} + {row['b']} =", [str(row["a"] + row["b"]), "many"], 0)


@assay.task("letters", rows=[{"letter": letter} for letter in "abcdefgh"])
def letters(row: Mapping[str, Any]) -> Choose:
    return Choose(f"Behind {row['letter']} stands", ["another letter", "nothing"], 0)


def model(name: str, modulus: int) -> ScriptedModel:
    def answer(request: Request) -> float:
        assert isinstance(request, Loglikelihood)
        return -1.0 - sum(map(ord, f"{request.prompt}{request.continuation}")) % modulus

    return ScriptedModel(answer, name=name)


ONE, OTHER = model("one", 7), model("other", 5)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


def pair(store: Path, *tasks: Any) -> tuple[RunResult, RunResult]:
    """A run on all documents, and one on a sample of them."""
    return evaluate(ONE, tasks, store=store), evaluate(OTHER, tasks, store=store, sample=0.5)


def followed(text: str, **names: Any) -> Any:
    """Does what a message says one should do from Python, to the letter."""
    found = re.search(r"From Python: (assay\.\w+\(.*?\))(?:[.;,\n]|$)", text)
    assert found is not None, text
    scope = {"assay": assay, "sums": sums, "letters": letters, **names}
    exec(f"result = {found.group(1)}", scope)
    return scope["result"]


def test_a_sampled_and_a_whole_run_are_compared_with_the_object(store: Path) -> None:
    whole, sampled = pair(store, sums)
    found = compare(whole.run_id, sampled.run_id, tasks=[sums], store=store)
    assert (found.pairs[0].n, found.pairs[0].run_differences) == (18, ('model: "one" → "other"',))
    assert "compared on the 18 in common" in found.pairs[0].caveats[0]


def test_the_advice_of_compare_works(store: Path) -> None:
    whole, sampled = pair(store, sums)
    with pytest.raises(DataError, match='the task "sums" was an object in Python') as caught:
        compare(whole.run_id, sampled.run_id, store=store)
    assert followed(str(caught.value)).pairs[0].n == 18


def test_the_advice_of_compare_names_all_objects(store: Path) -> None:
    whole, sampled = pair(store, sums, letters)
    with pytest.raises(DataError) as caught:
        compare(whole.run_id, sampled.run_id, store=store)
    assert {item.task: item.n for item in followed(str(caught.value)).pairs} == {"sums": 18, "letters": 4}


def test_the_advice_on_the_command_line_works(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, sampled = pair(store, sums)
    words = ["compare", whole.run_id, sampled.run_id, "--store", str(store)]
    assert main(words) == 2
    assert followed(capsys.readouterr().err).pairs[0].n == 18
    assert main([*words, "--force"]) == 0


def test_results_may_be_given_as_runs_and_name_their_store(store: Path) -> None:
    whole, sampled = pair(store, sums)
    assert compare(whole, sampled, tasks=sums).pairs[0].n == 18
    assert explain(whole, sampled, tasks=sums).runs == (whole.run_id, sampled.run_id)
    assert rescore(whole, tasks=sums, metrics="+acc_bytes").tasks[0].metric("acc_bytes")


def test_one_object_of_several_is_enough_for_its_own_task(store: Path) -> None:
    whole, sampled = pair(store, sums, letters)
    assert [item.task for item in compare(whole, sampled, tasks=[letters]).pairs] == ["letters"]
    assert explain(whole, sampled, tasks=[letters]).tasks[0].common == 4


def test_objects_and_task_files_of_one_run(store: Path) -> None:
    whole, sampled = pair(store, sums, "demo_cloze")
    found = compare(whole, sampled, tasks=[sums, "demo_*"])
    assert [item.task for item in found.pairs] == ["sums", "demo_cloze"]
    assert len(rescore(whole, tasks=[sums], metrics="acc").tasks) == 2


def test_listed_documents_have_their_questions(store: Path) -> None:
    whole, sampled = pair(store, sums)
    found = compare(whole, sampled, tasks=[sums], flips=1, predictions=True).pairs[0]
    assert found.prediction_agreement is not None
    assert all(str(flip.question).endswith("=") for flip in found.flips)


def test_explain_reopens_objects(store: Path) -> None:
    whole, sampled = pair(store, sums)
    without, given = explain(whole, sampled).tasks[0], explain(whole, sampled, tasks=[sums]).tasks[0]
    assert "From Python, give it: tasks=[sums]" in without.caveats[0]
    assert (given.caveats, given.common) == ((), 18)


def test_the_advice_of_rescore_works(store: Path) -> None:
    whole, _ = pair(store, sums, letters)
    with pytest.raises(UnknownName, match="was an object in Python") as caught:
        rescore(whole.run_id, metrics="acc", store=store, tasks=[sums])
    assert [task.name for task in followed(str(caught.value)).tasks] == ["sums", "letters"]


def test_an_object_that_a_run_did_not_evaluate_is_reported(store: Path) -> None:
    whole, sampled = pair(store, sums)
    with pytest.raises(
        DataError, match="evaluated sums, and the tasks given are sums, letters; expected tasks of the run"
    ):
        rescore(whole, tasks=[sums, letters])
    with pytest.raises(UnknownName, match='no run has a task "letters"'):
        compare(whole, sampled, tasks=[sums, letters])


def test_the_advice_for_a_model_object_works(store: Path) -> None:
    task = assay.task("sums", rows=[{"n": 1}], metrics=["acc", "acc_mutual_info"])(lambda row: Choose("1 =", ["1"], 0))

    class Silent(ScriptedModel):
        def respond(self, requests: Any) -> Any:
            return iter(())

    lost = evaluate(Silent(lambda request: -1.0, name="one"), task, store=store)
    with pytest.raises(ModelError, match='its model "one" was an object in Python') as caught:
        rescore(lost, tasks=[task], complete=True)
    done = followed(str(caught.value), sums=task, my_model=ScriptedModel(lambda request: -1.0, name="one"))
    assert done.counts.asked == done.counts.unique


def test_metrics_that_need_more_requests_can_be_named_in_the_task(store: Path) -> None:
    with pytest.raises(UserError, match=r'@assay.task\(…, metrics=\["acc_mutual_info"\]\)'):
        evaluate(ONE, sums, store=store, metrics="acc_mutual_info")
    again = assay.task("sums", rows=[{"a": 1, "b": 2}], metrics=["acc_mutual_info"])(sums)
    assert evaluate(ONE, again, store=store).tasks[0].metric("acc_mutual_info")


def test_a_reference_with_more_objects_than_this_run(store: Path) -> None:
    whole, _ = pair(store, sums, letters)
    found = evaluate(OTHER, letters, store=store, sample=4, reference=whole.run_id)
    assert found.tasks[0].subsample is not None


def test_one_store_may_be_written_in_two_ways(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.parent)
    one, other = evaluate(ONE, sums, store=store), evaluate(OTHER, sums, store=store.name)
    assert compare(one, other).verdict


def test_results_of_two_stores_are_refused_by_name(store: Path, tmp_path: Path) -> None:
    one = evaluate(ONE, sums, store=store)
    other = evaluate(OTHER, sums, store=tmp_path / "second.db")
    with pytest.raises(UserError, match="expected runs of one store"):
        compare(one, other)
