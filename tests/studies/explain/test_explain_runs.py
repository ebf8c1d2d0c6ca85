"""Why two numbers differ: each test changes one thing, and only that is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from assay.api import evaluate
from assay.api_records import explain, rescore
from assay.core.errors import UnknownName
from assay.core.identity import Fingerprint
from assay.core.requests import Generation, Request
from assay.core.responses import Logprob, Text
from assay.store.store import Store
from assay.studies.explain.explain_values import Explanation, TaskExplanation
from assay.testing import ScriptedModel

CHOICES = ["a very long answer", "no", "maybe so"]
# Characters 18, 2, 8: raw picks are 1, 1, 2, 0; by characters 0, 0, 2, 0.
ROWS = [
    {"q": "one?", "label": 0, "lls": [-10.0, -2.0, -6.0]},
    {"q": "two?", "label": 0, "lls": [-9.0, -2.5, -6.0]},
    {"q": "three?", "label": 2, "lls": [-30.0, -9.0, -1.0]},
    {"q": "four?", "label": 0, "lls": [-1.0, -3.0, -2.0]},
]
Write = Callable[..., None]
SUMS = [{"q": "2+2", "a": "4"}, {"q": "3+3", "a": "6"}]


def likelihood(question: str, continuation: str) -> float:
    for row in ROWS:
        if str(row["q"]) in question:
            return dict(zip(CHOICES, row["lls"], strict=True)).get(continuation.strip(), -4.0)  # type: ignore[call-overload]
    return -4.0


def answer(request: Request) -> Logprob | Text:
    if isinstance(request, Generation):
        return Text({"2+2": "it is 5, no: #### 4", "3+3": "12 or #### 6"}.get(str(request.prompt).strip(), "?"))
    text = str(getattr(request, "prompt", ""))
    return Logprob(likelihood(text, request.continuation), 1, False)  # type: ignore[union-attr]


class Weighed(ScriptedModel):
    """A model with weights, in a number format."""

    precision = "float32"

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.name, weights="w", precision=self.precision)


class Half(Weighed):
    precision = "bfloat16"


@pytest.fixture
def write_task(write_task: Write) -> Write:
    return partial(write_task, doc_to_choice=str(CHOICES))


@pytest.fixture
def folder(tmp_path: Path, write_task: Write) -> Path:
    made = tmp_path / "tasks"
    made.mkdir()
    shots = [{"q": f"shot {n}?", "label": n % 3} for n in range(9)]
    for name, rows in (("odd", ROWS), ("shots", shots), ("sums", SUMS)):
        (made / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_task()
    (made / "sums.yaml").write_text(
        "task: sums\ndataset_path: json\ndataset_kwargs:\n  data_files: {test: sums.jsonl}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: a\ngeneration_kwargs: {until: ['Q:']}\n"
        "metric_list:\n  - metric: exact_match\n"
        "filter_list:\n  - name: hash\n    filter:\n"
        "      - {function: regex, regex_pattern: '#### (\\d+)'}\n      - {function: take_first}\n"
    )
    return made


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Callable[..., str]:
    def call(tasks: str = "odd", model: ScriptedModel | None = None, **settings: Any) -> str:
        chosen = {"store": tmp_path / "s.db", "include_path": folder, "bootstrap_iters": 0, **settings}
        return evaluate(model or ScriptedModel(answer), tasks, **chosen).run_id

    return call


@pytest.fixture
def why(tmp_path: Path) -> Callable[..., TaskExplanation]:
    def call(first: str, second: str, **settings: Any) -> TaskExplanation:
        found: Explanation = explain(first, second, store=tmp_path / "s.db", **settings)
        (task,) = found.tasks
        return task

    return call


Run = Callable[..., str]
Why = Callable[..., TaskExplanation]


def kinds(task: TaskExplanation) -> list[str]:
    return [cause.kind for cause in task.causes]


def evidence(task: TaskExplanation, kind: str) -> str:
    (cause,) = [cause for cause in task.causes if cause.kind == kind]
    return "\n".join((cause.text, *cause.evidence))


def test_nothing_differs(run: Run, why: Why) -> None:
    task = why(run(), run())
    assert (task.causes, task.caveats, task.difference) == ((), (), 0.0)
    assert (task.common, task.better, task.worse) == (4, 0, 0)
    assert task.conclusion == "Nothing differs: the same model, documents, requests and scoring."


def test_another_model_is_named(run: Run, why: Why) -> None:
    def wrong(request: Request) -> Logprob:
        total = likelihood(str(request.prompt), request.continuation)  # type: ignore[union-attr]
        return Logprob(-100 - total, 1, False)

    task = why(run(), run(model=ScriptedModel(wrong, name="other")))
    assert kinds(task) == ["model"]
    assert 'name: "scripted" → "other"' in evidence(task, "model")
    assert "4 of 4 documents with identical requests have different answers; 4 predictions changed" in evidence(
        task, "model"
    )
    # Raw picks 1, 1, 2, 0 give 0.5. The negated ones pick 0, 0, 0, 1: documents one and two are right.
    assert (task.better, task.worse, task.difference) == (2, 2, 0.0)
    assert task.conclusion == "The scores are equal, but these differ: the model."


def test_numerics_are_distinguished_from_another_network(run: Run, why: Why) -> None:
    def nudged(request: Request) -> Logprob:
        total = likelihood(str(request.prompt), request.continuation)  # type: ignore[union-attr]
        return Logprob(-9.25 if total == -9.0 else -1.25 if total == -2.0 else total, 1, False)

    task = why(run(model=Weighed(answer)), run(model=Half(nudged)))
    assert kinds(task) == ["model", "numerics"]
    assert 'number format: "float32" → "bfloat16"' in evidence(task, "model")
    # -2 became -1.25 in documents one and four, -9 became -9.25 in two and three; no pick changes.
    assert "4 of 4 documents with identical requests have different answers; 0 predictions changed" in evidence(
        task, "numerics"
    )
    assert "largest difference of a log-likelihood: 0.75" in evidence(task, "numerics")


def test_fewer_documents_are_named_with_their_share(run: Run, why: Why) -> None:
    task = why(run(), run(limit=2))
    assert kinds(task) == ["dataset"]
    assert "documents evaluated: 4 → 2" in evidence(task, "dataset")
    assert "limit: null → 2" in evidence(task, "dataset")
    assert "in common: 2" in evidence(task, "dataset")
    assert (task.difference, task.causes[0].points) == (-0.5, -0.5)
    assert task.conclusion == "The only cause found is the documents: -50.00 points."


def test_documents_are_paired_by_their_content(run: Run, why: Why) -> None:
    task = why(run(), run(samples={"odd": [2, 3]}))
    assert kinds(task) == ["dataset"]
    assert "samples: null → [2, 3]" in evidence(task, "dataset")
    # Both are right in both runs; what is gone are the two that are wrong.
    assert (task.common, task.better, task.worse, task.causes[0].points) == (2, 0, 0, 0.5)


def test_data_that_changed_since_is_reported_from_the_records(run: Run, why: Why, folder: Path) -> None:
    first = run()
    (folder / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[:3]))
    task = why(first, run())
    assert kinds(task) == ["dataset"]
    assert "documents in the split: 4 → 3" in evidence(task, "dataset")
    (caveat,) = task.caveats
    assert f"run {first} cannot be reopened" in caveat and "(4 then, 3 now)" in caveat
    assert (task.common, task.conclusion.startswith("The only cause found is the documents")) == (None, True)


def test_another_template_is_shown_with_visible_white_space(run: Run, why: Why, write_task: Write) -> None:
    write_task(task="even", doc_to_text='"Q: {{q}}\\n"')
    task = why(run(), run("even"))
    assert kinds(task) == ["definition", "prompts"]
    assert 'doc_to_text: "{{q}}" → "Q: {{q}}\\n"' in evidence(task, "definition")
    assert "0 of 4 common documents have identical requests" in evidence(task, "prompts")
    assert "-one?\n+Q:·one?⏎" in evidence(task, "prompts")


def test_an_edited_task_file_is_explained_from_the_records(run: Run, why: Why, write_task: Write) -> None:
    first = run()
    write_task(description="'Answer well. '")
    task = why(first, run())
    assert kinds(task) == ["definition", "prompts"]
    assert 'description: null → "Answer well. "' in evidence(task, "definition")
    assert len(task.caveats) == 1


def test_a_delimiter_changes_the_continuations_alone(run: Run, why: Why, write_task: Write) -> None:
    write_task(task="even", target_delimiter="''")
    task = why(run(), run("even"))
    assert kinds(task) == ["definition", "prompts"]
    assert "continuation: ·no → no" in evidence(task, "prompts")
    assert "@@" not in evidence(task, "prompts")


def test_another_right_answer_is_part_of_the_definition(run: Run, why: Why, write_task: Write) -> None:
    write_task(task="even", doc_to_target="'{{1}}'")
    task = why(run(), run("even"))
    assert kinds(task) == ["definition"]
    assert "4 of 4 common documents have a different right answer" in evidence(task, "definition")


def test_a_conversation_is_named(run: Run, why: Why) -> None:
    task = why(run(), run(apply_chat_template=True))
    assert kinds(task) == ["definition", "prompts"]
    assert evidence(task, "definition") == "the settings of the runs differ: chat.apply\nchat.apply: false → true"


def test_another_seed_draws_other_examples(run: Run, why: Why) -> None:
    from assay.core.specs import Seeds

    task = why(run(num_fewshot=2), run(num_fewshot=2, seeds=Seeds(fewshot=7)))
    assert kinds(task) == ["definition", "examples", "prompts"]
    assert "fewshot_seed: 1234 → 7" in evidence(task, "definition")
    assert "of 2 few-shot examples differ" in evidence(task, "examples")
    assert "split train[" in evidence(task, "examples")


def test_more_examples_are_counted(run: Run, why: Why) -> None:
    task = why(run(), run(num_fewshot=1))
    assert kinds(task) == ["definition", "examples", "prompts"]
    assert "num_fewshot: 0 → 1" in evidence(task, "definition")
    assert "place 1: none → split train[" in evidence(task, "examples")


def test_a_style_is_compared_with_the_task_itself(run: Run, why: Why) -> None:
    task = why(run(), run("odd@letters"))
    assert (task.first.task, task.second.task) == ("odd", "odd@letters")
    assert kinds(task) == ["definition", "prompts"]
    assert 'style: null → "letters"' in evidence(task, "definition")
    assert "continuation: ·no → ·B" in evidence(task, "prompts")


def test_cut_prompts_and_notes_are_counted(run: Run, why: Why) -> None:
    def cut(request: Request) -> Logprob:
        total = likelihood(str(request.prompt), request.continuation)  # type: ignore[union-attr]
        is_long = "three" in str(request.prompt)  # type: ignore[union-attr]
        return Logprob(total, 1, False, truncated=5 if is_long else 0, notes=("double_bos",) if is_long else ())

    task = why(run(), run(model=ScriptedModel(cut, name="short")))
    assert kinds(task) == ["model", "truncation", "notes"]
    assert "documents cut to fit the model: 0 → 1" in evidence(task, "truncation")
    assert "prompts began with two BOS tokens: 0 → 3" in evidence(task, "notes")


def test_the_share_of_the_normalisation_is_measured(run: Run, why: Why, tmp_path: Path) -> None:
    first = run(metrics="acc")
    second = rescore(first, metrics="acc_norm", store=tmp_path / "s.db").run_id
    task = why(first, second)
    assert kinds(task) == ["normalisation"]
    # Raw: documents three and four are right. By characters: all four.
    assert (task.first.estimate.value, task.second.estimate.value, task.causes[0].points) == (0.5, 1.0, 0.5)
    assert (task.better, task.worse) == (2, 0)
    shown = evidence(task, "normalisation")
    assert "acc_norm: log-likelihood per character of the choice" in shown
    assert f"answers of run {second} under acc: 0.5000 instead of 1.0000" in shown
    assert f"answers of run {first} under acc_norm: 1.0000 instead of 0.5000" in shown
    assert task.conclusion == "The only cause found is the metric: +50.00 points."


def test_of_two_causes_the_larger_is_named(run: Run, why: Why, write_task: Write) -> None:
    write_task(task="even", doc_to_text="'{{q}} '", metric_list="[{metric: acc_norm}]")
    task = why(run(metrics="acc"), run("even"))
    assert kinds(task) == ["definition", "prompts", "normalisation"]
    assert [cause.points for cause in task.causes] == [0.0, None, 0.5]
    assert task.conclusion == "The largest cause is the metric: +50.00 points of +50.00 points."


def test_what_cannot_be_distinguished_is_named_together(run: Run, why: Why, write_task: Write) -> None:
    write_task(task="even", doc_to_text="'{{q}} '")
    other = ScriptedModel(lambda request: -1.0, name="other")
    task = why(run(), run("even", other))
    # All choices alike: the first is picked, so documents one, two and four are right.
    assert task.difference == 0.25
    together = "the model, the definition of the task (doc_to_text) and the prompts together"
    assert task.conclusion == f"The largest share, +25.00 points of +25.00 points, comes from {together}."


def test_metrics_to_compare_can_be_named(run: Run, why: Why) -> None:
    first = run()
    task = why(first, first, metrics=("acc", "acc_norm"))
    assert (task.difference, kinds(task)) == (0.5, ["normalisation"])
    with pytest.raises(UnknownName, match=r'reports no metric "acc_bytes".*assay rescore'):
        why(first, first, metrics=("acc", "acc_bytes"))


def test_another_extraction_is_shown_with_its_share(run: Run, why: Why, tmp_path: Path) -> None:
    first = run("sums")
    steps = [{"function": "regex", "regex_pattern": "(\\d+)"}, {"function": "take_first"}]
    changes = {"filter_list": [{"name": "first", "filter": steps}]}
    second = rescore(first, scoring=changes, store=tmp_path / "s.db").run_id
    task = why(first, second)
    assert kinds(task) == ["extraction"]
    shown = evidence(task, "extraction")
    assert "2 of 2 identical texts give a different answer" in shown
    assert 'document 0: ["4"] → ["5"]' in shown
    assert f"answers of run {second} under hash: 1.0000 instead of 0.0000" in shown
    assert task.causes[0].points == -1.0


def test_a_rescored_run_with_further_requests_has_the_same_ones(run: Run, why: Why, tmp_path: Path) -> None:
    first = run()
    model = ScriptedModel(answer)
    settings: dict[str, Any] = {"complete": True, "model": model, "store": tmp_path / "s.db"}
    second = rescore(first, metrics="acc_mutual_info", **settings).run_id
    assert kinds(why(first, second)) == ["normalisation"]


def test_another_environment_is_a_note_where_answers_are_shared(run: Run, why: Why, tmp_path: Path) -> None:
    first, second = run(), run(model=Weighed(answer))
    third = run()
    with Store(tmp_path / "s.db") as store:
        for name in (first, second):
            manifest = {**store.runs.get(name).manifest, "python": "3.1"}
            with store._database.write() as connection:
                connection.execute("UPDATE runs SET manifest = ? WHERE id = ?", (json.dumps(manifest), name))
    shared, other = why(first, third), why(second, third)
    assert (kinds(shared), len(shared.caveats)) == ([], 1)
    assert 'python: "3.1" → ' in shared.caveats[0]
    assert kinds(other) == ["model", "environment"]


def test_a_score_that_the_answers_do_not_give_any_more_is_reported(run: Run, why: Why, tmp_path: Path) -> None:
    first, second = run(), run()
    with Store(tmp_path / "s.db") as store:
        record = store.runs.get(first)
        summary = json.loads(json.dumps(record.summary))
        summary["tasks"]["odd"]["metrics"][0]["estimate"]["value"] = 0.25
        store.runs.end(first, "finished", summary)
    task = why(first, second)
    assert (kinds(task), task.difference, task.causes[0].points) == (["record"], 0.25, 0.25)
    assert f"run {first}: 0.25 by version" in evidence(task, "record")
    assert "0.5 today (4 documents recorded, 4 today)" in evidence(task, "record")


def test_tasks_are_paired_by_name_or_by_hand(run: Run, why: Why, tmp_path: Path) -> None:
    both, one = run("odd,sums"), run("sums")
    assert why(both, one).first.task == "sums"
    assert why(both, one, tasks=("odd", "sums")).second.task == "sums"
    with pytest.raises(UnknownName, match=r"has no such task \(did you mean \"odd\"\?\)"):
        why(both, one, tasks=("od", "sums"))
    with pytest.raises(UnknownName, match=r"no task in common.*--tasks A B"):
        explain(both, run("odd@letters"), store=tmp_path / "s.db")


def test_an_interrupted_run_is_compared_by_what_it_answered(run: Run, why: Why, tmp_path: Path) -> None:
    whole = run()

    def stop(request: Request) -> Logprob | Text:
        if "four" in str(getattr(request, "prompt", "")):
            raise KeyboardInterrupt
        return answer(request)

    with pytest.raises(KeyboardInterrupt):
        run(model=ScriptedModel(stop, name="stopped"))
    with Store(tmp_path / "s.db") as store:
        stopped = store.runs.get("last").id
    task = why(whole, stopped)
    assert kinds(task) == ["model", "dataset"]
    assert "documents scored: 4 → 3" in evidence(task, "dataset")
    # Right are three and four of four, then three of three: on the common three both have a third.
    assert task.causes[1].points == pytest.approx(1 / 3 - 1 / 2)
