"""The style `metaicl`: bare inputs and outputs, whose cutting is left to the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.core.errors import DataError, UserError
from assay.core.requests import Demonstrated, Generation, Instance, Loglikelihood
from assay.core.specs import ChatSpec, MetricSpec, TaskOptions
from assay.tasks.lm_eval.task import LmEvalTask
from assay.tasks.lm_eval.variants.style_variants import in_style
from assay.tasks.styles import find_style

Make = Callable[..., LmEvalTask]
Write = Callable[..., Path]

ROWS = [
    {"q": "What colour is the sky?", "options": ["red", "blue"], "label": 1, "p": "Look up."},
    {"q": "What colour is grass?", "options": ["green", "pink"], "label": 0, "p": "Look down."},
    {"q": "What colour is snow?", "options": ["white", "black"], "label": 0, "p": ""},
]
KEYS: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{p}}\nQuestion: {{q}}\nAnswer:",
    "doc_to_target": "label",
    "doc_to_choice": "options",
    "training_split": "train",
    "fewshot_config": {"sampler": "first_n"},
}


def made(make_task: Make, style: str, shots: int = 2, **changes: Any) -> LmEvalTask:
    options = changes.pop("options", TaskOptions(num_fewshot=shots))
    task = make_task({"test": ROWS[:1], "train": ROWS[1:]}, options, **{**KEYS, **changes})
    return LmEvalTask(in_style(task.definition, find_style(style)), options, task._source)


def build(task: LmEvalTask) -> Instance:
    return task.build(task.documents()[0])


def test_inputs_are_context_and_question_and_outputs_the_right_choices(make_task: Make) -> None:
    task = made(make_task, "metaicl", description="Colours.\n")
    prompt = Demonstrated(
        (("Look down.\nWhat colour is grass?", "green"), ("What colour is snow?", "white")),
        "Look up.\nWhat colour is the sky?",
        ("red", "blue"),
        opening="Colours.\n",
    )
    assert build(task).requests == (Loglikelihood(prompt, "\nred"), Loglikelihood(prompt, "\nblue"))
    assert prompt.text == (
        "Colours.\nLook down.\nWhat colour is grass?\ngreen\n\n\nWhat colour is snow?\nwhite\n\n\n"
        "Look up.\nWhat colour is the sky?"
    )
    assert (build(task).gold, build(task).choices) == (1, ("red", "blue"))


def test_the_mean_over_tokens_is_reported_first(make_task: Make) -> None:
    assert [spec.name for spec in made(make_task, "metaicl").scoring.metrics] == ["acc_tokens", "acc", "acc_norm"]
    listed = [{"metric": "f1"}, {"metric": "acc"}, {"metric": "acc_norm"}]
    metrics = made(make_task, "metaicl", metric_list=listed).scoring.metrics
    assert [spec.name for spec in metrics] == ["acc_tokens", "acc", "f1", "acc_norm"]
    assert metrics[0] == MetricSpec("acc_tokens")


def test_the_limit_is_a_setting_of_any_style_and_in_the_record(make_task: Make) -> None:
    task = made(make_task, "metaicl:limit=64")
    (request, _) = build(task).requests
    assert isinstance(request, Loglikelihood) and isinstance(request.prompt, Demonstrated)
    assert (request.prompt.limit, task.card.name, task.card.config["example_limit"]) == (64, "toy@metaicl:limit=64", 64)
    assert "example_limit" not in made(make_task, "cloze").card.config
    (written,) = build(made(make_task, "generate:limit=32", 1)).requests
    assert isinstance(written, Generation) and isinstance(written.prompt, Demonstrated)
    assert written.prompt.demonstrations[0][1] == "A"
    assert (written.prompt.between, written.prompt.after, written.prompt.options) == (" ", "\n\n", ())


def test_a_style_file_has_the_same_settings(make_task: Make, write_yaml: Write) -> None:
    keys = {"prompt": "{{question}}", "answer": "{{choice}}", "delimiter": "=", "example_delimiter": ";", "limit": 9}
    (request, _) = build(made(make_task, str(write_yaml("mine.yaml", keys)), 1)).requests
    shown = Demonstrated((("What colour is grass?", "green"),), "What colour is the sky?", ("red", "blue"), 9, "=", ";")
    assert request == Loglikelihood(shown, "=red")


def test_a_wrong_limit_is_an_error(write_yaml: Write) -> None:
    for change in ("limit=0", "limit=x", "limit="):
        with pytest.raises(UserError, match="unknown change"):
            find_style(f"metaicl:{change}")
    path = write_yaml("mine.yaml", {"prompt": "{{question}}", "answer": "{{choice}}", "limit": 0})
    with pytest.raises(UserError, match="limit: is 0; expected a whole number, 1 or more"):
        find_style(str(path))


def test_in_a_conversation_nothing_could_be_cut(make_task: Make) -> None:
    with pytest.raises(UserError, match="the style metaicl cuts examples to 256 tokens in plain text"):
        made(make_task, "metaicl", options=TaskOptions(chat=ChatSpec(apply=True)))


def test_a_metric_of_whole_prompts_cannot_be_had(make_task: Make) -> None:
    task = made(make_task, "metaicl", metric_list=[{"metric": "acc_opencompass"}])
    with pytest.raises(DataError, match="reads the whole prompt, which with cut examples is known to the model alone"):
        build(task)


def test_a_run_in_the_style_scores_by_tokens(tmp_path: Path) -> None:
    rows = [{"input": f"QX{n}", "output": "yes", "options": ["no", "yes"]} for n in range(4)]
    for split, own in (("train", rows), ("test", [{**row, "asked": True} for row in rows])):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own), encoding="utf-8")
    (tmp_path / "icl.yaml").write_text(
        "task: icl\ndataset_path: json\ntest_split: test\nfewshot_split: train\n"
        "dataset_kwargs: {data_files: {train: train.jsonl, test: test.jsonl}}\n"
        "format: {question: input, choices: options, answer: output}\n",
        encoding="utf-8",
    )
    settings: dict[str, Any] = {"num_fewshot": 3, "fewshot_sampler": "first_n", "store": ":memory:"}
    result = evaluate(
        "ngram", "icl@metaicl", include_path=tmp_path, output_path=tmp_path / "out", log_samples=True, **settings
    )
    request = result.tasks[0].answered[2].instance.requests[1]
    assert isinstance(request, Loglikelihood)
    assert request == Loglikelihood(
        Demonstrated((("QX0", "yes"), ("QX1", "yes"), ("QX2", "yes")), "QX2", ("no", "yes")), "\nyes"
    )
    (samples,) = (tmp_path / "out").rglob("samples_*.jsonl")
    logged = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    assert logged[2]["arguments"]["gen_args_1"]["arg_0"] == "QX0\nyes\n\n\nQX1\nyes\n\n\nQX2\nyes\n\n\nQX2"
    assert result.tasks[0].metric("acc_tokens") is not None
