"""The best of several variants is reported, and never replaces them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

import assay
from assay import evaluate
from assay.core.errors import DataError
from assay.core.requests import Loglikelihood, Request
from assay.run.events import Event, Noticed
from assay.testing import ScriptedModel

QUIZ = {
    "task": "arc_easy",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"train": "rows.jsonl", "test": "rows.jsonl"}},
    "output_type": "multiple_choice",
    "training_split": "train",
    "test_split": "test",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_target": "{{choices.label.index(answerKey)}}",
    "doc_to_choice": "{{choices.text}}",
}


def write(folder: Path) -> None:
    choices = {"text": ["yes", "a much longer no"], "label": ["A", "B"]}
    rows = [{"question": f"{n}?", "choices": choices, "answerKey": "AB"[n % 2]} for n in range(8)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "arc_easy.yaml").write_text(yaml.safe_dump(QUIZ), encoding="utf-8")


def test_olmes_reports_the_better_formulation_and_which_it_is(tmp_path: Path) -> None:
    write(tmp_path)
    result = evaluate("ngram", "arc_easy", store=":memory:", include_path=tmp_path, like="olmes")
    scores = {
        "MCF": result.task("arc_easy@olmes-mcf").metric("acc").estimate.value,
        "CF": result.task("arc_easy@olmes-cf").metric("acc_per_char").estimate.value,
    }
    best = "MCF" if (scores["MCF"] or 0) >= (scores["CF"] or 0) else "CF"
    metric = {"MCF": "acc", "CF": "acc_per_char"}[best]
    line = f"olmes: arc_easy: max(MCF, CF) = {scores[best]:.4f}, from {best} ({metric})"
    assert line in result.notices
    assert [item.metric for item in result.task("arc_easy@olmes-cf").metrics] == ["acc_per_char", "acc_norm", "acc"]


def test_a_rescored_run_says_what_its_profile_said(tmp_path: Path) -> None:
    write(tmp_path)
    store = tmp_path / "runs.db"
    run = evaluate("ngram", "arc_easy", store=store, include_path=tmp_path, like="olmes")
    again = assay.rescore(run.run_id, store=store)
    message = [text for text in run.notices if text.startswith("olmes: ")]
    assert len(message) == 2 and [text for text in again.notices if text.startswith("olmes: ")] == message


def test_a_run_of_an_earlier_profile_is_not_rescored_and_the_profile_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    profile = tmp_path / "mine.yaml"
    text = "description: mine\nsource: {paper: ours}\ndefault: {variants: [{style: cloze, num_fewshot: 0}]}\n"
    profile.write_text(text, encoding="utf-8")
    run = evaluate("ngram", "arc_easy", store=tmp_path / "s.db", include_path=tmp_path, like=str(profile))
    profile.write_text(text.replace("cloze", "letters"), encoding="utf-8")
    with pytest.raises(DataError, match=r'not its prompts: .*arc_easy\.yaml or the profile ".*mine\.yaml" was changed'):
        assay.rescore(run.run_id, store=tmp_path / "s.db")


def write_group(folder: Path, name: str, *tasks: str) -> None:
    for task in tasks:
        (folder / f"{task}.yaml").write_text(yaml.safe_dump({**QUIZ, "task": task}), encoding="utf-8")
    words = f"group: {name}\ntask: [{', '.join(tasks)}]\naggregate_metric_list: [{{metric: acc}}]\n"
    (folder / f"{name}.yaml").write_text(words, encoding="utf-8")


def test_the_best_of_mmlu_is_that_of_its_averages(tmp_path: Path) -> None:
    write(tmp_path)
    write_group(tmp_path, "mmlu", "one", "two")
    result = evaluate("ngram", "mmlu", store=":memory:", include_path=tmp_path, like="olmes", num_fewshot=0)
    assert [group.spec.name for group in result.groups] == ["mmlu@olmes-mcf", "mmlu@olmes-cf"]
    (line,) = [text for text in result.notices if "max(" in text]
    assert line.startswith("olmes: mmlu: max(MCF, CF) = ")


def letters_suit_one_and_texts_two(request: Request) -> float:
    """Knows the answers of task `one` by their letters alone, those of task `two` by their texts alone."""
    assert isinstance(request, Loglikelihood) and isinstance(request.prompt, str)
    task, number = re.findall(r"(one|two) (\d)", request.prompt)[-1]
    is_letter = request.continuation in (" A", " B")
    is_second = request.continuation in (" B", " a much longer no")
    knows = is_letter == (task == "one")
    return -1.0 if (is_second == (int(number) % 2 == 1)) == knows else -99.0


def test_the_score_of_another_group_is_the_mean_of_each_tasks_best(tmp_path: Path) -> None:
    write(tmp_path)
    write_group(tmp_path, "g", "one", "two")
    for name in ("one", "two"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(path.read_text().replace("{{question}}", name + " {{question}}"), encoding="utf-8")
    model = ScriptedModel(letters_suit_one_and_texts_two)
    result = evaluate(model, "g", store=":memory:", include_path=tmp_path, like="olmes", num_fewshot=0)
    # Averaged first, each form would have 0.5.
    assert all(group.metrics == () for group in result.groups)
    line = "olmes: g: mean of the best of 2 tasks = 1.0000: one 1.0000 (MCF), two 1.0000 (CF)"
    assert line in result.notices


def test_nothing_is_combined_without_scores(tmp_path: Path) -> None:
    write(tmp_path)
    result = evaluate("ngram", "arc_easy", store=":memory:", include_path=tmp_path, like="olmes", predict_only=True)
    assert not any("max(" in text for text in result.notices)


def test_what_a_profile_leaves_out_is_reported_before_the_run(tmp_path: Path) -> None:
    write(tmp_path)
    events: list[Event] = []
    evaluate("dummy", "arc_easy", store=":memory:", include_path=tmp_path, like="olmes", listener=events.append)
    message = [event.text for event in events if isinstance(event, Noticed)]
    assert any(text.startswith("olmes: known differences from the tool: ") for text in message)


def test_tasks_in_python_are_left_alone_and_reported() -> None:
    @assay.task("sums", rows=[{"a": 1, "b": 2}])
    def sums(row: dict[str, int]) -> assay.Complete:
        return assay.Complete(f"{row['a']} + {row['b']} =", f" {row['a'] + row['b']}")

    plain = evaluate("dummy", sums, store=":memory:", like="lm-eval")
    result = evaluate("dummy", sums, store=":memory:", like="olmes")
    assert result.tasks[0].name == "sums" and result.tasks[0].prompts == plain.tasks[0].prompts
    assert "olmes: has no rule for tasks written in Python; they run as they are: sums" in result.notices
    assert not any("Python" in line for line in plain.notices)
