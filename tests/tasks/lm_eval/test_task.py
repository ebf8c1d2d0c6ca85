"""Tasks of the dialect: how many examples, from where, and what the card says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.errors import DataError
from assay.core.protocols import Task
from assay.core.specs import TaskOptions
from assay.tasks.lm_eval.task import LmEvalTask
from assay.testing import check_task

Make = Callable[..., LmEvalTask]
KEYS = {"doc_to_text": "{{q}}", "doc_to_target": "a"}


def rows(*names: str) -> list[dict[str, Any]]:
    return [{"q": name, "a": "x"} for name in names]


def prompt(task: LmEvalTask, place: int = 0) -> str:
    return str(task.build(task.documents()[place]).requests[0].prompt)  # type: ignore[union-attr]


def test_a_task_satisfies_its_contract(make_task: Make) -> None:
    task = make_task(rows("a", "b", "c"), num_fewshot=1, **KEYS)
    assert isinstance(task, Task)
    check_task(task)


@pytest.mark.parametrize(
    ("own", "asked", "expected"), [(None, None, 0), (2, None, 2), (2, 1, 1), (0, 3, 0), (None, 3, 3), (2, 0, 0)]
)
def test_the_runs_number_of_examples_wins_except_over_zero(
    make_task: Make, own: int | None, asked: int | None, expected: int
) -> None:
    task = make_task(rows("a"), TaskOptions(num_fewshot=asked), num_fewshot=own, **KEYS)
    assert task.num_fewshot == task.card.num_fewshot == task.card.config["num_fewshot"] == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"fewshot_split": "f", "training_split": "train", "fewshot_config": {"samples": rows("s")}}, "f"),
        ({"training_split": "train", "fewshot_config": {"samples": rows("s")}}, "s"),
        ({"training_split": "train", "validation_split": "dev"}, "train"),
        ({"validation_split": "dev"}, "dev"),
        ({}, "test"),
    ],
)
def test_examples_come_from_the_first_source_there_is(make_task: Make, keys: dict[str, Any], expected: str) -> None:
    data = {"test": rows("test"), "dev": rows("dev"), "train": rows("train"), "f": rows("f")}
    task = make_task(data, TaskOptions(like="lm-eval"), num_fewshot=1, **keys, **KEYS)
    assert prompt(task).startswith(f"{expected} x\n\n")


def test_a_task_without_test_split_keeps_the_document_out(make_task: Make) -> None:
    """lm-eval compares the names of the two splits, and None equals None."""
    task = make_task({"dev": rows(*"abcdef")}, test_split=None, validation_split="dev", num_fewshot=4, **KEYS)
    for place, name in enumerate("abcdef"):
        shown = prompt(task, place).split(" x\n\n")
        assert shown[-1] == name
        assert name not in shown[:-1] and len(shown) == 5


def test_like_lm_eval_a_test_only_task_may_show_the_document_itself(make_task: Make) -> None:
    """The pool falls back on the test split and nothing is kept out."""
    task = make_task(rows("a", "b"), TaskOptions(like="lm-eval"), num_fewshot=2, **KEYS)
    assert prompt(task).count("a x\n\n") == 1


def test_a_missing_few_shot_split_is_reported_at_its_line(make_task: Make) -> None:
    task = make_task(rows("a"), num_fewshot=1, fewshot_split="trian", **KEYS)
    with pytest.raises(DataError, match='toy.yaml:5  fewshot_split: no split "trian"'):
        prompt(task)


def test_a_missing_inner_split_is_reported_at_its_own_line(make_task: Make) -> None:
    task = make_task(rows("a"), num_fewshot=1, fewshot_config={"split": "trian"}, **KEYS)
    with pytest.raises(DataError, match=r'toy.yaml:6  fewshot_config.split: no split "trian"'):
        prompt(task)


def test_documents_are_numbered_in_order(make_task: Make) -> None:
    documents = make_task(rows("a", "b"), **KEYS).documents()
    assert [(document.id, document.task, document.fields["q"]) for document in documents] == [
        (0, "toy", "a"),
        (1, "toy", "b"),
    ]


def test_making_a_task_loads_nothing(make_task: Make) -> None:
    task = make_task({}, **KEYS)
    assert task.card.name == "toy"
    with pytest.raises(DataError, match='test_split: no split "test"'):
        task.documents()


def test_the_card_holds_the_effective_generation_settings(make_task: Make) -> None:
    task = make_task(rows("a"), TaskOptions(generation={"max_gen_toks": 5}), tag="t", **KEYS)
    assert task.card.config["generation_kwargs"]["max_gen_toks"] == 5
    assert "tag" not in task.card.config


def test_predict_only_scores_nothing(make_task: Make) -> None:
    scoring = make_task(rows("a"), TaskOptions(predict_only=True), **KEYS).scoring
    assert [metric.name for metric in scoring.metrics] == ["bypass"]
    assert [pipeline.name for pipeline in scoring.pipelines] == ["none"]


def test_predict_only_keeps_the_filters(make_task: Make) -> None:
    chains = [{"name": name, "filter": [{"function": "take_first"}]} for name in ("strict", "loose")]
    scoring = make_task(rows("a"), TaskOptions(predict_only=True), filter_list=chains, **KEYS).scoring
    assert [pipeline.name for pipeline in scoring.pipelines] == ["strict", "loose"]


def test_seeds_of_the_run_reach_the_draws(make_task: Make) -> None:
    data = {"test": rows("x"), "train": rows(*map(str, range(50)))}
    prompts = {
        prompt(make_task(data, TaskOptions(fewshot_seed=seed), fewshot_split="train", num_fewshot=5, **KEYS))
        for seed in range(5)
    }
    assert len(prompts) == 5
